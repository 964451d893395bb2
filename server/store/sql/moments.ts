/**
 * Statistics are null if a number exceeds this limit. The squares of such numbers overflow, which is an error in
 * Postgres, and one batch with such scores would fail the statement that rolls up several batches.
 */
const LARGEST = '1e150'

/**
 * Factor by which {@link scaled} multiplies numbers before it aggregates them. Over n rows, `avg` and `stddev_samp`
 * square numbers as large as n × value, so 20,000 scores of 9e149 overflow. With this factor, ten million scores of
 * 1e150 do not. Multiplying by a power of two does not round.
 */
const DOWN = 2 ** -14

/**
 * SQL of an aggregate that squares numbers up to 1e150, for up to ten million numbers. All rows kept by `where` must
 * have a number. A number closer to 0 than 1e-290 counts as 0, because its square might underflow, which is an error in
 * Postgres too.
 */
export function scaled(aggregate: 'avg' | 'stddev_samp', value: string, where: string): string {
  return `${aggregate}(case when abs(${value}) > 1e-290 then ${value} * ${DOWN} else 0 end)
    filter (where ${where}) * ${1 / DOWN}`
}

/**
 * SQL of the mean of `value` over the rows kept by `where`; null if there are no such rows or a number exceeds 1e150.
 */
export function meanOf(value: string, where = 'true'): string {
  return `case when max(abs(${value})) filter (where ${where}) < ${LARGEST}
    then ${scaled('avg', value, `${where} and abs(${value}) < ${LARGEST}`)} end`
}

/**
 * SQL of the standard deviation (n − 1) of `value`; null for fewer than two rows, or if a number exceeds 1e150. It is 0
 * for equal numbers, for which Postgres would return a rounding error such as 4e-15.
 */
export function deviationOf(value: string): string {
  return `case when count(${value}) > 1 and min(${value}) = max(${value}) then 0
    when max(abs(${value})) < ${LARGEST} then ${scaled('stddev_samp', value, `abs(${value}) < ${LARGEST}`)} end`
}

/** SQL for an array of linearly interpolated quantiles; null under the same conditions as {@link meanOf}. */
export function quantilesOf(value: string, at: readonly number[]): string {
  return `case when max(abs(${value})) < ${LARGEST}
    then percentile_cont(array[${at.join(', ')}]) within group (order by ${value}) filter (where abs(${value}) < ${LARGEST}) end`
}

/**
 * Limit of the numbers in {@link correlationOf}, which squares sums of numbers. The squared sum of ten million numbers
 * above this limit overflows, which is an error in Postgres.
 */
export const LARGEST_OF_TWO = '1e140'

/** SQL of Pearson's correlation of two numbers; null if one of the two does not vary or exceeds 1e140. */
export function correlationOf(a: string, b: string): string {
  return `case when max(abs(${a})) < ${LARGEST_OF_TWO} and max(abs(${b})) < ${LARGEST_OF_TWO}
    then corr(${a}, ${b}) filter (where abs(${a}) < ${LARGEST_OF_TWO} and abs(${b}) < ${LARGEST_OF_TWO}) end`
}
