import type { LastStep } from '../../store/sql/last-step.ts'

interface Current {
  step: number
  inFlight: number
  lastMs: number
  /**
   * The database read in progress that decides the step; null if there is none. Samples that arrive during the read
   * wait for it.
   */
  reading: Promise<void> | null
}

/** Maximum number of runs kept in memory; the least recently used run is dropped, and read again if needed. */
const MAX_RUNS = 1_000

/**
 * Assigns a step to samples whose protocol has none: the step of the previous samples or, after a pause without samples
 * in flight, the next step. Samples of one step therefore share a batch, as if the trainer sent the step. The database
 * is read only after a pause in this process, because other server processes may have received samples meanwhile.
 */
export class StepClock {
  readonly #lastStep: (run: string, gapMs: number) => Promise<LastStep | null>
  readonly #runs = new Map<string, Current>()
  readonly #nowMs: () => number

  /** @param lastStep reads the last step of a run, and resolves to null if the run has none */
  constructor(
    lastStep: (run: string, gapMs: number) => Promise<LastStep | null>,
    nowMs: () => number = () => performance.now(),
  ) {
    this.#lastStep = lastStep
    this.#nowMs = nowMs
  }

  /** Returns the step of new samples. The caller calls `leave` when the samples are scored or failed. */
  async enter(run: string, gapMs: number): Promise<{ step: number; leave: () => void }> {
    const current: Current = this.#runs.get(run) ?? {
      step: 0,
      inFlight: 0,
      lastMs: Number.NEGATIVE_INFINITY,
      reading: null,
    }
    this.#runs.delete(run)
    this.#runs.set(run, current)
    if (this.#runs.size > MAX_RUNS) this.#runs.delete(this.#runs.keys().next().value as string)
    if (current.inFlight === 0 && this.#nowMs() - current.lastMs > gapMs) {
      current.reading ??= this.#read(run, gapMs, current)
      await current.reading
    }
    current.lastMs = this.#nowMs()
    current.inFlight++
    let left = false
    return {
      step: current.step,
      leave: () => {
        if (left) return
        left = true
        current.inFlight--
        current.lastMs = this.#nowMs()
      },
    }
  }

  async #read(run: string, gapMs: number, current: Current): Promise<void> {
    try {
      const last = await this.#lastStep(run, gapMs)
      current.step = last === null ? 1 : last.isActive ? last.step : last.step + 1
    } finally {
      current.reading = null
    }
  }
}
