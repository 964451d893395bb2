import type { ComparedRunDto, ComparePairDto, StepDelta } from '../../server/contract/compare.ts'
import type { Band } from '../compare/compare-url.ts'
import { durationTicks, niceTicks, pickTicks, shareTicks, type Tick, withGaps } from './ticks.ts'

/** Two cumulative distribution functions: the share of samples with a score of at most each value. */
export interface CdfData {
  points: { value: number; first: number; second: number }[]
  valueTicks: Tick[]
}

export function prepareCdf({ values, first, second }: ComparePairDto['cdf']): CdfData {
  const least = Math.min(...values)
  const most = Math.max(...values)
  // Padding, so that the first and the last step are visible.
  const room = (most - least || Math.abs(most) || 1) * 0.05
  const ticks = niceTicks(least - room, most + room)
  const points = values.map((value, at) => ({
    value,
    first: first[at] as number,
    second: second[at] as number,
  }))
  const low = ticks[0]?.at ?? 0
  const high = ticks.at(-1)?.at ?? 1
  // 0 at the left edge, 1 at the right edge; steps are at the positions of the scores.
  return {
    points: [{ value: low, first: 0, second: 0 }, ...points, { value: high, first: 1, second: 1 }]
      .filter(({ value }, at) => at !== 0 || value < (values[0] ?? 0))
      .filter(
        ({ value }, at, all) => at !== all.length - 1 || value > (values.at(-1) ?? 0) || at === 0,
      ),
    valueTicks: ticks,
  }
}

/** The quantity of a run that is drawn over its steps. */
export type OverlayQuantity = 'mean' | 'failedShare' | 'noSignalShare' | 'waitMs'

/** A step with a value per run: `v0` is the value of the first run and `b0` its band; null: none, drawn as a gap. */
export interface OverlayStep {
  step: number
  [value: `v${number}`]: number | null
  [band: `b${number}`]: [number, number] | null
}

/** Runs over steps, prepared for drawing. */
export interface OverlayData {
  steps: OverlayStep[]
  ticks: Tick[]
  stepTicks: number[]
}

const BAND_QUANTILES = { middle: [1, 3], most: [0, 4] } as const

/** Overlays runs; hidden runs do not affect the scale. */
export function prepareOverlay(
  runs: readonly ComparedRunDto[],
  quantity: OverlayQuantity,
  options: { hidden?: ReadonlySet<string>; band?: Band } = {},
): OverlayData {
  const { hidden = new Set<string>(), band = 'none' } = options
  const shown = runs.map((run) => !hidden.has(run.name))
  const bySteps = runs.map((run) => new Map(run.step.map((step, at) => [step, at])))
  const numbers = [...new Set(runs.flatMap(({ step }) => step))].sort((a, b) => a - b)
  const values: number[] = []
  const steps = withGaps(numbers).map((step): OverlayStep => {
    const row: OverlayStep = { step }
    for (const [r, run] of runs.entries()) {
      const at = bySteps[r]?.get(step)
      const value = at === undefined ? null : (run[quantity][at] ?? null)
      row[`v${r}`] = value
      if (shown[r] && value !== null) values.push(value)
      if (band === 'none' || quantity !== 'mean') continue
      const [low, high] = BAND_QUANTILES[band].map((q) =>
        at === undefined ? null : (run.quantiles[q]?.[at] ?? null),
      )
      const pair = low === null || low === undefined || high === null || high === undefined
      row[`b${r}`] = pair ? null : [low, high]
      if (shown[r] && !pair) values.push(low, high)
    }
    return row
  })
  return { steps, ticks: ticksOf(quantity, values), stepTicks: pickTicks(numbers, 8) }
}

function ticksOf(quantity: OverlayQuantity, values: readonly number[]): Tick[] {
  const most = values.reduce((a, b) => Math.max(a, b), 0)
  if (quantity === 'waitMs') return durationTicks(Math.max(1, most))
  if (quantity !== 'mean') return shareTicks(most)
  return niceTicks(
    values.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY),
    values.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY),
  )
}

/** The differences of one run from the first, with intervals. */
export interface DeltaData {
  steps: { step: number; delta: number | null; interval: [number, number] | null; n: string }[]
  ticks: Tick[]
  stepTicks: number[]
}

/** Prepares differences by step; `ticks` sets a shared scale for comparison. */
export function prepareDeltas(deltas: readonly StepDelta[], ticks?: Tick[]): DeltaData {
  const byStep = new Map(deltas.map((one) => [one.step, one]))
  const numbers = [...byStep.keys()].sort((a, b) => a - b)
  return {
    steps: withGaps(numbers).map((step) => {
      const at = byStep.get(step)
      return {
        step,
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

/** Ticks that include 0 and every interval. */
export function deltaTicks(deltas: readonly StepDelta[]): Tick[] {
  return niceTicks(
    deltas.reduce((least, { low }) => Math.min(least, low), 0),
    deltas.reduce((most, { high }) => Math.max(most, high), 0),
  )
}
