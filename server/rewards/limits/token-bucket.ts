/**
 * The requests or tokens that a limit per minute allows. `reserve` takes an amount immediately and returns the time to
 * wait. A rate may therefore be a database row that several processes update: each process waits for the time returned
 * to it, and together they keep the limit.
 */
export interface Rate {
  /** Takes `amount`, even beyond the supply, and returns the ms until it is covered; 0 if it is covered now. */
  reserve(amount: number, nowMs: number): number | Promise<number>
  /** Gives back an unused amount. A negative amount is taken instead, without waiting. */
  refund(amount: number, nowMs: number): void | Promise<void>
}

/**
 * A token bucket. It starts full, refills at a constant rate up to its capacity, and goes below 0 when more is
 * reserved than it holds. The next call waits for that debt first, so reservations are served in order. (In verl,
 * smaller reservations overtake larger ones, because its waiters race; the rate is the same.)
 */
export class TokenBucket implements Rate {
  readonly ratePerSecond: number
  readonly capacity: number
  /** Content at `lastUpdateMs`; a debt if below 0. */
  tokens: number
  /** Time of the last refill, ms; null before the first reservation. */
  lastUpdateMs: number | null = null

  /**
   * @param ratePerSecond refill, above 0
   * @param capacity maximum content; default: one second's refill, as in verl
   */
  constructor(ratePerSecond: number, capacity: number = ratePerSecond) {
    if (!(ratePerSecond > 0 && capacity > 0 && Number.isFinite(ratePerSecond + capacity))) {
      throw new RangeError(
        `a token bucket needs a capacity and a refill above 0, not ${capacity} and ${ratePerSecond} per second`,
      )
    }
    this.ratePerSecond = ratePerSecond
    this.capacity = capacity
    this.tokens = capacity
  }

  reserve(amount: number, nowMs: number): number {
    this.#refill(nowMs)
    this.tokens -= amount
    // A deficit below a billionth of the capacity is rounding, not a debt.
    return this.tokens > -1e-9 * this.capacity ? 0 : (-this.tokens / this.ratePerSecond) * 1_000
  }

  refund(amount: number, nowMs: number): void {
    this.#refill(nowMs)
    this.tokens = Math.min(this.capacity, this.tokens + amount)
  }

  tokensAt(nowMs: number): number {
    const elapsedMs = this.lastUpdateMs === null ? 0 : Math.max(0, nowMs - this.lastUpdateMs)
    return Math.min(this.capacity, this.tokens + (elapsedMs / 1_000) * this.ratePerSecond)
  }

  #refill(nowMs: number): void {
    this.tokens = this.tokensAt(nowMs)
    this.lastUpdateMs = Math.max(nowMs, this.lastUpdateMs ?? nowMs)
  }
}
