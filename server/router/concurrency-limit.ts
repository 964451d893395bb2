import { ADAPTIVE_INITIAL_IN_FLIGHT } from '../contract/adaptive-limit.ts'
import { mostInFlight } from '../contract/servers.ts'
import { engineOf } from '../engines/registry.ts'
import type { RouterServer } from './router-types.ts'

/** Bounds of a limit, in samples in flight. */
export interface LimitOptions {
  /** The limit to start from; if `fixed`, the limit itself. */
  initial: number
  /** The limit never falls below this, even if the server always answers that it is busy; at least 1. */
  min: number
  max: number
  /** Whether the limit is configured. A configured limit shrinks only while the server is busy. */
  fixed: boolean
}

/**
 * An epoch is the interval of one goodput measurement. It has at least this many completed samples, and at least as
 * many as the limit.
 */
const EPOCH_SAMPLES = 16
/** An epoch is evaluated only if at least this share of its dispatches reached the limit. */
const FILLED_SHARE = 0.7
/**
 * In startup, the limit is multiplied by {@link STARTUP_STEP} as long as goodput rises by at least {@link STARTUP_GAIN}
 * of that growth: by 8 % for 50 % more samples.
 */
const STARTUP_STEP = 1.5
const STARTUP_GAIN = 0.16
/** Evaluated epochs between two probes. */
const HOLD_EPOCHS = 2
/**
 * A probe multiplies the limit by {@link UP_STEP} or {@link DOWN_STEP}. An upward probe must raise goodput by {@link
 * UP_GAIN} of the added share: 6 % for 25 % more samples. A downward probe may lower it by {@link DOWN_LOSS} of the
 * removed share: 3 % for 15 % fewer samples.
 */
const UP_STEP = 1.25
const UP_GAIN = 0.24
const DOWN_STEP = 0.85
const DOWN_LOSS = 0.2
/**
 * Smaller relative changes of goodput count as noise. This bound matters if other processes have most of the samples in
 * flight, because a probe then adds only a small share.
 */
const MIN_GAIN = 0.02
/** Weight of the newest epoch in the remembered goodput. */
const NEWEST_SHARE = 0.3
/** A busy answer multiplies the limit by this factor, at most once per {@link BUSY_EVERY_MS}. */
const BUSY_STEP = 0.7
const BUSY_EVERY_MS = 1_000
/** Share of a fixed limit that is restored for each second without a busy answer. */
const RECOVERY_A_SECOND = 0.1
/** How long an adaptive limit stays below the limit that led to a busy answer. */
const BUSY_REMEMBERED_MS = 30_000
/** After a report that requests wait inside the engine, the limit does not grow for this time: 2.5 report intervals. */
const NO_GROWTH_MS = 5_000

/** The lower bound of an adaptive limit, summed over all processes. */
const MIN_LIMIT = 4

/**
 * The number of samples that this process may have in flight to one server, adapted to the server's measured goodput:
 *
 *     startup ──gain < 8 %──▶ hold ──2 epochs──▶ up or down, alternately
 *       │  ▲                   ▲                        │
 *       └──┘ × 1.5             └── kept, or back to ────┘
 *                                  the limit remembered
 *
 * The best goodput and its limit are remembered. A limit controlled by latency would grow too far on a server that
 * batches.
 *
 * Goodput is samples in flight × tokens ÷ time in flight, over the samples answered in an epoch (Little's law). Over
 * one epoch, tokens ÷ wall time would be distorted by 23 % by the samples that were partly done at its start and end,
 * while a gain of 6 % is enough to accept a probe. Samples in flight are those of all processes. Otherwise a process
 * would measure a gain at the expense of the others, and all limits would grow to the maximum.
 */
export class AdaptiveLimit {
  readonly #min: number
  readonly #max: number
  readonly #fixed: number | null
  #limit: number
  #phase: 'startup' | 'hold' | 'up' | 'down' = 'startup'
  /** The limit to return to when a probe brings no gain. */
  #remembered: number
  /** Goodput at the remembered limit, in tokens/s, or null if not measured. */
  #best: number | null = null
  /** Samples in flight from all processes when `#best` was measured. */
  #bestSamples = 0
  #others = 0
  #held = 0
  #nextProbe: 'up' | 'down' = 'up'

  /** Time when the limit was last set. Samples sent before that time are not counted. */
  #setAtMs = Number.NEGATIVE_INFINITY
  // Sums of the current epoch. Ended samples: number, tokens, time in flight. Dispatches: number, sum of the samples in
  // flight at each one, and how many reached the limit.
  #samples = 0
  #tokens = 0
  #sampleMs = 0
  #dispatches = 0
  #inFlightSum = 0
  #filled = 0

  #busyAtMs = Number.NEGATIVE_INFINITY
  /** A fixed limit, as reduced by the last busy answer. */
  #shrunk: number
  /** The limit when a busy answer last reduced it. */
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

  /**
   * Maximum number of samples in flight, an integer. A fixed limit recovers only when one of the methods below is
   * called.
   */
  get limit(): number {
    return this.#limit
  }

  /** Slots that other processes hold at the server. They count as samples in flight. */
  set others(samples: number) {
    this.#others = samples > 0 ? samples : 0
  }

  /** Records that a sample was sent; `inFlight` includes this sample. */
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
   * Records that a sample was answered or failed after `elapsedMs` in flight. If it failed (`ok` false), its time
   * counts but its tokens do not, because it took capacity from other samples. Cancelled samples need not be recorded.
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

  busy(nowMs: number): void {
    if (this.#fixed !== null) this.#recover(nowMs)
    if (nowMs - this.#busyAtMs < BUSY_EVERY_MS) return
    this.#busyAtMs = nowMs
    this.#tooMuch = this.#limit
    this.#limit = Math.max(this.#min, Math.floor(this.#limit * BUSY_STEP))
    this.#shrunk = this.#limit
    if (this.#fixed !== null) return
    // Goodput measured with more samples in flight is not a reference for the reduced limit.
    this.#remembered = this.#limit
    this.#best = null
    this.#hold('up')
    this.#setAtMs = nowMs
    this.#beginEpoch()
  }

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

/**
 * Limits the samples in flight from one process to a server. A configured limit shrinks only while the server is busy.
 * An adaptive limit starts from this process's share of the initial limit. The initial limit is 8 for a reward model,
 * 16 for a judge, and the number of slots for llama.cpp; it never exceeds TEI's permits.
 */
export class ServerLimit {
  #limit = new AdaptiveLimit({ initial: 1, min: 1, max: 1, fixed: true })
  #most = Number.POSITIVE_INFINITY
  #total = 1
  #key = ''

  /** Applies the registered settings; measurements are kept unless the settings changed. */
  update(config: RouterServer, processes: number): void {
    const { maxInFlight, maxConcurrent } = config
    const kind = config.kind ?? 'discriminative'
    const key = `${maxInFlight}/${maxConcurrent}/${config.engine}/${kind}`
    if (key === this.#key) return
    this.#key = key
    this.#most = maxInFlight ?? maxConcurrent ?? Number.POSITIVE_INFINITY
    this.#total = mostInFlight(maxInFlight, maxConcurrent ?? null)
    if (maxInFlight !== null) {
      this.#limit = new AdaptiveLimit({
        initial: maxInFlight,
        min: 1,
        max: maxInFlight,
        fixed: true,
      })
      return
    }
    const max = mostInFlight(null, maxConcurrent ?? null)
    const { hasSlots = false } = engineOf(config.engine)
    const wanted =
      hasSlots && maxConcurrent != null ? maxConcurrent : ADAPTIVE_INITIAL_IN_FLIGHT[kind]
    const part = (n: number) => Math.max(1, Math.min(max, Math.ceil(n / Math.max(1, processes))))
    this.#limit = new AdaptiveLimit({
      initial: part(wanted),
      min: hasSlots ? 1 : part(MIN_LIMIT),
      max,
      fixed: false,
    })
  }

  /** The current limit, adaptive or fixed. Callers report every dispatch and completion to it. */
  get search(): AdaptiveLimit {
    return this.#limit
  }

  get most(): number {
    return Math.min(this.#limit.limit, this.#most)
  }

  /**
   * Returns this process's share of the limit over all processes: its slots or an equal share, whichever is more. The
   * shares of all processes can be added up, but {@link most} cannot, because in each process it is the whole
   * configured limit.
   */
  part(slots: number, processes: number): number {
    return Math.min(this.most, Math.max(slots, this.#total / processes))
  }
}
