/** Counts rewards in flight in equal intervals of time. */
export class InFlight {
  readonly #untilMs: number
  readonly #stretchMs: number
  /**
   * Time in ms that rewards fill only partly in each interval. Fully covered intervals are recorded in `#change`, by
   * their differences.
   */
  readonly #partMs: Float64Array
  readonly #change: Int32Array

  /** @param untilMs later times are not counted */
  constructor(untilMs: number, stretches: number) {
    this.#untilMs = untilMs
    this.#stretchMs = untilMs / stretches
    this.#partMs = new Float64Array(stretches)
    this.#change = new Int32Array(stretches + 1)
  }

  /** Adds a reward that was being computed between two times. */
  add(fromMs: number, toMs: number): void {
    const end = Math.min(toMs, this.#untilMs)
    if (!(end > fromMs)) return
    const first = Math.floor(fromMs / this.#stretchMs)
    const last = Math.min(this.#partMs.length - 1, Math.floor(end / this.#stretchMs))
    const parts = this.#partMs
    if (first >= last) {
      parts[last] = (parts[last] as number) + end - fromMs
      return
    }
    parts[first] = (parts[first] as number) + (first + 1) * this.#stretchMs - fromMs
    parts[last] = (parts[last] as number) + end - last * this.#stretchMs
    this.#change[first + 1] = (this.#change[first + 1] as number) + 1
    this.#change[last] = (this.#change[last] as number) - 1
  }

  /** The mean number in flight in each interval, in order. */
  means(): number[] {
    let whole = 0
    return Array.from(this.#partMs, (part, i) => {
      whole += this.#change[i] as number
      return Math.round((whole + part / this.#stretchMs) * 10) / 10
    })
  }
}
