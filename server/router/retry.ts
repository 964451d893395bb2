/** Back-off before the second and later retries: full jitter below 100 ms × 2^n, at most 5 s. */
const BACKOFF_STEP_MS = 100
const BACKOFF_MAX_MS = 5_000

/**
 * Delay after the `failures`-th failed call, in ms: 0 after the first one if another server can be tried, else random, so
 * that samples that failed together are not retried together.
 */
export function backoffMs(failures: number, otherServer: boolean, random = Math.random): number {
  if (failures === 1 && otherServer) return 0
  return random() * Math.min(BACKOFF_MAX_MS, BACKOFF_STEP_MS * 2 ** failures)
}
