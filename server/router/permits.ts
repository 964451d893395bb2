import type { RatePermits } from './router-types.ts'

/**
 * This process's permits for a server with a rate limit. They are granted in small amounts and expire soon. A call uses
 * its estimated tokens. If the server counts a different number, the difference is reported and charged later.
 */
export class Permits {
  #requestsLimited = false
  #tokensLimited = false
  #requests = 0
  #tokens = 0
  #untilMs = 0
  #overspent = 0

  limit(requests: boolean, tokens: boolean): void {
    this.#requestsLimited = requests
    this.#tokensLimited = tokens
  }

  get limited(): boolean {
    return this.#requestsLimited || this.#tokensLimited
  }

  add(permits: RatePermits, nowMs: number): void {
    if (nowMs >= this.#untilMs) {
      this.#requests = Math.min(0, this.#requests)
      this.#tokens = 0
    }
    this.#requests += permits.requests
    this.#tokens += permits.tokens
    this.#untilMs = permits.untilMs
  }

  allow(nowMs: number): boolean {
    if (!this.#requestsLimited && !this.#tokensLimited) return true
    if (nowMs >= this.#untilMs) return false
    return (
      (!this.#requestsLimited || this.#requests >= 1) && (!this.#tokensLimited || this.#tokens > 0)
    )
  }

  /**
   * Uses the permits of a call. A call may exceed the permits: excess requests are taken from the next permits, and
   * excess tokens are recorded for {@link takeOverspent}.
   */
  use(tokens: number, requests = 1): void {
    if (this.#requestsLimited) this.#requests -= requests
    if (!this.#tokensLimited) return
    this.#tokens -= tokens
    if (this.#tokens < 0) {
      this.#overspent -= this.#tokens
      this.#tokens = 0
    }
  }

  correct(estimated: number, counted: number): void {
    if (this.#tokensLimited) this.#overspent += counted - estimated
  }

  /**
   * Returns and resets the tokens used beyond the permits. Negative if the server counted fewer tokens than estimated.
   */
  takeOverspent(): number {
    const overspent = this.#overspent
    this.#overspent = 0
    return overspent
  }

  /** Removes and returns the unused permits, which other processes can use. */
  takeUnused(nowMs: number): { requests: number; tokens: number } {
    const unused =
      nowMs < this.#untilMs
        ? { requests: Math.max(0, this.#requests), tokens: Math.max(0, this.#tokens) }
        : { requests: 0, tokens: 0 }
    this.#requests = Math.min(0, this.#requests)
    this.#tokens = 0
    return unused
  }

  /** The unexpired permits. `requests` is negative if calls used more than were granted. */
  left(nowMs: number): { requests: number; tokens: number } {
    if (nowMs >= this.#untilMs) return { requests: Math.min(0, this.#requests), tokens: 0 }
    return { requests: this.#requests, tokens: this.#tokens }
  }
}
