/** Bounds of a limit, in samples in flight. */
export interface LimitOptions {
  /** Where it begins; where `fixed`, what it is. */
  initial: number
  /** Never below, however often the server says it is busy; at least 1. */
  min: number
  max: number
  /** A given limit: it only gives way to a busy server, for a while. */
  fixed: boolean
}

/** An epoch is so many completions, or the limit where that is more: each sample in flight once. */
const EPOCH_SAMPLES = 16
/** Share of an epoch's dispatches that must have filled the limit for the epoch to say something of it. */
const FILLED_SHARE = 0.7
/** Start-up: grow by this while each step brings so much of what it adds in samples: 8 % for half as many again. */
const STARTUP_STEP = 1.5
const STARTUP_GAIN = 0.16
/** Epochs between two probes. */
const HOLD_EPOCHS = 2
/** A probe upwards, and what it must bring to stay (6 % for a quarter more); one downwards, and what it may cost (3 %). */
const UP_STEP = 1.25
const UP_GAIN = 0.24
const DOWN_STEP = 0.85
const DOWN_LOSS = 0.2
/** Less is noise, however few samples a step adds to those of the others. */
const MIN_GAIN = 0.02
/** Share of the newest epoch in the remembered goodput. */
const NEWEST_SHARE = 0.3
/** What a busy answer leaves, at most once in so long. */
const BUSY_STEP = 0.7
const BUSY_EVERY_MS = 1_000
/** Share of a fixed limit that comes back for each second without a busy answer. */
const RECOVERY_A_SECOND = 0.1
/** How long a measured limit keeps below the one that was too much for the server. */
const BUSY_REMEMBERED_MS = 30_000
/** A word about samples waiting in the engine holds for two and a half of the two-second intervals it is asked at. */
const NO_GROWTH_MS = 5_000

/**
 * How many samples one server may have in flight, found by measuring its goodput:
 *
 *     startup ──gain < 8 %──▶ hold ──2 epochs──▶ up or down, in turn
 *       │  ▲                   ▲                        │
 *       └──┘ × 1.5             └── kept, or back to ────┘
 *                                  the limit remembered
 *
 * What is remembered is the limit that gave the best goodput, and that goodput. A limit steered by latency grows too far
 * on a server that batches, and one that creeps down while nothing is lost collapses where saturation is deep.
 *
 * Goodput is samples in flight × tokens ÷ time in flight, over the samples an epoch saw end (Little's law). Tokens ended by
 * the clock would be the same in the long run, but over an epoch they differ by what was half done at its two ends: with
 * samples of usual sizes by 23 %, where 6 % decide. Epochs in which the limit was not filled say nothing of it and are
 * passed over. Samples in flight are those of all processes: one that counted its own alone would find that each more
 * brings it more, as it does, out of the others' part, and all would grow to the largest limit there is.
 */
export class AdaptiveLimit {
  readonly #min: number
  readonly #max: number
  readonly #fixed: number | null
  #limit: number
  #phase: 'startup' | 'hold' | 'up' | 'down' = 'startup'
  /** The limit to go back to when a probe brings nothing. */
  #remembered: number
  /** Its goodput, in tokens/s; null: not measured. */
  #best: number | null = null
  /** Samples in flight from all processes when it was measured. */
  #bestSamples = 0
  /** Samples of other processes in flight. */
  #others = 0
  #held = 0
  #nextProbe: 'up' | 'down' = 'up'

  /** When the limit was last set: samples sent before are no measure of it. */
  #setAtMs = Number.NEGATIVE_INFINITY
  // The epoch so far: samples ended, their tokens and time in flight; samples sent, how many were out then, and filled it.
  #samples = 0
  #tokens = 0
  #sampleMs = 0
  #dispatches = 0
  #inFlightSum = 0
  #filled = 0

  #busyAtMs = Number.NEGATIVE_INFINITY
  /** A fixed limit after the last busy answer. */
  #shrunk: number
  /** Too much at the last busy answer. */
  #tooMuch = Number.POSITIVE_INFINITY
  #noGrowthUntilMs = Number.NEGATIVE_INFINITY

  constructor(options: LimitOptions) {
    this.#min = Math.max(1, Math.floor(options.min))
    this.#max = Math.max(this.#min, Math.floor(options.max))
    this.#limit = Math.min(this.#max, Math.max(this.#min, Math.floor(options.initial)))
    this.#remembered = this.#limit
    this.#shrunk = this.#limit
    this.#fixed = options.fixed ? this.#limit : null
  }

  /** Most samples to have in flight, an integer. What a fixed limit has recovered counts from the next call of a method. */
  get limit(): number {
    return this.#limit
  }

  /** Samples that other processes have in flight to the server. */
  set others(samples: number) {
    this.#others = samples > 0 ? samples : 0
  }

  /** A sample was sent; `inFlight` counts it. */
  dispatched(nowMs: number, inFlight: number): void {
    if (this.#fixed !== null) {
      this.#recover(nowMs)
      return
    }
    this.#dispatches++
    this.#inFlightSum += inFlight
    if (inFlight >= this.#limit) this.#filled++
  }

  /**
   * A sample that was sent ended after `elapsedMs` in flight. Of one that did not end well (`ok` false) the time counts
   * and the tokens do not: what it took was taken from others. Samples that were called off need not be told.
   */
  completed(nowMs: number, tokens: number, ok: boolean, elapsedMs: number): void {
    if (this.#fixed !== null) {
      this.#recover(nowMs)
      return
    }
    if (nowMs - elapsedMs < this.#setAtMs) return
    if (elapsedMs > 0) this.#sampleMs += elapsedMs
    if (!ok) return
    this.#samples++
    if (tokens > 0) this.#tokens += tokens
    if (this.#samples < Math.max(EPOCH_SAMPLES, this.#limit)) return
    const filled = this.#dispatches > 0 && this.#filled >= FILLED_SHARE * this.#dispatches
    const inFlight = this.#inFlightSum / this.#dispatches + this.#others
    const goodput = (inFlight * this.#tokens * 1_000) / this.#sampleMs
    this.#beginEpoch()
    if (filled && Number.isFinite(goodput)) this.#judge(goodput, inFlight, nowMs)
  }

  /** The server said that it has too much to do. */
  busy(nowMs: number): void {
    if (this.#fixed !== null) this.#recover(nowMs)
    if (nowMs - this.#busyAtMs < BUSY_EVERY_MS) return
    this.#busyAtMs = nowMs
    this.#tooMuch = this.#limit
    this.#limit = Math.max(this.#min, Math.floor(this.#limit * BUSY_STEP))
    this.#shrunk = this.#limit
    if (this.#fixed !== null) return
    // What it gave before, with more in flight, is no measure for what it gives now.
    this.#remembered = this.#limit
    this.#best = null
    this.#hold('up')
    this.#setAtMs = nowMs
    this.#beginEpoch()
  }

  /** Samples wait inside the engine: more of them would only wait there. To be told again while it lasts. */
  noGrowth(nowMs: number): void {
    this.#noGrowthUntilMs = nowMs + NO_GROWTH_MS
  }

  #recover(nowMs: number): void {
    const fixed = this.#fixed as number
    if (this.#limit === fixed) return
    const seconds = Math.floor((nowMs - this.#busyAtMs) / 1_000)
    const recovered = this.#shrunk + fixed * RECOVERY_A_SECOND * seconds
    this.#limit = Math.min(fixed, Math.max(this.#limit, Math.floor(recovered)))
  }

  #beginEpoch(): void {
    this.#samples = 0
    this.#tokens = 0
    this.#sampleMs = 0
    this.#dispatches = 0
    this.#inFlightSum = 0
    this.#filled = 0
  }

  /** Decides by an epoch that filled the limit. */
  #judge(goodput: number, samples: number, nowMs: number): void {
    const best = this.#best
    const added = this.#bestSamples > 0 ? samples / this.#bestSamples - 1 : 0
    const pays = (share: number) =>
      best === null || goodput >= best * (1 + Math.max(MIN_GAIN, added * share))
    const mayGrow = nowMs >= this.#noGrowthUntilMs
    switch (this.#phase) {
      case 'startup': {
        const gained = pays(STARTUP_GAIN)
        if (gained) this.#remember(goodput, samples)
        const next = this.#higher(STARTUP_STEP, nowMs)
        if (gained && mayGrow && next > this.#limit) {
          this.#set(next, nowMs)
          return
        }
        this.#goBack(nowMs)
        this.#hold('up')
        return
      }
      case 'hold': {
        this.#best = best === null ? goodput : best + (goodput - best) * NEWEST_SHARE
        this.#bestSamples = samples
        this.#held++
        if (this.#held < HOLD_EPOCHS) return
        this.#probe(mayGrow, nowMs)
        return
      }
      case 'up': {
        if (mayGrow && pays(UP_GAIN)) this.#remember(goodput, samples)
        else this.#goBack(nowMs)
        this.#hold('down')
        return
      }
      case 'down': {
        const allowed = Math.max(MIN_GAIN, -added * DOWN_LOSS)
        if (goodput >= (best as number) * (1 - allowed)) this.#remember(goodput, samples)
        else this.#goBack(nowMs)
        this.#hold('up')
        return
      }
    }
  }

  #probe(mayGrow: boolean, nowMs: number): void {
    const higher = mayGrow ? this.#higher(UP_STEP, nowMs) : this.#limit
    const lower = Math.max(
      this.#min,
      Math.min(this.#limit - 1, Math.round(this.#limit * DOWN_STEP)),
    )
    if (this.#nextProbe === 'up' && higher > this.#limit) {
      this.#phase = 'up'
      this.#set(higher, nowMs)
    } else if (lower < this.#limit) {
      this.#phase = 'down'
      this.#set(lower, nowMs)
    } else if (higher > this.#limit) {
      this.#phase = 'up'
      this.#set(higher, nowMs)
    } else this.#held = 0
  }

  #higher(step: number, nowMs: number): number {
    const most =
      nowMs - this.#busyAtMs < BUSY_REMEMBERED_MS
        ? Math.min(this.#max, this.#tooMuch - 1)
        : this.#max
    return Math.min(most, Math.max(this.#limit + 1, Math.round(this.#limit * step)))
  }

  #remember(goodput: number, samples: number): void {
    this.#remembered = this.#limit
    this.#best = goodput
    this.#bestSamples = samples
  }

  #goBack(nowMs: number): void {
    this.#set(this.#remembered, nowMs)
  }

  #hold(nextProbe: 'up' | 'down'): void {
    this.#phase = 'hold'
    this.#held = 0
    this.#nextProbe = nextProbe
  }

  #set(limit: number, nowMs: number): void {
    if (limit === this.#limit) return
    this.#limit = limit
    this.#setAtMs = nowMs
  }
}
