/** Share of the calls in flight that may be retries, and the number always allowed. */
const SHARE = 0.2
const MIN_RETRIES = 3

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
