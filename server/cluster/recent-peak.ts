/** The maximum of a fluctuating number over the last one to two time spans, in constant time and memory. */
export class RecentPeak {
  readonly #spanMs: number
  #sinceMs = Number.NEGATIVE_INFINITY
  #now = 0
  #before = 0

  /** @param spanMs a value counts for at least this long and at most twice as long */
  constructor(spanMs: number) {
    this.#spanMs = spanMs
  }

  /** Adds a value and returns the recent maximum. Values are 0 or more; `nowMs` never decreases. */
  note(value: number, nowMs: number): number {
    const ageMs = nowMs - this.#sinceMs
    if (ageMs >= this.#spanMs) {
      this.#before = ageMs < 2 * this.#spanMs ? this.#now : 0
      this.#now = 0
      this.#sinceMs = nowMs
    }
    this.#now = Math.max(this.#now, value)
    return Math.max(this.#now, this.#before)
  }

  forget(): void {
    this.#now = 0
    this.#before = 0
  }
}
