import type { ComparedRunDto, ComparePairDto, StepDelta } from '../../server/contract/compare.ts'
import type { Band } from '../compare/compare-url.ts'
import type { StepRow } from './step-axis.prepare.ts'
import {
  durationTicks,
  logDurationTicks,
  niceTicks,
  pickTicks,
  shareTicks,
  type Tick,
  withGaps,
} from './ticks.ts'

/** Two cumulative distribution functions: the share of samples with a score of at most each value. */
export interface CdfData {
  points: { value: number; first: number; second: number }[]
  valueTicks: Tick[]
}

export function prepareCdf({ values, first, second }: ComparePairDto['cdf']): CdfData {
  const least = Math.min(...values)
  const most = Math.max(...values)
  // Padding makes the first and the last rise of the curves visible.
  const room = (most - least || Math.abs(most) || 1) * 0.05
  const ticks = niceTicks(least - room, most + room)
  const points = values.map((value, at) => ({
    value,
    first: first[at] as number,
    second: second[at] as number,
  }))
  const low = ticks[0]?.at ?? 0
  const high = ticks.at(-1)?.at ?? 1
  // The curves are 0 at the left edge and 1 at the right edge, and rise at the scores.
  return {
    points: [{ value: low, first: 0, second: 0 }, ...points, { value: high, first: 1, second: 1 }]
      .filter(({ value }, at) => at !== 0 || value < (values[0] ?? 0))
      .filter(
        ({ value }, at, all) => at !== all.length - 1 || value > (values.at(-1) ?? 0) || at === 0,
      ),
    valueTicks: ticks,
  }
}

export type OverlayQuantity = 'mean' | 'failedShare' | 'noSignalShare' | 'waitMs'

/** A step with a value per run: `v0` is the value of the first run and `b0` its band. A null is drawn as a gap. */
export interface OverlayStep extends StepRow {
  [value: `v${number}`]: number | null
  [band: `b${number}`]: [number, number] | null
}

export interface OverlayData {
  steps: OverlayStep[]
  ticks: Tick[]
  stepTicks: number[]
  /** Whether durations span a factor of ten or more. The chart then offers a logarithmic axis. */
  isWide: boolean
  /** Number of values of 0, which a logarithmic axis cannot show. */
  zeros: number
}

const BAND_QUANTILES = { middle: [1, 3], most: [0, 4] } as const

/** Overlays runs; hidden runs do not affect the scale. */
export function prepareOverlay(
  runs: readonly ComparedRunDto[],
  quantity: OverlayQuantity,
  options: {
    hidden?: ReadonlySet<string>
    band?: Band
    /** Number of steps per point. */
    width?: number
    log?: boolean
  } = {},
): OverlayData {
  const { hidden = new Set<string>(), band = 'none', width = 1, log = false } = options
  const shown = runs.map((run) => !hidden.has(run.name))
  const bySteps = runs.map((run) => new Map(run.step.map((step, at) => [step, at])))
  const numbers = [...new Set(runs.flatMap(({ step }) => step))].sort((a, b) => a - b)
  const values: number[] = []
  let zeros = 0
  const known = new Set(numbers)
  const steps = withGaps(numbers, (step) => lastStep(step, width)).map((step): OverlayStep => {
    const row: OverlayStep = {
      step,
      ...(width > 1 && known.has(step) && { last: lastStep(step, width) }),
    }
    for (const [r, run] of runs.entries()) {
      const at = bySteps[r]?.get(step)
      let value = at === undefined ? null : (run[quantity][at] ?? null)
      if (log && value !== null && value <= 0) {
        if (shown[r]) zeros++
        value = null
      }
      row[`v${r}`] = value
      if (shown[r] && value !== null) values.push(value)
      if (quantity !== 'mean' || (band === 'none' && width === 1)) continue
      // The band of a bin is the range of its step means, so that a single outlying step stays visible.
      const [low, high] =
        at === undefined
          ? []
          : band === 'none'
            ? (run.means[at] ?? [])
            : BAND_QUANTILES[band].map((q) => run.quantiles[q]?.[at] ?? null)
      const isMissing = low === null || low === undefined || high === null || high === undefined
      row[`b${r}`] = isMissing ? null : [low, high]
      if (shown[r] && !isMissing) values.push(low, high)
    }
    return row
  })
  const positive = values.filter((value) => value > 0)
  const [least, most] = [leastOf(positive), mostOf(positive)]
  return {
    ...{ steps, zeros, stepTicks: pickTicks(numbers, 8) },
    ticks: log && least <= most ? logDurationTicks(least, most) : ticksOf(quantity, values),
    isWide: quantity === 'waitMs' && most >= least * 10,
  }
}

const leastOf = (values: readonly number[]) =>
  values.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY)
const mostOf = (values: readonly number[]) =>
  values.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY)

/** The last step of the bin that contains `step`. Bins start at multiples of their width, except the first bin. */
export function lastStep(step: number, width: number): number {
  return (Math.floor(step / width) + 1) * width - 1
}

function ticksOf(quantity: OverlayQuantity, values: readonly number[]): Tick[] {
  const most = values.reduce((a, b) => Math.max(a, b), 0)
  if (quantity === 'waitMs') return durationTicks(Math.max(1, most))
  if (quantity !== 'mean') return shareTicks(most)
  return niceTicks(leastOf(values), mostOf(values))
}

export interface DeltaData {
  steps: (StepRow & { delta: number | null; interval: [number, number] | null; n: string })[]
  ticks: Tick[]
  stepTicks: number[]
}

/**
 * Prepares the chart of the differences between two runs. Each point covers `width` steps. `ticks` sets a scale shared
 * with other charts.
 */
export function prepareDeltas(
  deltas: readonly StepDelta[],
  { ticks, width = 1 }: { ticks?: Tick[]; width?: number } = {},
): DeltaData {
  const byStep = new Map(deltas.map((one) => [one.step, one]))
  const numbers = [...byStep.keys()].sort((a, b) => a - b)
  return {
    steps: withGaps(numbers, (step) => lastStep(step, width)).map((step) => {
      const at = byStep.get(step)
      return {
        step,
        ...(at !== undefined && width > 1 && { last: lastStep(step, width) }),
        delta: at?.delta ?? null,
        interval: at === undefined ? null : [at.low, at.high],
        n:
          at === undefined
            ? ''
            : `${at.nFirst.toLocaleString('en-US')} and ${at.nOther.toLocaleString('en-US')}`,
      }
    }),
    ticks: ticks ?? deltaTicks(deltas),
    stepTicks: pickTicks(numbers, 6),
  }
}

export function deltaTicks(deltas: readonly StepDelta[]): Tick[] {
  return niceTicks(
    deltas.reduce((least, { low }) => Math.min(least, low), 0),
    deltas.reduce((most, { high }) => Math.max(most, high), 0),
  )
}
