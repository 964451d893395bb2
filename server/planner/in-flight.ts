/** Counts rewards in flight in equal stretches of time. */
export class InFlight {
  readonly #untilMs: number
  readonly #stretchMs: number
  /** Time that rewards took up in each stretch, ms; by its changes where it is whole stretches. */
  readonly #partMs: Float64Array
  readonly #change: Int32Array

  /** @param untilMs what is later is not counted */
  constructor(untilMs: number, stretches: number) {
    this.#untilMs = untilMs
    this.#stretchMs = untilMs / stretches
    this.#partMs = new Float64Array(stretches)
    this.#change = new Int32Array(stretches + 1)
  }

  /** A reward somebody worked on from one time to another. */
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

  /** The mean of each stretch, in order. */
  means(): number[] {
    let whole = 0
    return Array.from(this.#partMs, (part, i) => {
      whole += this.#change[i] as number
      return Math.round((whole + part / this.#stretchMs) * 10) / 10
    })
  }
}
