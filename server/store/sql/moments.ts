/**
 * Postgres raises an overflow over the squares of numbers beyond this, and with it the whole statement: one batch of such
 * scores would keep all others from being summed up. Their mean and deviation are null; least and greatest are told.
 */
const LARGEST = '1e150'

/** SQL of the mean over `value` (null where there is none, or one is beyond 1e150), of the rows that `where` keeps. */
export function meanOf(value: string, where = 'true'): string {
  return `case when max(abs(${value})) filter (where ${where}) < ${LARGEST}
    then avg(${value}) filter (where ${where} and abs(${value}) < ${LARGEST}) end`
}

/** SQL of the standard deviation with n − 1, as {@link meanOf}. */
export function deviationOf(value: string): string {
  return `case when max(abs(${value})) < ${LARGEST}
    then stddev_samp(${value}) filter (where abs(${value}) < ${LARGEST}) end`
}

/** SQL of quantiles (an array, null as {@link meanOf}), linear between neighbours. */
export function quantilesOf(value: string, at: readonly number[]): string {
  return `case when max(abs(${value})) < ${LARGEST}
    then percentile_cont(array[${at.join(', ')}]) within group (order by ${value}) filter (where abs(${value}) < ${LARGEST}) end`
}

/** Beyond this, squares of sums of ten million numbers overflow, and with them the statement. */
const LARGEST_OF_TWO = '1e140'

/** SQL of Pearson's correlation of two numbers; null where one does not vary, or is beyond 1e140. */
export function correlationOf(a: string, b: string): string {
  return `case when max(abs(${a})) < ${LARGEST_OF_TWO} and max(abs(${b})) < ${LARGEST_OF_TWO}
    then corr(${a}, ${b}) filter (where abs(${a}) < ${LARGEST_OF_TWO} and abs(${b}) < ${LARGEST_OF_TWO}) end`
}
