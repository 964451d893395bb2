import type { ComponentDto } from '../../server/contract/rewards.ts'
import { niceTicks, pickTicks, type Tick, withGaps } from './ticks.ts'

/** A component at one step. At a step without the component, values are null and drawn as a gap. */
interface ComponentStep {
  step: number
  mean: number | null
  std: number | null
  /**
   * Mean minus and plus one standard deviation. Null if there is no standard deviation, or if all scores of the
   * component are 0 or 1.
   */
  band: [low: number, high: number] | null
  n: number
}

export interface ComponentData {
  /** Empty for the reward itself. */
  name: string
  weight: number | null
  steps: ComponentStep[]
  last: ComponentStep | null
  valueTicks: Tick[]
  stepTicks: number[]
}

/**
 * Prepares components on a shared step scale, each with its own value scale. Batches of one step are merged; steps
 * further apart than the median distance leave a gap.
 */
export function prepareComponents(components: readonly ComponentDto[]): ComponentData[] {
  const all = [...new Set(components.flatMap(({ points }) => points.map(({ step }) => step)))]
  all.sort((a, b) => a - b)
  const stepTicks = pickTicks(all, 6)
  return components.map(({ name, weight, points }) => {
    const byStep = Map.groupBy(points, ({ step }) => step)
    const isPassRate = points.every(isOfZerosAndOnes)
    const steps = withGaps(all).map((step): ComponentStep => {
      const here = byStep.get(step)
      if (here === undefined) return { step, mean: null, std: null, band: null, n: 0 }
      const merged = together(here)
      return { step, ...merged, ...(isPassRate && { band: null }) }
    })
    const drawn = steps.filter(({ mean }) => mean !== null)
    const lows = drawn.map(({ band, mean }) => band?.[0] ?? (mean as number))
    const highs = drawn.map(({ band, mean }) => band?.[1] ?? (mean as number))
    return {
      name,
      weight,
      steps,
      last: drawn.at(-1) ?? null,
      valueTicks: niceTicks(Math.min(...lows), Math.max(...highs)),
      stepTicks,
    }
  })
}

/** The weighted means of a step by component, which add up to the mean reward without penalties. */
export type ContributionStep = {
  step: number
  sum: number | null
  [part: `part:${string}`]: number | null
}

export interface ContributionData {
  steps: ContributionStep[]
  names: string[]
  valueTicks: Tick[]
  stepTicks: number[]
}

/** Prepares `weight × mean` of each component. Returns null if there are fewer than two weighted components. */
export function prepareContributions(components: readonly ComponentDto[]): ContributionData | null {
  const parts = components.filter(({ name, weight }) => name !== '' && weight !== null)
  if (parts.length < 2) return null
  const numbers = [...new Set(parts.flatMap(({ points }) => points.map(({ step }) => step)))]
  numbers.sort((a, b) => a - b)
  const byStep = parts.map(({ points }) => Map.groupBy(points, ({ step }) => step))
  const steps = withGaps(numbers).map((step): ContributionStep => {
    const row: ContributionStep = { step, sum: null }
    for (const [at, { name, weight }] of parts.entries()) {
      const points = byStep[at]?.get(step)
      const n = points?.reduce((sum, point) => sum + point.n, 0) ?? 0
      row[`part:${name}`] =
        points === undefined || n === 0
          ? null
          : points.reduce(
              (sum, point) => sum + ((point.weight ?? weight ?? 0) * point.mean * point.n) / n,
              0,
            )
    }
    const values = parts.flatMap(({ name }) => row[`part:${name}`] ?? [])
    if (values.length > 0) row.sum = values.reduce((sum, value) => sum + value, 0)
    return row
  })
  const stacked = (sign: 1 | -1) =>
    steps.map((row) =>
      parts.reduce((sum, { name }) => {
        const value = row[`part:${name}`] ?? 0
        return value * sign > 0 ? sum + value : sum
      }, 0),
    )
  return {
    steps,
    names: parts.map(({ name }) => name),
    valueTicks: niceTicks(Math.min(0, ...stacked(-1)), Math.max(0, ...stacked(1))),
    stepTicks: pickTicks(numbers, 8),
  }
}

type Point = ComponentDto['points'][number]

/**
 * True if every score of a point is 0 or 1. Among scores from 0 to 1 with the mean p, only zeros and ones have the
 * variance p (1 − p). Such components get no band, because one standard deviation could extend below 0 or above 1.
 */
function isOfZerosAndOnes({ mean, std, n }: Point): boolean {
  if (std === null) return mean === 0 || mean === 1
  return Math.abs((std ** 2 * (n - 1)) / n - mean * (1 - mean)) < 1e-9
}

function together(points: readonly Point[]): Omit<ComponentStep, 'step'> {
  const n = points.reduce((sum, point) => sum + point.n, 0)
  const mean = points.reduce((sum, point) => sum + (point.mean * point.n) / n, 0)
  const squares = points.reduce(
    (sum, point) =>
      sum + (point.std ?? 0) ** 2 * Math.max(0, point.n - 1) + point.n * (point.mean - mean) ** 2,
    0,
  )
  const std = n > 1 ? Math.sqrt(squares / (n - 1)) : null
  return { mean, std, band: std === null ? null : [mean - std, mean + std], n }
}
