import type { RatePermits } from './router-types.ts'

/**
 * What may still be sent of a server with a limit a minute, in this process: permits come from outside in small parts and
 * are void after a moment. Tokens are estimates when they are used; what was used beyond them is told and charged.
 */
export class Permits {
  #requestsLimited = false
  #tokensLimited = false
  #requests = 0
  #tokens = 0
  #untilMs = 0
  #overspent = 0

  /** Which of the two is limited at all. */
  limit(requests: boolean, tokens: boolean): void {
    this.#requestsLimited = requests
    this.#tokensLimited = tokens
  }

  get limited(): boolean {
    return this.#requestsLimited || this.#tokensLimited
  }

  /** Adds to what there is; all of it is void from `untilMs` on. */
  add(permits: RatePermits, nowMs: number): void {
    if (nowMs >= this.#untilMs) {
      this.#requests = 0
      this.#tokens = 0
    }
    this.#requests += permits.requests
    this.#tokens += permits.tokens
    this.#untilMs = permits.untilMs
  }

  /** True when one more call may go out. */
  allow(nowMs: number): boolean {
    if (!this.#requestsLimited && !this.#tokensLimited) return true
    if (nowMs >= this.#untilMs) return false
    return (
      (!this.#requestsLimited || this.#requests >= 1) && (!this.#tokensLimited || this.#tokens > 0)
    )
  }

  /** A call goes out. */
  use(tokens: number): void {
    if (this.#requestsLimited) this.#requests--
    if (!this.#tokensLimited) return
    this.#tokens -= tokens
    if (this.#tokens < 0) {
      this.#overspent -= this.#tokens
      this.#tokens = 0
    }
  }

  /** The server counted other tokens than were estimated. */
  correct(estimated: number, counted: number): void {
    if (this.#tokensLimited) this.#overspent += counted - estimated
  }

  /** Tokens used beyond the permits since the last call of this; below 0: not used. */
  takeOverspent(): number {
    const overspent = this.#overspent
    this.#overspent = 0
    return overspent
  }

  /** Takes back what was not used, to give it to others. */
  takeUnused(nowMs: number): { requests: number; tokens: number } {
    const unused =
      nowMs < this.#untilMs
        ? { requests: Math.max(0, this.#requests), tokens: Math.max(0, this.#tokens) }
        : { requests: 0, tokens: 0 }
    this.#requests = 0
    this.#tokens = 0
    return unused
  }

  /** What there is now. */
  left(nowMs: number): { requests: number; tokens: number } {
    if (nowMs >= this.#untilMs) return { requests: 0, tokens: 0 }
    return { requests: this.#requests, tokens: this.#tokens }
  }
}
