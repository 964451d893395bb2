import type { TriedJudge, TriedVote } from '../../contract/rewards.ts'
import type { RouterChatResult } from '../../router/router-types.ts'
import { type JudgeReply, judgeSample } from '../judge/judge-sample.ts'
import type { JudgeTemplate } from '../judge/judge-template.ts'
import { readReply } from '../judge/read-reply.ts'
import type { RewardSample } from '../managers/manager.ts'
import type { RecordedChat } from './recorded-tools.ts'
import { attemptsOf, failedEnd } from './tried-end.ts'

/**
 * Returns the conversation, replies and parsed verdicts of a judge. The sample is judged again by the same code, which
 * makes its calls in the same order and gets the recorded replies. No server is called.
 */
export async function judgeStep(
  sample: RewardSample,
  template: JudgeTemplate,
  recorded: readonly RecordedChat[],
  startedAtMs: number,
): Promise<TriedJudge> {
  const [first] = recorded as [RecordedChat]
  let next = 0
  const chat = (): Promise<RouterChatResult> =>
    Promise.resolve(recorded[next++]?.result ?? first.result)
  const { model, timeoutMs, maxAttempts } = first.request
  const judged = await judgeSample({ chat }, { model, timeoutMs, maxAttempts, template, sample })
  return {
    kind: 'judge',
    model,
    template: template.name,
    parser: template.parser.kind,
    votes: recorded.map((call, at) => voteOf(call, judged.replies[at]!, template, startedAtMs)),
    combine: template.votes.combine,
    end: judged.ok ? { ok: true, score: judged.score } : failedEnd(judged),
  }
}

function voteOf(
  { request, result }: RecordedChat,
  reply: JudgeReply,
  template: JudgeTemplate,
  startedAtMs: number,
): TriedVote {
  const verdict = result.ok ? readReply(result.reply, template.parser) : null
  return {
    vote: reply.vote,
    swapped: reply.swapped,
    serverName: result.attempts.at(-1)?.serverName ?? null,
    messages: request.chat.messages,
    reply: reply.content,
    reasoning: reply.reasoning,
    read: verdict?.ok ? verdict.found : null,
    value: reply.value,
    problem:
      reply.problem === null || result.ok ? reply.problem : `${result.reason}: ${reply.problem}`,
    promptTokens: reply.promptTokens,
    completionTokens: reply.completionTokens,
    attempts: attemptsOf(result.attempts, startedAtMs),
  }
}
