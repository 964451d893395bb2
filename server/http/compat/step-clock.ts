interface Current {
  step: number
  inFlight: number
  lastMs: number
}

/** Runs remembered; the least lately used is forgotten, and looked up again. */
const MAX_RUNS = 1_000

/**
 * Which step a sample belongs to, where its protocol does not say: the step of the samples before it, until there was a
 * pause with none in flight. So a step's rollouts come together as they do in a run that tells its steps.
 */
export class StepClock {
  readonly #lastStep: (run: string) => Promise<number | null>
  readonly #runs = new Map<string, Promise<Current>>()
  readonly #nowMs: () => number

  /** @param lastStep the highest step a run has; null: it has none */
  constructor(
    lastStep: (run: string) => Promise<number | null>,
    nowMs: () => number = () => performance.now(),
  ) {
    this.#lastStep = lastStep
    this.#nowMs = nowMs
  }

  /** The step of samples that arrive now; `leave` is to be called when they have ended. */
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
