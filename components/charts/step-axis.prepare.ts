import { formatCount } from '../format/numbers.ts'
import { dateTime } from '../format/time.ts'
import { partitionPoint } from './partition-point.ts'
import type { XAxisBy } from './step-axis.ts'

export interface StepRow {
  step: number
  /** The last step of a bin. */
  last?: number
  /** Set if only other runs have this point. `x` is its position on a time axis. */
  other?: { x: number }
  /** Whether the row has no values and is drawn as a gap on a time axis. */
  isPause?: boolean
}

export type Placed<T> = T & { x: number }

/** The step, or the range of a bin: `4,992–5,007`. */
export function stepText({ step, last = step }: StepRow): string {
  return last === step ? formatCount(step) : `${formatCount(step)}–${formatCount(last)}`
}

export function stepOfText(text: string): StepRow {
  const [step = 0, last = step] = text.replaceAll(',', '').split('–').map(Number)
  return { step, last }
}

export function stepTitle(row: StepRow, timeMs: number | null): string {
  if (row.other && timeMs !== null) return dateTime(timeMs)
  const text = `${row.last === undefined || row.last === row.step ? 'Step' : 'Steps'} ${stepText(row)}`
  return timeMs === null ? text : `${text}, ${dateTime(timeMs)}`
}

/**
 * Returns the time at which the batch of a step was accepted. The steps can be in any order; of equal steps, the last
 * one counts. Between two known steps, for example in a bin, the time is interpolated. A step before or after all known
 * steps has no time.
 */
export function timesOf(
  steps: readonly { step: number; submittedAt: string }[],
): (step: number) => number | null {
  const msOf = new Map(steps.map(({ step, submittedAt }) => [step, Date.parse(submittedAt)]))
  const known = [...msOf].map(([step, ms]) => ({ step, ms })).sort((a, b) => a.step - b.step)
  return (step) => {
    const at = partitionPoint(known.length, (index) => (known[index]?.step ?? step) < step)
    const after = known[at]
    const before = known[at - 1]
    if (after?.step === step) return after.ms
    if (before === undefined || after === undefined) return null
    const share = (step - before.step) / (after.step - before.step)
    return before.ms + share * (after.ms - before.ms)
  }
}

/**
 * Places rows on the axis. On a time axis, rows are sorted by time, because a step that was submitted again can be
 * later than the step after it. Rows without a time are omitted.
 */
export function placeSteps<T extends StepRow>(
  rows: readonly T[],
  by: XAxisBy,
  timeOf: (step: number) => number | null,
): Placed<T>[] {
  if (by === 'step') return rows.map((row) => ({ ...row, x: row.step }))
  return rows
    .flatMap((row) => {
      const x = row.other?.x ?? timeOf(row.step)
      return x === null ? [] : [{ ...row, x }]
    })
    .sort((a, b) => a.x - b.x)
}

/** Steps that are further apart than this multiple of the median distance are separated by a pause of the run. */
const PAUSE_FACTOR = 10

/** Adds a row without values to each pause of a time axis, so that lines have a gap there. */
export function withPauses<T extends StepRow>(rows: readonly Placed<T>[]): Placed<T>[] {
  const distances = rows.slice(1).map(({ x }, at) => x - (rows[at] as Placed<T>).x)
  const usual = distances.toSorted((a, b) => a - b)[(distances.length - 1) >> 1] ?? 0
  return rows.flatMap((row, at) => {
    const distance = distances[at - 1] ?? 0
    if (usual === 0 || distance <= usual * PAUSE_FACTOR) return [row]
    const pause = { step: row.step, x: row.x - distance / 2, isPause: true }
    return [pause as unknown as Placed<T>, row]
  })
}

export function stepsBetween(
  rows: readonly Placed<StepRow>[],
  from: number,
  to: number,
): { from: number; to: number } | null {
  const inside = rows.filter(({ x, other, isPause }) => !other && !isPause && x >= from && x <= to)
  if (inside.length === 0) return null
  return {
    from: inside.reduce((least, { step }) => Math.min(least, step), Number.POSITIVE_INFINITY),
    to: inside.reduce((most, { step, last = step }) => Math.max(most, last), 0),
  }
}
