/** Counts the events of the last seconds, in one bucket per second, without allocating memory. */
export class SecondRing {
  readonly #buckets: Float64Array
  #second = Number.NaN
  #total = 0

  /** @param seconds length of the window, including the current second */
  constructor(seconds: number) {
    this.#buckets = new Float64Array(seconds)
  }

  /**
   * Adds events that occurred at `nowMs`. If that is earlier than the last event, the time of the last event is used.
   */
  add(nowMs: number, count = 1): void {
    this.#advance(nowMs)
    const index = this.#second % this.#buckets.length
    this.#buckets[index] = (this.#buckets[index] as number) + count
    this.#total += count
  }

  /** The number of events within the window that ends at `nowMs`. */
  total(nowMs: number): number {
    this.#advance(nowMs)
    return this.#total
  }

  clear(): void {
    this.#buckets.fill(0)
    this.#total = 0
  }

  #advance(nowMs: number): void {
    const second = Math.max(0, Math.floor(nowMs / 1_000))
    if (Number.isNaN(this.#second)) this.#second = second
    if (second <= this.#second) return
    const buckets = this.#buckets
    const passed = Math.min(second - this.#second, buckets.length)
    for (let i = 1; i <= passed; i++) {
      const index = (this.#second + i) % buckets.length
      this.#total -= buckets[index] as number
      buckets[index] = 0
    }
    this.#second = second
  }
}
