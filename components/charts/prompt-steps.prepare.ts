import { Z_95 } from '../../server/contract/intervals.ts'
import type { PromptStepDto, PromptVisitDto } from '../../server/contract/prompts.ts'
import { meanInterval } from './mean-interval.ts'
import { niceTicks, pickTicks, shareTicks, type Tick, withGaps } from './ticks.ts'

/** The classes of groups by pass rate, the lowest first. */
export const PASS_LEVELS = ['none', 'some', 'most', 'all'] as const
export type PassLevel = (typeof PASS_LEVELS)[number]

/** The share of a step's groups in each class, 0 to 1. Null if the run has no such step. */
export type PassStep = { step: number; batchId: string | null; groups: number } & Record<
  PassLevel,
  number | null
>

export interface PassData {
  steps: PassStep[]
  stepTicks: number[]
}

export function preparePassShares(steps: readonly PromptStepDto[]): PassData | null {
  if (steps.every(({ groups }) => groups === null)) return null
  const byStep = new Map(steps.map((step) => [step.step, step]))
  const numbers = [...byStep.keys()]
  return {
    steps: withGaps(numbers).map((step) => {
      const at = byStep.get(step)
      const counts = at?.groups ?? null
      const groups = counts === null ? 0 : PASS_LEVELS.reduce((n, level) => n + counts[level], 0)
      const shares = PASS_LEVELS.map((level) => [
        level,
        counts === null || groups === 0 ? null : counts[level] / groups,
      ])
      return { step, batchId: at?.batchId ?? null, groups, ...Object.fromEntries(shares) }
    }),
    stepTicks: pickTicks(numbers, 6),
  }
}

/** The value of pass@k or best of k at a step, for each k. Null if no group has k scored samples. */
export type KStep = { step: number; batchId: string | null; groups: number } & {
  [k: `k:${number}`]: number | null
}

export interface KData {
  steps: KStep[]
  ks: number[]
  valueTicks: Tick[]
  stepTicks: number[]
}

export function prepareByK(
  steps: readonly PromptStepDto[],
  kind: 'passAt' | 'bestOf',
): KData | null {
  const ks = [...new Set(steps.flatMap((step) => step[kind]?.map(({ k }) => k) ?? []))]
  if (ks.length === 0) return null
  ks.sort((a, b) => a - b)
  const byStep = new Map(steps.map((step) => [step.step, step]))
  const numbers = [...byStep.keys()]
  const values = steps.flatMap((step) => step[kind]?.map(({ value }) => value) ?? [])
  return {
    steps: withGaps(numbers).map((step) => {
      const at = byStep.get(step)
      const row: KStep = {
        step,
        batchId: at?.batchId ?? null,
        groups: Math.max(0, ...(at?.[kind]?.map(({ groups }) => groups) ?? [])),
      }
      for (const k of ks) row[`k:${k}`] = at?.[kind]?.find((one) => one.k === k)?.value ?? null
      return row
    }),
    ks,
    valueTicks:
      kind === 'passAt'
        ? shareTicks(Math.max(...values))
        : niceTicks(Math.min(...values), Math.max(...values)),
    stepTicks: pickTicks(numbers, 6),
  }
}

/** Whether best of k equals pass@k everywhere, because all scores are 0 or 1. */
export function isBestOfPassAt(steps: readonly PromptStepDto[]): boolean {
  return steps.every(({ passAt, bestOf }) =>
    bestOf.every(({ k, value }) => {
      const passes = passAt?.find((one) => one.k === k)
      return passes !== undefined && Math.abs(passes.value - value) < 1e-9
    }),
  )
}

export interface VisitStep {
  step: number
  /** The position among all visits; null for a gap. */
  at: number | null
  rate: number | null
  /** The 95 % confidence interval of the rate; null for a single sample. */
  interval: [number, number] | null
  n: number
}

export interface VisitData {
  steps: VisitStep[]
  /** Whether all rates are pass rates. Otherwise they are mean scores. */
  passRates: boolean
  valueTicks: Tick[]
  stepTicks: number[]
}

/**
 * Prepares the chart of a prompt's visits. Intervals of pass rates are Wilson intervals; intervals of means assume a
 * normal distribution.
 */
export function prepareVisits(visits: readonly PromptVisitDto[]): VisitData {
  const passRates = visits.every(({ passed }) => passed !== null)
  const steps = visits.map(({ step, scored: n, passed, mean, std }, at): VisitStep => {
    const rate = passRates ? (passed as number) / n : mean
    const half = std === null ? 0 : (Z_95 * std) / Math.sqrt(n)
    return {
      ...{ step, at, rate, n },
      interval: passRates
        ? meanInterval(
            { mean: rate, error: Math.sqrt((rate * (1 - rate)) / n), groups: n },
            { min: 0, max: 1 },
          )
        : std === null
          ? null
          : [rate - half, rate + half],
    }
  })
  const drawn = steps.flatMap(({ rate, interval }) => [rate as number, ...(interval ?? [])])
  return {
    ...{ steps, passRates },
    valueTicks: passRates ? shareTicks(1) : niceTicks(Math.min(...drawn), Math.max(...drawn)),
    stepTicks: pickTicks([...new Set(steps.map(({ step }) => step))], 8),
  }
}
