/**
 * What a limit a minute is taken from. `reserve` takes at once and says how long to wait, so it may as well be a row
 * that several processes update: each of them waits for what it was told, and together they keep the limit.
 */
export interface Rate {
  /** Takes `amount`, more than there is too, and gives the ms until it is covered; 0: now. */
  reserve(amount: number, nowMs: number): number | Promise<number>
  /** Gives back what was not used; below 0: takes what was used beyond it, without waiting. */
  refund(amount: number, nowMs: number): void | Promise<void>
}

/**
 * A token bucket. It starts full, refills at a constant rate up to its capacity, and goes below 0 when more is reserved
 * than it holds: whoever comes next waits for that debt first, so reservations are served in their order (upstream's
 * smaller ones overtake, which its waiters race for; the times at which tokens are given out are the same).
 */
export class TokenBucket implements Rate {
  readonly ratePerSecond: number
  readonly capacity: number
  /** As of `lastUpdateMs`; below 0: a debt. */
  tokens: number
  /** null: nothing was taken yet. */
  lastUpdateMs: number | null = null

  /**
   * @param ratePerSecond refill, above 0
   * @param capacity most it holds; default: one second's refill, as upstream
   */
  constructor(ratePerSecond: number, capacity: number = ratePerSecond) {
    if (!(ratePerSecond > 0 && capacity > 0 && Number.isFinite(ratePerSecond + capacity))) {
      throw new RangeError(`a bucket of ${capacity} refilled by ${ratePerSecond} a second`)
    }
    this.ratePerSecond = ratePerSecond
    this.capacity = capacity
    this.tokens = capacity
  }

  reserve(amount: number, nowMs: number): number {
    this.#refill(nowMs)
    this.tokens -= amount
    // What is missing by less than a billionth is rounding, not a debt: nobody waits for it.
    return this.tokens > -1e-9 * this.capacity ? 0 : (-this.tokens / this.ratePerSecond) * 1_000
  }

  refund(amount: number, nowMs: number): void {
    this.#refill(nowMs)
    this.tokens = Math.min(this.capacity, this.tokens + amount)
  }

  /** Tokens at a moment, without taking any. */
  tokensAt(nowMs: number): number {
    const elapsedMs = this.lastUpdateMs === null ? 0 : Math.max(0, nowMs - this.lastUpdateMs)
    return Math.min(this.capacity, this.tokens + (elapsedMs / 1_000) * this.ratePerSecond)
  }

  #refill(nowMs: number): void {
    this.tokens = this.tokensAt(nowMs)
    this.lastUpdateMs = Math.max(nowMs, this.lastUpdateMs ?? nowMs)
  }
}
