interface Current {
  step: number
  inFlight: number
  lastMs: number
}

/** Maximum runs kept in memory; the least recently used run is dropped, and read again if needed. */
const MAX_RUNS = 1_000

/**
 * Assigns a step to samples whose protocol has none: the step of the previous samples or, after a pause without samples
 * in flight, the next step. Samples of one step therefore share a batch, as if the trainer sent the step.
 */
export class StepClock {
  readonly #lastStep: (run: string) => Promise<number | null>
  readonly #runs = new Map<string, Promise<Current>>()
  readonly #nowMs: () => number

  /** @param lastStep reads the highest step of a run, and resolves to null if the run has none */
  constructor(
    lastStep: (run: string) => Promise<number | null>,
    nowMs: () => number = () => performance.now(),
  ) {
    this.#lastStep = lastStep
    this.#nowMs = nowMs
  }

  /** The caller calls `leave` when the samples are scored or failed. */
  async enter(run: string, gapMs: number): Promise<{ step: number; leave: () => void }> {
    let current = this.#runs.get(run)
    if (current === undefined) {
      current = this.#lastStep(run).then((last) => ({
        step: last === null ? 1 : last + 1,
        inFlight: 0,
        lastMs: this.#nowMs(),
      }))
      current.catch(() => this.#runs.delete(run))
    }
    this.#runs.delete(run)
    this.#runs.set(run, current)
    if (this.#runs.size > MAX_RUNS) this.#runs.delete(this.#runs.keys().next().value as string)
    const now = await current
    const nowMs = this.#nowMs()
    if (now.inFlight === 0 && nowMs - now.lastMs > gapMs) now.step++
    now.lastMs = nowMs
    now.inFlight++
    let left = false
    return {
      step: now.step,
      leave: () => {
        if (left) return
        left = true
        now.inFlight--
        now.lastMs = this.#nowMs()
      },
    }
  }
}
