/**
 * The most of a number that goes up and down, over the last while: of one to two spans, so that a look costs two
 * comparisons and nothing is kept but two numbers.
 */
export class RecentPeak {
  readonly #spanMs: number
  #sinceMs = Number.NEGATIVE_INFINITY
  #now = 0
  #before = 0

  /** @param spanMs a value counts for this long at least, and for twice as long at most */
  constructor(spanMs: number) {
    this.#spanMs = spanMs
  }

  /** Takes a value in, and tells the most of the last while. Values are 0 or more; `nowMs` never goes back. */
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

  /** As if there had been none. */
  forget(): void {
    this.#now = 0
    this.#before = 0
  }
}
