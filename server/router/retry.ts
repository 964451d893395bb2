/** Back-off before the second retry and later: full jitter below 100 ms × 2^n, at most 5 s. */
const BACKOFF_STEP_MS = 100
const BACKOFF_MAX_MS = 5_000

/**
 * How long to wait after the `failures`-th failed call, in ms: nothing after the first where another server can be
 * tried, else a random time, so that samples that failed together do not come back together.
 */
export function backoffMs(failures: number, otherServer: boolean, random = Math.random): number {
  if (failures === 1 && otherServer) return 0
  return random() * Math.min(BACKOFF_MAX_MS, BACKOFF_STEP_MS * 2 ** failures)
}
