/** The median of a few measured values. The buffer is reused, so that a pick allocates nothing. */
export class SeenMedian {
  #sorted = new Float64Array(64)
  #count = 0

  clear(): void {
    this.#count = 0
  }

  add(value: number): void {
    if (this.#count === this.#sorted.length) {
      const larger = new Float64Array(this.#sorted.length * 2)
      larger.set(this.#sorted)
      this.#sorted = larger
    }
    const sorted = this.#sorted
    let i = this.#count++
    for (; i > 0 && (sorted[i - 1] as number) > value; i--) sorted[i] = sorted[i - 1] as number
    sorted[i] = value
  }

  /** The lower median. It is 1 if there are no values, and all servers then count as equal. */
  get value(): number {
    return this.#count === 0 ? 1 : (this.#sorted[(this.#count - 1) >> 1] as number)
  }
}
