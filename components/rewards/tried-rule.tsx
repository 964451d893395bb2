import { CircleCheck, CircleX } from 'lucide-react'
import type { ReactNode } from 'react'
import { correctnessOf } from '../../server/contract/verdicts.ts'
import { formatCount } from '../format/numbers.ts'
import { capitalized, sentence } from '../format/text.ts'
import { Parts, RolloutText } from '../rollouts/raw-text.tsx'
import { excerptAround } from './excerpt.prepare.ts'
import { EndFailure, EndText, OptionsUsed, type Step, TraceItem } from './trace-item.tsx'

type RuleStep = Extract<Step, { kind: 'rule' }>

export function TriedRuleStep({ step, response }: { step: RuleStep; response: string }) {
  const { where, found, forms, comparison, verdict, end } = step
  return (
    <>
      {(where !== null || found !== null) && (
        <TraceItem title="Answer" value={found === null ? 'Not found' : undefined}>
          {where !== null && <p className="text-ink-2">{sentence(where)}</p>}
          <Found found={found} response={response} />
        </TraceItem>
      )}
      {(forms.length > 0 || comparison !== null) && (
        <TraceItem title="Comparison">
          {forms.length > 0 && <Forms forms={forms} />}
          {comparison !== null && <p className="mt-2 text-xs text-ink-3">Compared {comparison}.</p>}
        </TraceItem>
      )}
      <TraceItem title={`Rule ${step.rule}`} value={<EndText end={end} />}>
        <p className="text-ink-2">{step.title}</p>
        {verdict !== null && <Verdict verdict={verdict} />}
        <EndFailure end={end} />
        <OptionsUsed options={step.options} />
      </TraceItem>
    </>
  )
}

function Verdict({ verdict }: { verdict: string }) {
  const isRight = correctnessOf(verdict) === 'correct'
  const Icon = isRight ? CircleCheck : CircleX
  return (
    <p
      className={`mt-1 inline-flex items-center gap-1.5 ${isRight ? 'text-ok' : 'text-ink-2'}`}
      data-verdict={verdict}
    >
      <Icon size={14} aria-hidden />
      {verdict}
    </p>
  )
}

/**
 * The part of the response around the highlighted answer. An answer that was joined from several places in the response
 * is shown on its own.
 */
function Found({ found, response }: { found: string | null; response: string }) {
  if (found === null) return null
  const excerpt = excerptAround(response, found)
  if (excerpt === null) {
    return (
      <div className="mt-2">
        <RolloutText text={found} maxChars={800} />
      </div>
    )
  }
  const { before, after, cutBefore, cutAfter } = excerpt
  return (
    <div className="mt-2 rounded-md bg-sunken px-3 py-2 font-mono text-xs leading-[19px] break-words whitespace-pre-wrap text-ink-2 [overflow-wrap:anywhere]">
      {cutBefore > 0 && <Cut n={cutBefore} />}
      <Parts text={before} />
      <mark className="rounded-[3px] bg-[color-mix(in_oklab,var(--accent)_20%,transparent)] px-0.5 font-medium text-ink">
        <Parts text={found} />
      </mark>
      <Parts text={after} />
      {cutAfter > 0 && <Cut n={cutAfter} />}
    </div>
  )
}

function Cut({ n }: { n: number }) {
  return <span className="num font-sans text-ink-3">… {formatCount(n)} characters … </span>
}

function Forms({ forms }: { forms: RuleStep['forms'] }) {
  return (
    <div className="mt-1 overflow-hidden rounded-md border">
      <div className="grid grid-cols-2 border-b text-xs text-ink-3">
        <span className="px-3 py-1.5">Response</span>
        <span className="border-l px-3 py-1.5">Ground truth</span>
      </div>
      {forms.map(({ step, response, groundTruth }, at) => {
        const isLast = at === forms.length - 1
        return (
          <div key={step} className={`grid grid-cols-2 ${isLast ? '' : 'border-b'}`}>
            <p className="col-span-2 px-3 pt-1.5 text-2xs text-ink-3">{capitalized(step)}</p>
            <Side strong={isLast}>{response}</Side>
            <Side strong={isLast}>{groundTruth}</Side>
          </div>
        )
      })}
    </div>
  )
}

function Side({ strong, children }: { strong: boolean; children: string | null }): ReactNode {
  return (
    <span
      className={`px-3 pb-1.5 font-mono text-xs leading-5 whitespace-pre-wrap [overflow-wrap:anywhere] ${strong ? 'font-medium' : 'text-ink-2'}`}
    >
      {children === null ? (
        <span className="font-sans font-normal text-ink-3">None</span>
      ) : children === '' ? (
        <span className="font-sans font-normal text-ink-3">Empty</span>
      ) : (
        <Parts text={children} />
      )}
    </span>
  )
}
