/**
 * Milliseconds since 1970 by a clock that never goes back: a step of the system's clock after this process started does
 * not move it. To be compared with other times of this process alone.
 */
export function monotonicEpochMs(): number {
  return performance.timeOrigin + performance.now()
}
