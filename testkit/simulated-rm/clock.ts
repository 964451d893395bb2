export interface Clock {
  /** Monotonic time in ms. */
  now(): number
  /** Runs a callback at `atMs`, or as soon as possible afterwards. Returns a function that cancels the callback. */
  at(atMs: number, run: () => void): () => void
}

/** The system clock. Its timers are up to a few ms late. The simulation corrects this delay at the next event. */
export const systemClock: Clock = {
  now: () => performance.now(),
  at(atMs, run) {
    const timer = setTimeout(run, Math.max(0, Math.ceil(atMs - performance.now())))
    return () => clearTimeout(timer)
  },
}

export class VirtualClock implements Clock {
  #nowMs = 0
  readonly #due = new Map<number, { atMs: number; run: () => void }>()
  #number = 0

  now(): number {
    return this.#nowMs
  }

  at(atMs: number, run: () => void): () => void {
    const number = this.#number++
    this.#due.set(number, { atMs: Math.max(atMs, this.#nowMs), run })
    return () => this.#due.delete(number)
  }

  /**
   * Runs all callbacks due until `untilMs`, in order, and sets the clock to `untilMs`. Without `untilMs`, runs until no
   * callbacks are left.
   */
  run(untilMs = Number.POSITIVE_INFINITY): void {
    for (;;) {
      let next: [number, { atMs: number; run: () => void }] | undefined
      for (const entry of this.#due) {
        if (next === undefined || entry[1].atMs < next[1].atMs) next = entry
      }
      if (next === undefined || next[1].atMs > untilMs) break
      this.#due.delete(next[0])
      this.#nowMs = next[1].atMs
      next[1].run()
    }
    if (Number.isFinite(untilMs)) this.#nowMs = Math.max(this.#nowMs, untilMs)
  }
}
