import { durationText } from '../format/numbers.ts'
import { CopyText } from '../ui/copy-text.tsx'
import { EndFailure, EndText, OptionsUsed, Pairs, type Step, TraceItem } from './trace-item.tsx'

/** A reward function: its version, input, duration and result. */
export function TriedFunctionStep({ step }: { step: Extract<Step, { kind: 'function' }> }) {
  const { role, path, name, hash, kwargs, tookMs, extra, end } = step
  return (
    <TraceItem
      title={`${role === 'manager' ? 'Class' : 'Function'} ${name ?? path}`}
      value={<EndText end={end} />}
    >
      <p className="num flex flex-wrap items-center gap-x-3 text-ink-2">
        <span className="font-mono text-xs">{path}</span>
        <span className="text-xs text-ink-3">
          version <CopyText text={hash} className="text-xs" />, {durationText(tookMs)} in a separate
          process
        </span>
      </p>
      <EndFailure end={end} />
      {extra !== null && Object.keys(extra).length > 0 && <Pairs pairs={Object.entries(extra)} />}
      <OptionsUsed options={kwargs} />
    </TraceItem>
  )
}
