'use client'

import { SAMPLE_FAILURE_TEXT } from '../../server/contract/sample-reason.ts'
import { durationText, formatScore } from '../format/numbers.ts'
import { CopyButton, CopyText } from '../ui/copy-text.tsx'
import {
  EndFailure,
  EndText,
  OptionsUsed,
  Pairs,
  type Step,
  TraceItem,
  type Tried,
} from './trace-item.tsx'
import { TriedJudgeStep } from './tried-judge.tsx'
import { TriedModelStep } from './tried-model.tsx'
import { TriedRuleStep } from './tried-rule.tsx'

export function TriedView({ tried, response }: { tried: Tried; response: string }) {
  const { resolved, steps, manager, rewardExtraInfo, end } = tried
  const kwargs = Object.entries(resolved.kwargs)
  return (
    <div data-tried={end.ok ? 'scored' : 'failed'}>
      <Summary tried={tried} />
      <ol className="px-5 pb-6">
        <TraceItem title="Selected reward" value={tried.rewardName}>
          <p className="text-ink-2">{resolved.why}</p>
          {kwargs.length > 0 && <Pairs pairs={kwargs} />}
        </TraceItem>
        {steps.map((step, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: steps of a trace do not move
          <TriedStep key={at} step={step} response={response} />
        ))}
        {manager && (
          <TraceItem title={`Manager ${manager.name}`} value={formatScore(manager.score)}>
            <p className="text-ink-2">{manager.why}</p>
            {manager.added !== 0 && (
              <p className="num mt-1.5 inline-flex flex-wrap items-baseline gap-x-2 rounded-md bg-sunken px-3 py-1.5 font-mono text-xs">
                <span>{formatScore(manager.rawScore)}</span>
                <span className="text-ink-3">{manager.added < 0 ? '−' : '+'}</span>
                <span>{formatScore(Math.abs(manager.added))}</span>
                <span className="text-ink-3">=</span>
                <span className="font-medium">{formatScore(manager.score)}</span>
              </p>
            )}
          </TraceItem>
        )}
        {tried.group && (
          <TraceItem title="Group post-processing" value={<EndText end={tried.group.end} />}>
            <p className="text-ink-2">
              post_process_scores of <span className="font-mono text-xs">{tried.group.path}</span>,
              called with a group of one sample. Before the call, the score was{' '}
              {formatScore(tried.group.before)}.
            </p>
            <EndFailure end={tried.group.end} />
          </TraceItem>
        )}
        {rewardExtraInfo !== null && Object.keys(rewardExtraInfo).length > 0 && (
          <TraceItem title="Reward extra info" value="rewardExtraInfo" quiet>
            <Pairs pairs={Object.entries(rewardExtraInfo)} />
          </TraceItem>
        )}
      </ol>
    </div>
  )
}

function Summary({ tried }: { tried: Tried }) {
  const { end, tookMs, resolved, rewardName } = tried
  return (
    <header className="border-b px-5 py-4">
      <div className="flex items-baseline gap-x-3">
        <p className="text-xs text-ink-3">
          {resolved.kind === 'rule' ? 'Rule' : 'Reward'} {rewardName}, manager {resolved.manager}
        </p>
        <span className="num ml-auto text-xs whitespace-nowrap text-ink-3">
          {durationText(tookMs)}
        </span>
      </div>
      <div className="mt-0.5 flex items-center gap-3">
        <p className="num text-xl font-medium tracking-tight">
          {end.ok ? (
            formatScore(end.score)
          ) : (
            <span className="inline-flex items-center gap-2">
              <span className="hatch size-3.5 rounded-[2px]" aria-hidden />
              No score
            </span>
          )}
        </p>
        <span className="ml-auto">
          <CopyButton text={JSON.stringify(tried, null, 2)} label="Copy as JSON" />
        </span>
      </div>
      {!end.ok && (
        <div className="mt-3 rounded-md bg-bad-soft px-3 py-2">
          <p className="font-mono text-xs font-medium text-bad">{end.reason}</p>
          <p>{SAMPLE_FAILURE_TEXT[end.reason]}</p>
          {end.detail && <p className="mt-1 break-words text-ink-2">{end.detail}</p>}
        </div>
      )}
    </header>
  )
}

function TriedStep({ step, response }: { step: Step; response: string }) {
  switch (step.kind) {
    case 'rule':
      return <TriedRuleStep step={step} response={response} />
    case 'model':
      return <TriedModelStep step={step} />
    case 'judge':
      return <TriedJudgeStep step={step} />
    case 'function':
      return <TriedFunctionStep step={step} />
    case 'composite':
      return (
        <TraceItem title="Composite reward" value={<EndText end={step.end} />}>
          <Parts parts={step.components} />
          {step.components.map((part) => (
            <div key={part.name} className="mt-3 rounded-md border pt-1">
              <p className="px-4 pt-1 font-mono text-xs font-medium">{part.name}</p>
              <ol className="px-4 pb-3">
                {part.steps.map((one, at) => (
                  // biome-ignore lint/suspicious/noArrayIndexKey: steps of a trace do not move
                  <TriedStep key={at} step={one as Step} response={response} />
                ))}
                {part.steps.length === 0 && <li className="py-1 text-xs text-ink-3">Not run.</li>}
              </ol>
            </div>
          ))}
        </TraceItem>
      )
  }
}

function Parts({ parts }: { parts: Extract<Step, { kind: 'composite' }>['components'] }) {
  return (
    <table className="num mt-1 text-xs">
      <thead className="text-ink-3">
        <tr>
          {['Component', 'Weight', 'Score', 'Contribution'].map((head, at) => (
            <th
              key={head}
              scope="col"
              className={`h-6 pr-6 font-[450] ${at === 0 ? 'text-left' : 'text-right'}`}
            >
              {head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {parts.map(({ name, weight, end }) => (
          <tr key={name} className="h-6">
            <td className="pr-6 font-mono">{name}</td>
            <td className="pr-6 text-right">{formatScore(weight)}</td>
            <td className="pr-6 text-right">
              <EndText end={end} />
            </td>
            <td className="pr-6 text-right">{end.ok ? formatScore(weight * end.score) : '–'}</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function TriedFunctionStep({ step }: { step: Extract<Step, { kind: 'function' }> }) {
  const { role, path, name, hash, kwargs, tookMs, extra, end } = step
  return (
    <TraceItem
      title={`${role === 'manager' ? 'Class' : 'Function'} ${name ?? path}`}
      value={<EndText end={end} />}
    >
      <p className="num flex flex-wrap items-center gap-x-3 text-ink-2">
        <span className="font-mono text-xs">{path}</span>
        <span className="text-xs text-ink-3">
          Version <CopyText text={hash} className="text-xs" />, {durationText(tookMs)} in a separate
          process
        </span>
      </p>
      <EndFailure end={end} />
      {extra !== null && Object.keys(extra).length > 0 && <Pairs pairs={Object.entries(extra)} />}
      <OptionsUsed options={kwargs} />
    </TraceItem>
  )
}
