const PORTION = 32_768

export interface Moments {
  n: number
  mean: number | null
  /** Sample standard deviation (divisor n − 1); null with fewer than two scores. */
  std: number | null
  min: number | null
  max: number | null
}

/**
 * Computes the moments in two passes. If a score exceeds 1e100, all are scaled down first, so that their squares do not
 * overflow.
 */
export function* momentsOf(values: Float64Array): Generator<void, Moments> {
  const n = values.length
  if (n === 0) return { n, mean: null, std: null, min: null, max: null }
  let min = Number.POSITIVE_INFINITY
  let max = Number.NEGATIVE_INFINITY
  for (let at = 0; at < n; at++) {
    const value = values[at] as number
    if (value < min) min = value
    if (value > max) max = value
  }
  yield
  if (min === max) return { n, mean: min, std: n < 2 ? null : 0, min, max }
  const scale = scaleOf(min, max)
  let sum = 0
  for (let at = 0; at < n; at++) sum += (values[at] as number) / scale
  yield
  const mean = sum / n
  let squares = 0
  for (let at = 0; at < n; at++) squares += ((values[at] as number) / scale - mean) ** 2
  yield
  return { n, mean: mean * scale, std: Math.sqrt(squares / (n - 1)) * scale, min, max }
}

function scaleOf(min: number, max: number): number {
  const widest = Math.max(Math.abs(min), Math.abs(max))
  return widest > 1e100 ? widest : 1
}

/**
 * Returns Pearson's correlation of two lists of equal length, or Spearman's if the lists are ranks. Returns null if all
 * values of a list are equal or there are fewer than two values.
 */
export function* pearson(
  first: Float64Array,
  second: Float64Array,
): Generator<void, number | null> {
  const a = yield* momentsOf(first)
  const b = yield* momentsOf(second)
  if (a.std === null || b.std === null || a.std === 0 || b.std === 0) return null
  const [meanA, meanB] = [a.mean as number, b.mean as number]
  // Values are divided by the standard deviation, so that their squares do not overflow.
  const [stdA, stdB] = [a.std, b.std]
  let both = 0
  let ofFirst = 0
  let ofSecond = 0
  for (let at = 0; at < first.length; at++) {
    const x = ((first[at] as number) - meanA) / stdA
    const y = ((second[at] as number) - meanB) / stdB
    both += x * y
    ofFirst += x * x
    ofSecond += y * y
    if (at % PORTION === PORTION - 1) yield
  }
  return Math.max(-1, Math.min(1, both / Math.sqrt(ofFirst * ofSecond)))
}

/**
 * Returns Cohen's κ of two ratings in the same classes, or null if κ is undefined. `counts[i][j]` is the number of
 * items rated i by the first and j by the second.
 */
export function cohensKappa(counts: readonly (readonly number[])[]): number | null {
  const rows = counts.map((row) => row.reduce((sum, n) => sum + n, 0))
  const columns = counts.map((_, at) => counts.reduce((sum, row) => sum + (row[at] as number), 0))
  const n = rows.reduce((sum, row) => sum + row, 0)
  if (n === 0) return null
  const observed = counts.reduce((sum, row, at) => sum + (row[at] as number), 0) / n
  const expected = rows.reduce((sum, row, at) => sum + row * (columns[at] as number), 0) / (n * n)
  return expected === 1 ? null : (observed - expected) / (1 - expected)
}
