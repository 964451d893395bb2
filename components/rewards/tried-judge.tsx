import { CircleX } from 'lucide-react'
import { formatScore, plural } from '../format/numbers.ts'
import { PromptText } from '../rollouts/prompt-text.tsx'
import { Parts, RolloutText } from '../rollouts/raw-text.tsx'
import { ServerName } from '../servers/server-cells.tsx'
import { excerptAround } from './excerpt.prepare.ts'
import { EndFailure, EndText, type Step, TraceItem } from './trace-item.tsx'
import { Calls } from './tried-model.tsx'

type JudgeStep = Extract<Step, { kind: 'judge' }>
type Vote = JudgeStep['votes'][number]

export function TriedJudgeStep({ step }: { step: JudgeStep }) {
  const { model, template, parser, votes, combine, end } = step
  return (
    <>
      {votes.map((vote) => (
        <TraceItem
          key={`${vote.vote}${vote.swapped}`}
          title={titleOf(vote, votes)}
          value={vote.value === null ? 'Not parsed' : formatScore(vote.value)}
        >
          <VoteView vote={vote} parser={parser} />
        </TraceItem>
      ))}
      <TraceItem title={`Judge ${model}`} value={<EndText end={end} />}>
        <p className="num text-ink-2">
          Template {template}
          {votes.length > 1 && `, the ${combine} of ${plural(votesOf(votes), 'vote')}`}
          {votes.some(({ swapped }) => swapped) && ', each in both orders'}.
        </p>
        <EndFailure end={end} />
      </TraceItem>
    </>
  )
}

function votesOf(votes: readonly Vote[]): number {
  return new Set(votes.map(({ vote }) => vote)).size
}

function titleOf(vote: Vote, all: readonly Vote[]): string {
  const which = votesOf(all) > 1 ? `Vote ${vote.vote + 1}` : 'Judge request'
  const isPair = all.some(({ swapped }) => swapped)
  return isPair ? `${which}, response shown ${vote.swapped ? 'second' : 'first'}` : which
}

function VoteView({ vote, parser }: { vote: Vote; parser: string }) {
  const { messages, reply, reasoning, read, problem, serverName, attempts } = vote
  const tokens = [
    vote.promptTokens === null ? null : `${plural(vote.promptTokens, 'token')} in`,
    vote.completionTokens === null ? null : `${plural(vote.completionTokens, 'token')} out`,
  ].filter((part) => part !== null)
  return (
    <>
      <p className="num flex flex-wrap items-center gap-x-3 text-xs text-ink-3">
        {serverName !== null && <ServerName name={serverName} />}
        {tokens.join(', ')}
      </p>
      <details className="mt-1.5">
        <summary className="text-xs text-ink-3 hover:text-ink">
          {plural(messages.length, 'message')} sent
        </summary>
        <div className="mt-1.5">
          <PromptText prompt={messages} />
        </div>
      </details>
      {reasoning !== null && (
        <details className="mt-1.5">
          <summary className="text-xs text-ink-3 hover:text-ink">Reasoning</summary>
          <div className="mt-1.5">
            <RolloutText text={reasoning} maxChars={1_200} />
          </div>
        </details>
      )}
      {reply !== null && (
        <div className="mt-2">
          <p className="mb-0.5 text-2xs text-ink-3">Reply, parsed by {parser}</p>
          <Reply reply={reply} read={read} />
        </div>
      )}
      {problem !== null && (
        <p className="mt-1.5 flex items-start gap-1.5 text-xs text-bad">
          <CircleX size={14} className="mt-px shrink-0" aria-hidden />
          {problem}
        </p>
      )}
      <Calls calls={attempts} />
    </>
  )
}

function Reply({ reply, read }: { reply: string; read: string | null }) {
  const excerpt = read === null ? null : excerptAround(reply, read)
  if (excerpt === null) return <RolloutText text={reply} maxChars={1_600} />
  const { before, found, after, cutBefore, cutAfter } = excerpt
  return (
    <div className="rounded-md bg-sunken px-3 py-2 font-mono text-xs leading-[19px] break-words whitespace-pre-wrap text-ink-2 [overflow-wrap:anywhere]">
      {cutBefore > 0 && '… '}
      <Parts text={before} />
      <mark className="rounded-[3px] bg-[color-mix(in_oklab,var(--accent)_20%,transparent)] px-0.5 font-medium text-ink">
        <Parts text={found} />
      </mark>
      <Parts text={after} />
      {cutAfter > 0 && ' …'}
    </div>
  )
}
