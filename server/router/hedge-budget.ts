import { SecondRing } from './second-ring.ts'

/** Share of the rows begun that may be sent a second time, and how many may be at least. */
const SHARE = 0.05
const MIN_HEDGES = 3
const WINDOW_SECONDS = 60
/** Rows begun since the pool was idle count for a minute's hedges up to so many: a step's worth. */
const STEP_ROWS = 4_096

/**
 * How many rows of a pool may be sent to a second server while their first call is out. Two bounds hold together:
 * hedges since the pool was last idle are at most 5 % of the rows begun since then, and those of the last minute at most
 * 5 % of that minute's rows or, where that is more, of a step's. The last rows of a judge's step are sent again minutes
 * after the last was begun, when the minute alone would allow nothing; and a pool that runs for days has saved up no
 * more than a step's hedges when all its servers slow down at once.
 */
export class HedgeBudget {
  readonly #share: number
  readonly #least: number
  readonly #minuteRows = new SecondRing(WINDOW_SECONDS)
  readonly #minuteHedges = new SecondRing(WINDOW_SECONDS)
  #rows = 0
  #promised = 0
  #hedges = 0

  /** `share` of the rows begun, and always `least`. */
  constructor(options: { share?: number; least?: number } = {}) {
    this.#share = options.share ?? SHARE
    this.#least = options.least ?? MIN_HEDGES
  }

  /** Hedges sent since the pool was idle, those that ask no budget (a silent server's rows) among them. */
  get hedges(): number {
    return this.#hedges
  }

  /** Hedges charged to the budget since the pool was idle. */
  get charged(): number {
    return this.#promised
  }

  /** Rows begun since the pool was idle. */
  get rows(): number {
    return this.#rows
  }

  /** A call begins: a row's usual one, or a hedge. A hedge costs nothing here, it was charged when it was promised. */
  begun(nowMs: number, isHedge: boolean): void {
    if (isHedge) {
      this.#hedges++
      return
    }
    this.#rows++
    this.#minuteRows.add(nowMs)
  }

  /** True when one more hedge is within the budget. */
  allows(nowMs: number): boolean {
    if (this.#promised >= this.#of(this.#rows)) return false
    const rows = Math.max(this.#minuteRows.total(nowMs), Math.min(this.#rows, STEP_ROWS))
    return this.#minuteHedges.total(nowMs) < this.#of(rows)
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

  /** The pool has no row left: what follows is another step. The minute goes on, else each lone row had a hedge free. */
  idle(): void {
    this.#rows = 0
    this.#promised = 0
    this.#hedges = 0
  }

  #of(rows: number): number {
    return Math.max(this.#least, Math.floor(this.#share * rows + 1e-9))
  }
}
