/** Time as the capacity model reads it: the machine's, or a test's own. */
export interface Clock {
  /** In ms, never backwards. */
  now(): number
  /** Runs it at that time, or as soon after as can be. Returns the way to forget it. */
  at(atMs: number, run: () => void): () => void
}

/** The machine's clock. Its timers are up to some ms late; the model makes up for that at the next event. */
export const systemClock: Clock = {
  now: () => performance.now(),
  at(atMs, run) {
    const timer = setTimeout(run, Math.max(0, Math.ceil(atMs - performance.now())))
    return () => clearTimeout(timer)
  },
}

/** A clock that stands still until told: for tests that compute instead of wait. */
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

  /** Runs what is due until that time, in order, and stands there; without a time until nothing is due. */
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
