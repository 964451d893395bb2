/** The median: with an even number of values, the mean of the two middle ones. NaN if there are no values. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const upper = sorted[sorted.length >> 1] ?? Number.NaN
  return sorted.length % 2 === 1
    ? upper
    : ((sorted[(sorted.length >> 1) - 1] ?? Number.NaN) + upper) / 2
}
