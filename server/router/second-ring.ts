/** Counts the events of the last seconds, in one bucket per second, without allocating memory. */
export class SecondRing {
  readonly #buckets: Float64Array
  #second = Number.NaN
  #total = 0

  /** @param seconds length of the window, including the current second */
  constructor(seconds: number) {
    this.#buckets = new Float64Array(seconds)
  }

  /** Adds events at `nowMs`, or at the last event's time if that is later. */
  add(nowMs: number, count = 1): void {
    this.#advance(nowMs)
    const index = this.#second % this.#buckets.length
    this.#buckets[index] = (this.#buckets[index] as number) + count
    this.#total += count
  }

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
