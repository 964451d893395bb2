import { SecondRing } from './second-ring.ts'

/** Share of the samples begun that may be sent a second time, and how many may be at least. */
const SHARE = 0.05
const MIN_HEDGES = 3
const WINDOW_SECONDS = 60
/** Samples begun since the pool was idle count for a minute's hedges up to so many: a step's worth. */
const STEP_SAMPLES = 4_096

/**
 * How many samples of a pool may be sent to a second server while their first call is out. Two bounds hold together:
 * hedges since the pool was last idle are at most 5 % of the samples begun since then, and those of the last minute at most
 * 5 % of that minute's samples or, where that is more, of a step's. The last samples of a judge's step are sent again minutes
 * after the last was begun, when the minute alone would allow nothing; and a pool that runs for days has saved up no
 * more than a step's hedges when all its servers slow down at once.
 */
export class HedgeBudget {
  readonly #share: number
  readonly #least: number
  readonly #minuteSamples = new SecondRing(WINDOW_SECONDS)
  readonly #minuteHedges = new SecondRing(WINDOW_SECONDS)
  #samples = 0
  #promised = 0
  #hedges = 0

  /** `share` of the samples begun, and always `least`. */
  constructor(options: { share?: number; least?: number } = {}) {
    this.#share = options.share ?? SHARE
    this.#least = options.least ?? MIN_HEDGES
  }

  /** Hedges sent since the pool was idle, those that ask no budget (a silent server's samples) among them. */
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

  /** A call begins: a sample's usual one, or a hedge. A hedge costs nothing here, it was charged when it was promised. */
  begun(nowMs: number, isHedge: boolean): void {
    if (isHedge) {
      this.#hedges++
      return
    }
    this.#samples++
    this.#minuteSamples.add(nowMs)
  }

  /** True when one more hedge is within the budget. */
  allows(nowMs: number): boolean {
    if (this.#promised >= this.#of(this.#samples)) return false
    const samples = Math.max(
      this.#minuteSamples.total(nowMs),
      Math.min(this.#samples, STEP_SAMPLES),
    )
    return this.#minuteHedges.total(nowMs) < this.#of(samples)
  }

  /** A hedge is charged; it may wait for a slot before it begins. */
  promised(nowMs: number): void {
    this.#promised++
    this.#minuteHedges.add(nowMs)
  }

  /** A hedge that was promised is not needed any more, before it began. For the minute it stays charged. */
  forgone(): void {
    if (this.#promised > 0) this.#promised--
  }

  /** The pool has no sample left: what follows is another step. The minute goes on, else each lone sample had a hedge free. */
  idle(): void {
    this.#samples = 0
    this.#promised = 0
    this.#hedges = 0
  }

  #of(samples: number): number {
    return Math.max(this.#least, Math.floor(this.#share * samples + 1e-9))
  }
}
