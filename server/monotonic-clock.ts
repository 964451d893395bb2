/**
 * Returns milliseconds since 1970 by a clock that never goes back: changes of the system clock after this process
 * started have no effect. Compare the result only with other times of this process.
 */
export function monotonicEpochMs(): number {
  return performance.timeOrigin + performance.now()
}
