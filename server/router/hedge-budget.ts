import { SecondRing } from './second-ring.ts'

/** Share of the begun samples that may be hedged, and the minimum number of hedges. */
const SHARE = 0.05
const MIN_HEDGES = 3
const WINDOW_SECONDS = 60
/** Samples begun since the pool was idle count towards a minute's hedges up to this number: a step's worth. */
const STEP_SAMPLES = 4_096

/**
 * How many samples of a pool may be hedged. Two bounds apply: hedges since the pool was last idle are at most 5 % of the
 * samples begun since then. Those of the last minute are at most 5 % of the larger of that minute's samples and the
 * samples begun since idle, at most 4,096. The last samples of a judge's step are hedged minutes after the last sample
 * began, when the minute alone would allow none. A pool that runs for days saves up no more than one step's hedges for
 * the moment when all its servers slow down.
 */
export class HedgeBudget {
  readonly #share: number
  readonly #least: number
  readonly #minuteSamples = new SecondRing(WINDOW_SECONDS)
  readonly #minuteHedges = new SecondRing(WINDOW_SECONDS)
  #samples = 0
  #promised = 0
  #hedges = 0

  /** `share`: of the begun samples; `least`: always allowed. */
  constructor(options: { share?: number; least?: number } = {}) {
    this.#share = options.share ?? SHARE
    this.#least = options.least ?? MIN_HEDGES
  }

  /** Hedges sent since the pool was idle, including those outside the budget (samples of a silent server). */
  get hedges(): number {
    return this.#hedges
  }

  /** Hedges charged to the budget since the pool was idle. */
  get charged(): number {
    return this.#promised
  }

  /** Samples begun since the pool was idle. */
  get samples(): number {
    return this.#samples
  }

  /** Records the start of a normal call or of a hedge. A hedge is free here because `promised` charged it. */
  begun(nowMs: number, isHedge: boolean): void {
    if (isHedge) {
      this.#hedges++
      return
    }
    this.#samples++
    this.#minuteSamples.add(nowMs)
  }

  /** Whether another hedge is within the budget. */
  allows(nowMs: number): boolean {
    if (this.#promised >= this.#of(this.#samples)) return false
    const samples = Math.max(
      this.#minuteSamples.total(nowMs),
      Math.min(this.#samples, STEP_SAMPLES),
    )
    return this.#minuteHedges.total(nowMs) < this.#of(samples)
  }

  /** Charges a hedge; it may wait for a slot before it is sent. */
  promised(nowMs: number): void {
    this.#promised++
    this.#minuteHedges.add(nowMs)
  }

  /** Refunds a charged hedge that was not sent. The minute keeps the charge. */
  forgone(): void {
    if (this.#promised > 0) this.#promised--
  }

  /**
   * Resets the counts because the pool has no samples left and the next ones belong to another step. The minute's counts
   * stay; otherwise each lone sample would have a free hedge.
   */
  idle(): void {
    this.#samples = 0
    this.#promised = 0
    this.#hedges = 0
  }

  #of(samples: number): number {
    return Math.max(this.#least, Math.floor(this.#share * samples + 1e-9))
  }
}
