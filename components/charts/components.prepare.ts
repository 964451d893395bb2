import type { ComponentDto } from '../../server/wire/rewards.ts'
import { significant } from '../format/numbers.ts'

/** A component at one step; nulls where the run has no step: a gap stays one. */
export interface ComponentStep {
  step: number
  mean: number | null
  std: number | null
  /** Mean less and plus one deviation. */
  band: [low: number, high: number] | null
  n: number
}

/** A component over the steps, ready to draw. */
export interface ComponentData {
  /** Empty: the reward itself. */
  name: string
  weight: number | null
  steps: ComponentStep[]
  /** At the newest step. */
  last: ComponentStep | null
  valueTicks: { at: number; label: string }[]
  stepTicks: number[]
}

/**
 * Prepares components on one scale of steps, each on its own of values. Batches of one step are put together; where the
 * distance of two steps is more than the run's usual one, there is a gap.
 */
export function prepareComponents(components: readonly ComponentDto[]): ComponentData[] {
  const all = [...new Set(components.flatMap(({ points }) => points.map(({ step }) => step)))]
  all.sort((a, b) => a - b)
  const stepTicks = pickTicks(all, 6)
  return components.map(({ name, weight, points }) => {
    const byStep = Map.groupBy(points, ({ step }) => step)
    const steps = withGaps(all).map((step): ComponentStep => {
      const here = byStep.get(step)
      return here === undefined
        ? { step, mean: null, std: null, band: null, n: 0 }
        : { step, ...together(here) }
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

type Point = ComponentDto['points'][number]

/** Several batches of a step as one: mean and deviation of all their samples. */
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

/** The steps, with one between two that lie further apart than the run's usual distance. */
function withGaps(steps: readonly number[]): number[] {
  const distances = steps.slice(1).map((step, at) => step - (steps[at] as number))
  const usual = distances.toSorted((a, b) => a - b)[(distances.length - 1) >> 1] ?? 1
  return steps.flatMap((step, at) => {
    const before = steps[at - 1]
    return before !== undefined && step - before > usual ? [before + usual, step] : [step]
  })
}

/** At most so many of the steps, evenly. */
function pickTicks(steps: readonly number[], most: number): number[] {
  if (steps.length <= most) return [...steps]
  const every = Math.ceil((steps.length - 1) / (most - 1))
  return steps.filter((_, at) => at % every === 0)
}

/** Three to six round values that hold both. */
function niceTicks(low: number, high: number): { at: number; label: string }[] {
  if (!Number.isFinite(low) || !Number.isFinite(high)) return [{ at: 0, label: '0' }]
  const span = high - low || Math.abs(high) || 1
  const raw = span / 4
  const power = 10 ** Math.floor(Math.log10(raw))
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((one) => one >= raw) ?? raw
  const first = Math.floor(low / step)
  const last = Math.max(first + 1, Math.ceil(high / step))
  return Array.from({ length: last - first + 1 }, (_, at) => {
    const value = (first + at) * step
    return {
      at: value,
      label: significant(Math.abs(value) < step / 1e6 ? 0 : value, 4).replace('-', '−'),
    }
  })
}
