/** Share of the calls in flight that may be retries, and how many may be whatever else is in flight. */
const SHARE = 0.2
const MIN_RETRIES = 3

/**
 * How many retries a pool may have in flight at once. Where most calls fail, retries would multiply the load on servers
 * that are down already; a fifth keeps them a remedy for the few.
 */
export class RetryBudget {
  readonly #share: number
  readonly #least: number
  #inFlight = 0

  /** `share` of the calls in flight may be retries, and always `least`. */
  constructor(options: { share?: number; least?: number } = {}) {
    this.#share = options.share ?? SHARE
    this.#least = options.least ?? MIN_RETRIES
  }

  /** Retries in flight; never negative. */
  get inFlight(): number {
    return this.#inFlight
  }

  /** True when one more retry may begin beside `callsInFlight` calls, retries among them. */
  allows(callsInFlight: number): boolean {
    return this.#inFlight < this.#most(callsInFlight)
  }

  /** How many more may begin. */
  left(callsInFlight: number): number {
    return Math.max(0, this.#most(callsInFlight) - this.#inFlight)
  }

  /** A retry begins, allowed or not. */
  begun(): void {
    this.#inFlight++
  }

  /** A retry's call ended, however. */
  ended(): void {
    if (this.#inFlight > 0) this.#inFlight--
  }

  #most(callsInFlight: number): number {
    const share = callsInFlight > 0 ? Math.floor(this.#share * callsInFlight + 1e-9) : 0
    return Math.max(this.#least, share)
  }
}
