import { MIN_SHIFT_STEPS } from '../../contract/changes.ts'
import { median, robustDeviation } from '../../median.ts'

export interface ShiftStep {
  step: number
  mean: number
}

/** Number of steps that are compared on each side of a change. */
const WINDOW = 2
/**
 * Minimum number of windows for their differences to count in the estimate of the usual variation. With fewer windows,
 * a single shift would itself raise the estimate.
 */
const MANY_WINDOWS = 24
/**
 * Minimum size of a shift, as a multiple of the usual variation. In 1,000 steps with normal noise, the largest multiple
 * is 3.5 to 4.2.
 */
const MIN_DEVIATIONS = 5
const MAX_SHIFTS = 8

/**
 * Finds the sudden changes of the mean, by comparing two steps with the two before them. The usual variation is
 * estimated from the differences of neighboring steps and windows. Of changes less than two steps apart, only the
 * largest counts.
 * @returns the indexes of the first steps after the changes, the largest change first; empty if no step stands out or
 * there are fewer than {@link MIN_SHIFT_STEPS} steps
 */
export function findShifts(steps: readonly ShiftStep[]): number[] {
  if (steps.length < MIN_SHIFT_STEPS) return []
  const at: number[] = []
  const differences: number[] = []
  for (let i = WINDOW; i + WINDOW <= steps.length; i++) {
    at.push(i)
    differences.push(meanOf(steps, i, i + WINDOW) - meanOf(steps, i - WINDOW, i))
  }
  const usual = median(differences)
  const deviations = differences.map((difference) => Math.abs(difference - usual))
  const neighbors = steps.slice(1).map(({ mean }, i) => mean - (steps[i] as ShiftStep).mean)
  // The difference of two windows varies as much as a single step. The difference of two neighboring steps varies √2
  // times as much.
  const noise = robustDeviation(neighbors) / Math.SQRT2
  const swings = differences.length < MANY_WINDOWS ? 0 : robustDeviation(differences)
  // The minimum of 1e-9 ignores rounding errors between equal means.
  const scale = Math.max(noise, swings, 1e-9)
  const found: number[] = []
  const largestFirst = deviations
    .map((deviation, window) => ({ deviation, at: at[window] as number }))
    .filter(({ deviation }) => deviation > MIN_DEVIATIONS * scale)
    .toSorted((a, b) => b.deviation - a.deviation)
  for (const one of largestFirst) {
    if (found.length === MAX_SHIFTS) break
    if (found.every((other) => Math.abs(other - one.at) >= WINDOW)) found.push(one.at)
  }
  return found
}

function meanOf(steps: readonly ShiftStep[], from: number, to: number): number {
  let sum = 0
  for (let i = from; i < to; i++) sum += (steps[i] as ShiftStep).mean
  return sum / (to - from)
}
