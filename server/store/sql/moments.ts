/**
 * Postgres raises an overflow over the squares of numbers beyond this, and with it the whole statement: one batch of such
 * scores would keep all others from being summed up. Their mean and deviation are null; least and greatest are told.
 */
const LARGEST = '1e150'

/**
 * Both aggregates square n times a number: 20,000 scores of 9e149 overflow. Over numbers 2¹⁴ times smaller, ten million of
 * 1e150 do not, and as it is a power of two nothing is rounded by it. What is nearer to 0 than 1e-290 might vanish, which is an
 * error too: it counts as 0, which its square is in any case.
 */
const DOWN = 2 ** -14

/**
 * SQL of an aggregate that squares numbers up to 1e150, of any count up to ten million. The rows that `where` keeps must
 * have one.
 */
export function scaled(aggregate: 'avg' | 'stddev_samp', value: string, where: string): string {
  return `${aggregate}(case when abs(${value}) > 1e-290 then ${value} * ${DOWN} else 0 end)
    filter (where ${where}) * ${1 / DOWN}`
}

/** SQL of the mean over `value` (null where there is none, or one is beyond 1e150), of the rows that `where` keeps. */
export function meanOf(value: string, where = 'true'): string {
  return `case when max(abs(${value})) filter (where ${where}) < ${LARGEST}
    then ${scaled('avg', value, `${where} and abs(${value}) < ${LARGEST}`)} end`
}

/** SQL of the standard deviation with n − 1, as {@link meanOf}. */
export function deviationOf(value: string): string {
  return `case when max(abs(${value})) < ${LARGEST}
    then ${scaled('stddev_samp', value, `abs(${value}) < ${LARGEST}`)} end`
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
