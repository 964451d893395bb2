import { SecondRing } from './second-ring.ts'

/** Share of the samples sent that may be hedged, and the number of hedges that is always allowed. */
const SHARE = 0.05
const MIN_HEDGES = 3
const WINDOW_SECONDS = 60
/**
 * The bound per minute counts at most this many of the samples begun since the pool was last idle. A large step has
 * this many samples.
 */
const STEP_SAMPLES = 4_096

/**
 * Limits the hedges of a pool by two bounds. Hedges since the pool was last idle are at most 5 % of the samples begun
 * since then. Hedges of the last minute are at most 5 % of that minute's samples, or of the samples begun since the
 * pool was last idle (counted up to 4,096), whichever is more. The first bound allows the last samples of a slow step
 * to be hedged minutes after they began. The second prevents a pool that has run for days from sending more than one
 * step's hedges together when all its servers slow down.
 */
export class HedgeBudget {
  readonly #share: number
  readonly #least: number
  readonly #minuteSamples = new SecondRing(WINDOW_SECONDS)
  readonly #minuteHedges = new SecondRing(WINDOW_SECONDS)
  #samples = 0
  #promised = 0
  #hedges = 0

  constructor(options: { share?: number; least?: number } = {}) {
    this.#share = options.share ?? SHARE
    this.#least = options.least ?? MIN_HEDGES
  }

  /** Hedges sent since the pool was last idle, including those outside the budget (samples of a silent server). */
  get hedges(): number {
    return this.#hedges
  }

  /** Hedges charged to the budget since the pool was last idle. */
  get charged(): number {
    return this.#promised
  }

  /** Samples begun since the pool was last idle; a retry counts again. */
  get samples(): number {
    return this.#samples
  }

  /** Records the start of a normal call or of a hedge. Only `promised` charges hedges. */
  begun(nowMs: number, isHedge: boolean): void {
    if (isHedge) {
      this.#hedges++
      return
    }
    this.#samples++
    this.#minuteSamples.add(nowMs)
  }

  allows(nowMs: number): boolean {
    if (this.#promised >= this.#of(this.#samples)) return false
    const samples = Math.max(
      this.#minuteSamples.total(nowMs),
      Math.min(this.#samples, STEP_SAMPLES),
    )
    return this.#minuteHedges.total(nowMs) < this.#of(samples)
  }

  /** Charges a hedge, which may wait for a slot before it is sent. */
  promised(nowMs: number): void {
    this.#promised++
    this.#minuteHedges.add(nowMs)
  }

  /** Refunds a charged hedge that was not sent. The hedge still counts in the bound per minute. */
  forgone(): void {
    if (this.#promised > 0) this.#promised--
  }

  /**
   * Resets the counts, because the pool has no samples left and the next ones belong to another step. The counts of the
   * last minute are kept. Otherwise a pool that is idle between single samples could hedge each of them.
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
