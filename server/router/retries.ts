import type { PoolServer } from './pool-server.ts'
import type { RoutedSample } from './routed-sample.ts'

/** Share of the calls in flight that may be retries, and the number of retries that is always allowed. */
const SHARE = 0.2
const MIN_RETRIES = 3
/** A retry does not wait for an untried server that pauses longer than this. */
const PAUSE_WORTH_MS = 250
/** Back-off: a random time below 100 ms × 2^failures, at most 5 s (full jitter). */
const BACKOFF_STEP_MS = 100
const MAX_BACKOFF_MS = 5_000

/**
 * Limits a pool's retries in flight. If most calls fail, unlimited retries would multiply the load on the failing
 * servers.
 */
export class RetryBudget {
  readonly #share: number
  readonly #least: number
  #inFlight = 0

  constructor(options: { share?: number; least?: number } = {}) {
    this.#share = options.share ?? SHARE
    this.#least = options.least ?? MIN_RETRIES
  }

  get inFlight(): number {
    return this.#inFlight
  }

  allows(callsInFlight: number): boolean {
    return this.#inFlight < this.#most(callsInFlight)
  }

  left(callsInFlight: number): number {
    return Math.max(0, this.#most(callsInFlight) - this.#inFlight)
  }

  begun(): void {
    this.#inFlight++
  }

  ended(): void {
    if (this.#inFlight > 0) this.#inFlight--
  }

  #most(callsInFlight: number): number {
    const share = callsInFlight > 0 ? Math.floor(this.#share * callsInFlight + 1e-9) : 0
    return Math.max(this.#least, share)
  }
}

/**
 * Fills `eligible` with the available servers to which a sample may be sent again. Returns false if there are none. As
 * long as a usable server remains that the sample was not sent to, only such servers qualify, even if all of them are
 * full. After that, or when the sample has waited for an untried server for the pool's `patienceMs`, any server but
 * the last one tried qualifies. A single server always qualifies.
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
  // Without a running timer, the sample no longer waits for an untried server.
  if (sample.timer !== null) {
    for (const server of servers) {
      if (!sample.canUse(server) || !server.isUsable(nowMs)) continue
      if (server.pause.untilMs - nowMs > PAUSE_WORTH_MS) continue
      if (!sample.hasTried(server)) untried = true
      if (server !== last) other = true
    }
  }
  for (const server of withRoom) {
    if (!sample.canUse(server)) continue
    if (untried ? !sample.hasTried(server) : !other || server !== last) eligible.push(server)
  }
  if (eligible.length > 1 && !untried && !other) {
    const index = last === undefined ? -1 : eligible.indexOf(last)
    if (index >= 0) eligible.splice(index, 1)
  }
  return eligible.length > 0
}

/**
 * Delay after the `failures`-th failed call, in ms: 0 after the first one if another server can be tried. Otherwise it
 * is random, so that samples that failed together are not retried together.
 */
export function backoffMs(failures: number, otherServer: boolean, random = Math.random): number {
  if (failures === 1 && otherServer) return 0
  return random() * Math.min(MAX_BACKOFF_MS, BACKOFF_STEP_MS * 2 ** failures)
}
