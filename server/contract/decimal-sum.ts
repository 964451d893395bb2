/** Number of significant decimal digits that a double always preserves. */
const DIGITS = 15

/**
 * Sums numbers and removes the rounding errors of decimal fractions, so that 0.7 + 0.2 + 0.1 is 1, not
 * 0.9999999999999999, which is below a pass threshold of 1. The sum is rounded to 15 significant digits of the largest
 * number.
 */
export function decimalSum(numbers: readonly number[]): number {
  const sum = numbers.reduce((total, number) => total + number, 0)
  const largest = Math.max(Math.abs(sum), ...numbers.map(Math.abs))
  const places = DIGITS - 1 - Math.floor(Math.log10(largest))
  // Larger numbers are whole, infinite or NaN; smaller ones have more digits than `toFixed` returns.
  if (!(places >= 0 && places <= 100)) return sum
  // + 0 turns −0 into 0.
  return Number(sum.toFixed(places)) + 0
}
