import { MIN_SHIFT_STEPS } from '../../contract/changes.ts'
import { median } from '../../median.ts'

/** A step of a run with the mean of its scores. */
export interface ShiftStep {
  step: number
  mean: number
}

/** Number of steps that are compared on each side of a change. */
const WINDOW = 2
/**
 * Minimum number of windows from which the usual variation is estimated. With fewer windows, a single shift would
 * itself raise the estimate.
 */
const MANY_WINDOWS = 24
/**
 * Minimum size of a shift, as a multiple of the usual variation. In 1,000 steps with normal noise, the largest multiple
 * is 3.5 to 4.2.
 */
const MIN_DEVIATIONS = 5
/** Factor from a median absolute deviation to a standard deviation, for a normal distribution. */
const NORMAL_MAD = 1.4826

/**
 * Finds the largest sudden change of the mean, by comparing two steps with the two before them. The usual variation is
 * estimated from the differences of neighboring steps, and in long runs also from the differences of neighboring
 * windows, to cover slow swings.
 * @returns the index of the first step after the change; null if no step stands out, or with fewer than {@link
 * MIN_SHIFT_STEPS} steps
 */
export function findShift(steps: readonly ShiftStep[]): number | null {
  if (steps.length < MIN_SHIFT_STEPS) return null
  const at: number[] = []
  const differences: number[] = []
  for (let i = WINDOW; i + WINDOW <= steps.length; i++) {
    at.push(i)
    differences.push(meanOf(steps, i, i + WINDOW) - meanOf(steps, i - WINDOW, i))
  }
  const usual = median(differences)
  const deviations = differences.map((difference) => Math.abs(difference - usual))
  const neighbors = steps.slice(1).map(({ mean }, i) => mean - (steps[i] as ShiftStep).mean)
  const middle = median(neighbors)
  // The difference of two windows varies as much as one step, that of two neighboring steps √2 times as much.
  const noise = median(neighbors.map((value) => Math.abs(value - middle))) / Math.SQRT2
  const swings = differences.length < MANY_WINDOWS ? 0 : median(deviations)
  // Rounding errors of equal means are not variation.
  const scale = Math.max(NORMAL_MAD * noise, NORMAL_MAD * swings, 1e-9)
  const largest = deviations.indexOf(Math.max(...deviations))
  return (deviations[largest] as number) > MIN_DEVIATIONS * scale ? (at[largest] as number) : null
}

function meanOf(steps: readonly ShiftStep[], from: number, to: number): number {
  let sum = 0
  for (let i = from; i < to; i++) sum += (steps[i] as ShiftStep).mean
  return sum / (to - from)
}
