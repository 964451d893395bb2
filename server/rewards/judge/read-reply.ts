import type { ChatReply } from '../../router/router-types.ts'
import type { JudgeParser } from './parser-spec.ts'
import { readJson } from './read-json.ts'
import { readBoxed, readBracketed, readNumber, readVerdict } from './read-text.ts'
import type { Verdict } from './verdict.ts'

export type ReplyText = Pick<ChatReply, 'content' | 'logprobs'> & {
  /** Whether the reply was cut off at the token limit. Default false. */
  truncated?: boolean
}

/**
 * Reads a judge's reply: one score, or the reason why there is none. Never throws and never returns a default. A
 * model's thoughts before its reply (`<think>…</think>`, if the server leaves them in) are ignored. In a truncated
 * reply, a verdict counts only if it is certainly complete.
 */
export function readReply(reply: ReplyText, parser: JudgeParser): Verdict {
  if (parser.kind === 'yes_no') return readYesNo(reply, parser)
  const text = withoutThinking(reply.content)
  if (text === null) return { ok: false, problem: 'the reply ends while it is still thinking' }
  if (reply.content !== '' && reply.content.trim() === '') {
    return { ok: false, problem: 'the reply is only whitespace' }
  }
  if (reply.truncated === true && parser.kind === 'number') return readCutNumber(text, parser)
  switch (parser.kind) {
    case 'number':
      return readNumber(text, parser)
    case 'bracketed':
      return readBracketed(text, parser)
    case 'boxed':
      return readBoxed(text, parser)
    case 'json':
      return readJson(text, parser)
    case 'verdict':
      return readVerdict(text, parser)
  }
}

/**
 * Reads a number in a truncated reply. The last word is ignored, because it may be incomplete (`1` of `10`).
 * `last_line` without a label finds nothing, because the last line may be missing.
 */
function readCutNumber(text: string, parser: Extract<JudgeParser, { kind: 'number' }>): Verdict {
  if (parser.where === 'last_line' && parser.label === undefined) {
    return { ok: false, problem: 'the last line of the reply may be missing' }
  }
  return readNumber(text.replace(/\S+$/, ''), parser)
}

/**
 * Removes thoughts. Returns null if they lack their closing tag. With some chat templates, the reply has only the
 * closing tag.
 */
function withoutThinking(content: string): string | null {
  const closing = '</think>'
  const at = content.lastIndexOf(closing)
  if (at >= 0) return content.slice(at + closing.length)
  return content.trimStart().startsWith('<think>') ? null : content
}

/**
 * The verdict is P(yes) / (P(yes) + P(no)) at the token that decides. The probabilities of a word's variants (` Yes`,
 * `yes`, `YES` …) are added up. If both words together have less than `minMass`, there is no verdict.
 */
function readYesNo(
  { logprobs, truncated = false }: ReplyText,
  parser: Extract<JudgeParser, { kind: 'yes_no' }>,
): Verdict {
  if (truncated && parser.at === 'last') {
    return { ok: false, problem: 'the last yes or no of the reply may be missing' }
  }
  if (logprobs === null) return { ok: false, problem: 'the reply has no log-probabilities' }
  const side = (token: string) => {
    const word = wordOf(token)
    if (parser.yes.some((yes) => wordOf(yes) === word)) return 'yes'
    return parser.no.some((no) => wordOf(no) === word) ? 'no' : null
  }
  const position =
    parser.at === 'first'
      ? logprobs.find(({ token }) => wordOf(token) !== '')
      : logprobs.findLast(({ token }) => side(token) !== null)
  if (position === undefined) return { ok: false, problem: 'no token of the reply is yes or no' }
  // The chosen token is usually among the alternatives already.
  const alternatives = new Map(position.top.map(({ token, logprob }) => [token, logprob]))
  if (!alternatives.has(position.token)) alternatives.set(position.token, position.logprob)
  const mass = { yes: 0, no: 0 }
  for (const [token, logprob] of alternatives) {
    const of = side(token)
    if (of !== null) mass[of] += Math.exp(Math.min(0, logprob))
  }
  const both = mass.yes + mass.no
  if (!(both > 0) || both < parser.minMass) {
    const percent = (both * 100).toPrecision(2)
    return { ok: false, problem: `yes and no together have ${percent} % of the probability` }
  }
  return { ok: true, value: mass.yes / both, found: position.token }
}

function wordOf(token: string): string {
  return token.replace(/^[\s\u2581\u0120\u010a]+|[\s\u2581]+$/g, '').toLowerCase()
}
