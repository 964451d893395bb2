import type { SampleFailureReason } from '../../contract/sample-reason.ts'
import { mediaIn } from '../../contract/turn-text.ts'
import type {
  AttemptRecord,
  ChatRequest,
  RewardRouter,
  RouteRequest,
} from '../../router/router-types.ts'
import type { RewardOutcome, RewardSample } from '../managers/manager.ts'
import type { JudgeTemplate } from './judge-template.ts'
import { fillIn, type JudgedTexts, placeholderValue } from './placeholders.ts'
import { readReply } from './read-reply.ts'
import type { Verdict } from './verdict.ts'
import { combineVotes } from './votes.ts'

/** A sample to judge. The fields of `RouteRequest` apply to the calls of every vote. */
export interface JudgeRequest extends RouteRequest {
  template: JudgeTemplate
  sample: Pick<RewardSample, 'prompt' | 'solutionStr' | 'messages' | 'groundTruth' | 'extraInfo'>
}

/** A judge's reply. It is kept even if no verdict could be read from it. */
export interface JudgeReply {
  /** Vote number from 0. A pair judged in both orders has two replies per vote. */
  vote: number
  /** Whether the response was shown second. */
  swapped: boolean
  content: string | null
  reasoning: string | null
  /** The value in the reply, from the response's point of view; null if the reply has none (see `problem`). */
  value: number | null
  side: 'response' | 'other' | 'tie' | null
  reason: SampleFailureReason | null
  problem: string | null
  serverId: number | null
  promptTokens: number | null
  completionTokens: number | null
  truncated: boolean
}

/** Tokens of all calls. Null if any call has no reply, or a reply without token counts. */
export interface JudgeUsage {
  promptTokens: number
  completionTokens: number
}

export type JudgeOutcome = (
  | { ok: true; score: number; extra: Record<string, unknown> }
  | { ok: false; reason: SampleFailureReason; detail: string }
) & { replies: JudgeReply[]; usage: JudgeUsage | null; attempts: AttemptRecord[] }

/**
 * Judges a sample by k concurrent votes, which are parsed and combined as the template says. If at most half of the
 * votes could be read, or there is no majority, the sample fails with the most frequent reason of its votes, and its
 * replies are kept. Never rejects, and a failure is never a score.
 */
export async function judgeSample(
  router: Pick<RewardRouter, 'chat'>,
  request: JudgeRequest,
): Promise<JudgeOutcome> {
  const { template, sample } = request
  const { prompt, messages } = sample
  const part = mediaIn([...(typeof prompt === 'string' ? [] : prompt), ...(messages ?? [])])
  if (part !== null) {
    return refused('rejected', `a message has a part of type ${part}, and judges get text only`)
  }
  const orders = ordersOf(template, sample)
  if (!orders.ok) {
    const detail = `the judge template uses {${orders.missing}}, which the sample lacks`
    return refused('function_error', detail)
  }
  const votes = await Promise.all(
    Array.from({ length: template.votes.k }, (_, vote) =>
      Promise.all(orders.orders.map((order) => ask(router, request, order, vote))),
    ),
  )
  const replies = votes.flat().map(({ reply }) => reply)
  const usage = usageOf(replies)
  const attempts = votes.flat().flatMap((call) => call.attempts)
  const common = { replies, usage, attempts }
  const read = votes.map((calls) => valueOfVote(calls, template))
  const combined = combineVotes(read, template.votes.combine)
  if (!combined.ok) return { ok: false, ...failureOf(replies, combined.problem), ...common }
  const extra = extraOf(template, read, votes, usage)
  return { ok: true, score: combined.value, extra, ...common }
}

/** Converts a judge's outcome to a reward outcome, without the replies, because they are stored as texts. */
export function rewardOutcomeOf(outcome: JudgeOutcome): RewardOutcome {
  const { attempts, usage } = outcome
  const spent = {
    attempts,
    ...(usage === null ? {} : { tokens: usage.promptTokens + usage.completionTokens }),
  }
  return outcome.ok
    ? { ok: true, score: outcome.score, extra: outcome.extra, ...spent }
    : { ok: false, reason: outcome.reason, detail: outcome.detail, ...spent }
}

/** Number of characters that a failure detail quotes from the end of a truncated reply. A detail has at most 300. */
const CUT_OFF_CHARS = 160

interface Order {
  swapped: boolean
  messages: ChatRequest['messages']
}

function ordersOf(
  template: JudgeTemplate,
  sample: JudgeRequest['sample'],
): { ok: true; orders: Order[] } | { ok: false; missing: string } {
  const { prompt, groundTruth, extraInfo, solutionStr } = sample
  const texts: JudgedTexts = { prompt, groundTruth, extraInfo }
  const shown: { swapped: boolean; texts: JudgedTexts }[] = []
  if (template.kind === 'pair') {
    const against = placeholderValue(template.pair.against, texts)
    if (against === undefined || against === null) {
      return { ok: false, missing: template.pair.against }
    }
    const other = typeof against === 'string' ? against : JSON.stringify(against)
    const first = { ...texts, responseA: solutionStr, responseB: other }
    shown.push({ swapped: false, texts: first })
    if (template.pair.swap) {
      const second = { ...texts, responseA: other, responseB: solutionStr }
      shown.push({ swapped: true, texts: second })
    }
  } else shown.push({ swapped: false, texts: { ...texts, response: solutionStr } })
  const orders: Order[] = []
  for (const { swapped, texts: values } of shown) {
    const messages: Order['messages'] = []
    for (const { role, content } of template.turns) {
      const filled = fillIn(content, values)
      if (!filled.ok) return filled
      messages.push({ role, content: filled.text })
    }
    orders.push({ swapped, messages })
  }
  return { ok: true, orders }
}

interface JudgeCall {
  reply: JudgeReply
  attempts: AttemptRecord[]
}

async function ask(
  router: Pick<RewardRouter, 'chat'>,
  { template, sample: _, ...route }: JudgeRequest,
  { swapped, messages }: Order,
  vote: number,
): Promise<JudgeCall> {
  const { sampling, parser } = template
  const { seed, ...rest } = sampling
  const result = await router.chat({
    ...route,
    ...(route.key === undefined ? {} : { key: `${route.key}:${vote}${swapped ? 's' : ''}` }),
    chat: {
      messages,
      ...chosen(rest),
      // Each vote has a different seed, because votes with the same seed would be equal.
      ...(seed === undefined ? {} : { seed: seed + vote }),
      ...(parser.kind === 'yes_no' ? { topLogprobs: parser.topLogprobs } : {}),
      ...(parser.kind === 'json' && parser.schema !== undefined
        ? { jsonSchema: { name: 'verdict', schema: parser.schema } }
        : {}),
    },
  })
  const { attempts } = result
  const nothing = { vote, swapped, value: null, side: null }
  if (!result.ok) {
    const { reason, detail: problem } = result
    const serverId = attempts.at(-1)?.serverId ?? null
    const none = { content: null, reasoning: null, serverId, truncated: false }
    const tokens = { promptTokens: null, completionTokens: null }
    return { reply: { ...nothing, ...none, ...tokens, reason, problem }, attempts }
  }
  const { content, reasoning, promptTokens, completionTokens, truncated } = result.reply
  const { serverId } = result
  const said = { content, reasoning, promptTokens, completionTokens, serverId, truncated }
  const verdict = readReply(result.reply, parser)
  if (!verdict.ok) {
    const problem = truncated
      ? `${verdict.problem}: ${cutOff(content, sampling.maxTokens)}`
      : verdict.problem
    const failed = { reason: 'unparseable' as const, problem }
    return { reply: { ...nothing, ...said, ...failed }, attempts }
  }
  const read = { ...fromResponse(verdict, swapped, template), reason: null, problem: null }
  return { reply: { vote, swapped, ...said, ...read }, attempts }
}

/** Describes a truncated reply by its end, which shows whether it needed more tokens or would never have stopped. */
function cutOff(content: string, maxTokens: number | undefined): string {
  const limit = maxTokens === undefined ? "the server's own token limit" : `maxTokens ${maxTokens}`
  const end =
    content.trim() === '' ? 'only whitespace' : `it ended: …${content.slice(-CUT_OFF_CHARS)}`
  return `cut off at ${limit} (finish_reason length); ${content === '' ? 'the reply is empty' : end}`
}

/** Returns a verdict's value and winner from the response's point of view, regardless of the order of the pair. */
function fromResponse(
  verdict: Extract<Verdict, { ok: true }>,
  swapped: boolean,
  { kind, parser }: JudgeTemplate,
): Pick<JudgeReply, 'value' | 'side'> {
  const { value, side } = verdict
  if (kind !== 'pair' || side === undefined || parser.kind !== 'verdict') {
    return { value, side: null }
  }
  if (side === 'tie') return { value, side: 'tie' }
  return (side === 'A') !== swapped
    ? { value: parser.a, side: 'response' }
    : { value: parser.b, side: 'other' }
}

/** The value of a vote; null if a reply could not be read. If the two orders of a pair disagree, the vote is a tie. */
function valueOfVote(calls: readonly JudgeCall[], { parser }: JudgeTemplate): number | null {
  const [first, second] = calls
  if (!first || first.reply.value === null) return null
  if (second === undefined) return first.reply.value
  if (second.reply.value === null) return null
  if (first.reply.side === second.reply.side) return first.reply.value
  return parser.kind === 'verdict' ? parser.tie : null
}

function failureOf(
  replies: readonly JudgeReply[],
  problem: string,
): { reason: SampleFailureReason; detail: string } {
  const failed = replies.filter(({ reason }) => reason !== null)
  const counts = new Map<SampleFailureReason, number>()
  for (const { reason } of failed) if (reason) counts.set(reason, (counts.get(reason) ?? 0) + 1)
  const most = Math.max(0, ...counts.values())
  const reason = [...counts].find(([, count]) => count === most)?.[0] ?? 'unparseable'
  const example = failed.find((reply) => reply.reason === reason)
  const single = replies.length === 1
  const detail = [single ? null : problem, example?.problem].filter(Boolean).join('; ')
  return { reason, detail }
}

function usageOf(replies: readonly JudgeReply[]): JudgeUsage | null {
  const usage: JudgeUsage = { promptTokens: 0, completionTokens: 0 }
  for (const { promptTokens, completionTokens } of replies) {
    if (promptTokens === null || completionTokens === null) return null
    usage.promptTokens += promptTokens
    usage.completionTokens += completionTokens
  }
  return usage
}

/** The cost at the template's price, or null if the tokens are unknown. */
function costOf(
  usage: JudgeUsage | null,
  price: NonNullable<JudgeTemplate['price']>,
): number | null {
  if (usage === null) return null
  const { promptTokens, completionTokens } = usage
  return (promptTokens * price.promptPer1k + completionTokens * price.completionPer1k) / 1_000
}

/** Returns the extra info of a sample. It is flat, with one type of value per key, so that each key can be a column. */
function extraOf(
  template: JudgeTemplate,
  read: readonly (number | null)[],
  votes: readonly (readonly JudgeCall[])[],
  usage: JudgeUsage | null,
): Record<string, unknown> {
  const pairs = template.kind === 'pair' && template.pair.swap
  const inconsistent = votes.filter(([a, b]) => {
    const sides = [a?.reply.side, b?.reply.side]
    return sides.every((side) => side) && sides[0] !== sides[1]
  })
  return {
    judge: template.name,
    judge_votes: read,
    judge_failed_votes: read.filter((value) => value === null).length,
    judge_truncated_replies: votes.flat().filter(({ reply }) => reply.truncated).length,
    ...(pairs ? { judge_inconsistent_votes: inconsistent.length } : {}),
    judge_prompt_tokens: usage?.promptTokens ?? null,
    judge_completion_tokens: usage?.completionTokens ?? null,
    ...(template.price === null ? {} : { judge_cost: costOf(usage, template.price) }),
  }
}

function refused(reason: SampleFailureReason, detail: string): JudgeOutcome {
  return {
    ok: false,
    reason,
    detail,
    replies: [],
    usage: { promptTokens: 0, completionTokens: 0 },
    attempts: [],
  }
}

/** Drops undefined keys, so that unset options are not sent. */
function chosen<Options extends object>(
  options: Options,
): { [Key in keyof Options]: NonNullable<Options[Key]> } {
  const entries = Object.entries(options).filter(([, value]) => value !== undefined)
  return Object.fromEntries(entries) as never
}
