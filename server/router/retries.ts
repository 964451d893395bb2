import type { PoolServer } from './pool-server.ts'
import type { RoutedSample } from './routed-sample.ts'

/** Share of the calls in flight that may be retries, and the number always allowed. */
const SHARE = 0.2
const MIN_RETRIES = 3
/** A retry does not wait for a server that pauses longer than this. */
const PAUSE_WORTH_MS = 250
/** Back-off before the second and later retries: full jitter below 100 ms × 2^n, at most 5 s. */
const BACKOFF_STEP_MS = 100
const MAX_BACKOFF_MS = 5_000

/**
 * Limits the retries that a pool may have in flight. Where most calls fail, retries would multiply the load on failing
 * servers; with a limit of a fifth they help only where failures are few.
 */
export class RetryBudget {
  readonly #share: number
  readonly #least: number
  #inFlight = 0

  /** `share`: of the calls in flight; `least`: always allowed. */
  constructor(options: { share?: number; least?: number } = {}) {
    this.#share = options.share ?? SHARE
    this.#least = options.least ?? MIN_RETRIES
  }

  /** Retries in flight; never negative. */
  get inFlight(): number {
    return this.#inFlight
  }

  /** Whether another retry may begin with `callsInFlight` calls in flight, retries included. */
  allows(callsInFlight: number): boolean {
    return this.#inFlight < this.#most(callsInFlight)
  }

  /** Number of further retries allowed. */
  left(callsInFlight: number): number {
    return Math.max(0, this.#most(callsInFlight) - this.#inFlight)
  }

  /** Records the start of a retry, allowed or not. */
  begun(): void {
    this.#inFlight++
  }

  /** Records the end of a retry's call. */
  ended(): void {
    if (this.#inFlight > 0) this.#inFlight--
  }

  #most(callsInFlight: number): number {
    const share = callsInFlight > 0 ? Math.floor(this.#share * callsInFlight + 1e-9) : 0
    return Math.max(this.#least, share)
  }
}

/**
 * Selects the servers with room that may take a sample that lost an attempt. While a usable server is untried, only
 * untried servers qualify, even if all are full now. When all were tried, or the sample's patience is over, any but the
 * last one qualifies; a single server always does. Fills `eligible`; returns false if it is empty.
 */
export function serversForRetry(
  sample: RoutedSample,
  servers: readonly PoolServer[],
  withRoom: readonly PoolServer[],
  eligible: PoolServer[],
  nowMs: number,
): boolean {
  eligible.length = 0
  const last = sample.tried?.at(-1)
  let untried = false
  let other = false
  // The sample's timer ends its patience; without the timer it waits no longer.
  if (sample.timer !== null) {
    for (const server of servers) {
      if (!server.isUsable(nowMs) || server.pause.untilMs - nowMs > PAUSE_WORTH_MS) continue
      if (!sample.hasTried(server)) untried = true
      if (server !== last) other = true
    }
  }
  for (const server of withRoom) {
    if (untried ? !sample.hasTried(server) : !other || server !== last) eligible.push(server)
  }
  if (eligible.length > 1 && !untried && !other) {
    const index = last === undefined ? -1 : eligible.indexOf(last)
    if (index >= 0) eligible.splice(index, 1)
  }
  return eligible.length > 0
}

/**
 * Delay after the `failures`-th failed call, in ms: 0 after the first one if another server can be tried, else random, so
 * that samples that failed together are not retried together.
 */
export function backoffMs(failures: number, otherServer: boolean, random = Math.random): number {
  if (failures === 1 && otherServer) return 0
  return random() * Math.min(MAX_BACKOFF_MS, BACKOFF_STEP_MS * 2 ** failures)
}
