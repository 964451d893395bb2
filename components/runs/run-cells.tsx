'use client'

import { excludesZero } from '../../server/contract/intervals.ts'
import type { ConfigValue } from '../../server/contract/run-config.ts'
import type { RunChangeDto, RunTableRowDto } from '../../server/contract/run-table.ts'
import { Sparkline } from '../charts/sparkline.tsx'
import { useHue } from '../charts/use-hue.ts'
import { formatCount, formatScore, formatSignedWithin, plural } from '../format/numbers.ts'
import { ageText, dateTime } from '../format/time.ts'
import { useNow } from '../live/live-provider.tsx'
import { RunStatusView } from '../ui/status.tsx'

/** The definition of a stalled run. The 5 minutes are STALLED_AFTER_MS of the service. */
const STALLED = 'For 5 minutes, no group has completed and no samples have arrived.'

export function RunState({
  run: { status, since, pending },
}: {
  run: Pick<RunTableRowDto, 'status' | 'since' | 'pending'>
}) {
  const now = useNow()
  if (status === 'idle' && since === null) return <span className="text-ink-3">No batches</span>
  const sinceMs = since === null ? null : Date.parse(since)
  const age = sinceMs === null || now === 0 ? undefined : ageText(now - sinceMs)
  const samples = `${plural(pending, 'sample')} pending.`
  const ended = sinceMs === null ? '' : ` The last batch ended ${dateTime(sinceMs)}.`
  const title = {
    scoring: samples,
    stalled: `${samples} ${STALLED}`,
    idle: `No samples are pending.${ended}`,
  }[status]
  return (
    <RunStatusView
      status={status}
      title={title}
      {...(age !== undefined && status !== 'scoring' ? { age } : {})}
    />
  )
}

export function RunCurve({
  run,
  curve,
  height = 24,
}: {
  run: string
  curve: readonly { step: number; mean: number }[]
  height?: number
}) {
  const color = useHue('run', run)
  const [first, last] = [curve[0], curve.at(-1)]
  if (first === undefined || last === undefined) return null
  return (
    <Sparkline
      fit
      readings={curve.map(({ mean }) => mean)}
      slots={curve.length}
      height={height}
      color={color}
      label={`Mean reward of ${run}, steps ${formatCount(first.step)} to ${formatCount(last.step)}: from ${formatScore(first.mean)} to ${formatScore(last.mean)}`}
    />
  )
}

/** A change with the half-width of its 95 % confidence interval; paler if the interval includes 0. */
export function RunChange({ change }: { change: RunChangeDto | null }) {
  if (change === null) return <span className="text-ink-3">–</span>
  const { value, low, high, steps } = change
  const isClear = excludesZero(change)
  return (
    <span
      className={`num whitespace-nowrap ${isClear ? '' : 'text-ink-3'}`}
      title={`Change in the mean reward over the last ${formatCount(steps)} steps, from a linear trend. 95 % confidence interval from ${formatScore(low)} to ${formatScore(high)}${isClear ? '' : ': no clear change'}.`}
    >
      {formatSignedWithin(value, (high - low) / 2)}
      <span className="unit">&nbsp;±&nbsp;{formatScore((high - low) / 2)}</span>
    </span>
  )
}

export const TAG_CHIP =
  'max-w-36 shrink-0 truncate rounded border px-1 text-2xs leading-4 font-normal text-ink-2'

export function configText(value: ConfigValue): string {
  return typeof value === 'number' && value !== 0 && Math.abs(value) < 0.001
    ? value.toExponential()
    : String(value)
}
