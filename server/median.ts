/**
 * Returns the median. With an even number of values, it is the mean of the two middle values. Returns NaN if there are
 * no values.
 */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const upper = sorted[sorted.length >> 1] ?? Number.NaN
  return sorted.length % 2 === 1
    ? upper
    : ((sorted[(sorted.length >> 1) - 1] ?? Number.NaN) + upper) / 2
}

/** Factor from a median absolute deviation to a standard deviation, for a normal distribution. */
const NORMAL_MAD = 1.4826

/**
 * Returns the standard deviation as estimated from the median absolute deviation, which a few outliers do not raise.
 */
export function robustDeviation(values: readonly number[]): number {
  const middle = median(values)
  return NORMAL_MAD * median(values.map((value) => Math.abs(value - middle)))
}
