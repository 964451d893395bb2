/**
 * The 97.5 % point of the normal distribution: a 95 % confidence interval reaches this many standard errors to each
 * side.
 */
export const Z_95 = 1.959964

/** True if an interval excludes 0, which shows a difference. */
export function excludesZero({ low, high }: { low: number; high: number }): boolean {
  return low > 0 || high < 0
}
