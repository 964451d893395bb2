import { SecondRing } from './second-ring.ts'

/** Half-life of the measured tokens/s. */
const RATE_HALF_LIFE_MS = 10_000
/** A rate is taken from so many samples, or from what ended in so long. */
const RATE_SAMPLES = 8
const MIN_RATE_MS = 250
const MAX_RATE_MS = 2_000
/** Share of the samples sent that must have filled the server for a lower rate to be believed. */
const FILLED_SHARE = 0.7
/** Decay of the peak latency. */
const PEAK_DECAY_MS = 10_000
/** Nothing measured for so long: unknown, so that a server once slow is tried again. */
const STALE_MS = 60_000
/** Samples whose times are kept. */
const KEPT_SAMPLES = 256
/**
 * What a call costs whatever its size, in tokens: connection, tokenizing, its place in a batch. By tokens alone a sample of
 * 10 that took 12 ms would count 1,200 ms for 1,000, one of 2,000 on the same server 60, and a quantile would tell what
 * sizes came by, not how fast the server is. So many until a line through the samples seen says otherwise; samples of nearly
 * one size determine none.
 */
const FIXED_TOKENS = 200
const FIXED_TOKENS_MAX = 4_000
/** The line is through some 64 samples, of which there must be 12, whose sizes differ by a quarter of their mean. */
const LINE_STEP = 1 / 64
const LINE_SAMPLES = 12
const LINE_SPREAD = 0.25
/** The least an attempt is given, and how many times the slowest hundredth of its like. */
const ATTEMPT_LEAST_MS = 5_000
const ATTEMPT_OF_P99 = 3
/** Share of the newest sample in the mean size. */
const NEWEST_SHARE = 1 / 32
const FAULT_SECONDS = 30
const CORRUPT_SECONDS = 60

/** What is measured of one server, from its calls: how fast it is, and how often it fails. */
export class ServerRating {
  // Rate: the window so far, and what came of those before.
  #windowSamples = 0
  #tokens = 0
  #sampleMs = 0
  #begun = 0
  #inFlightSum = 0
  #filled = 0
  #windowFromMs = Number.NaN
  #rate = 0
  #rateAtMs = Number.NEGATIVE_INFINITY

  #peak = 0
  #peakAtMs = Number.NEGATIVE_INFINITY
  #meanTokens = 0

  // Means of size and time, and of their products, the newest weighing most.
  #lineSamples = 0
  #x = 0
  #y = 0
  #xx = 0
  #xy = 0

  /** Sizes and times of the last samples, as they came; and times for 1,000 tokens sorted, as of a moment ago. */
  readonly #sizes = new Float64Array(KEPT_SAMPLES)
  readonly #times = new Float64Array(KEPT_SAMPLES)
  readonly #sorted = new Float64Array(KEPT_SAMPLES)
  /** What the sorted ones were made with. */
  #sortedFixed = FIXED_TOKENS
  #next = 0
  #samples = 0
  #sortedSamples = 0
  #unsorted = 0

  readonly #calls = new SecondRing(FAULT_SECONDS)
  readonly #faults = new SecondRing(FAULT_SECONDS)
  readonly #corrupt = new SecondRing(CORRUPT_SECONDS)

  /** Samples whose times are kept: at most 256. */
  get samples(): number {
    return this.#samples
  }

  /** A sample was sent; `inFlight` counts it, `most` is how many the server may have now. */
  began(inFlight: number, most: number): void {
    this.#begun++
    this.#inFlightSum += inFlight
    if (inFlight >= most) this.#filled++
  }

  /** A sample of `tokens` ended well after `elapsedMs`. */
  completed(nowMs: number, tokens: number, elapsedMs: number): void {
    const size = tokens > 0 && tokens < Number.POSITIVE_INFINITY ? tokens : 0
    const ms = elapsedMs > 0 && elapsedMs < Number.POSITIVE_INFINITY ? elapsedMs : 0
    this.#calls.add(nowMs)
    this.#meanTokens += (size - this.#meanTokens) * (this.#samples === 0 ? 1 : NEWEST_SHARE)
    this.#fit(size, ms)
    const normalised = (ms / (size + this.#fixedTokens)) * 1_000
    this.#sizes[this.#next] = size
    this.#times[this.#next] = ms
    this.#next = (this.#next + 1) % KEPT_SAMPLES
    if (this.#samples < KEPT_SAMPLES) this.#samples++
    this.#unsorted++
    this.#raisePeak(nowMs, normalised)
    this.#windowSamples++
    this.#tokens += size
    this.#sampleMs += ms
    this.#closeWindow(nowMs)
  }

  /**
   * A call failed by the server's fault after `elapsedMs`. It counts as one that took the whole time it would have been
   * given: a server that fails within a millisecond must not look fast. `tokens`: of its sample, by default a mean one.
   */
  fault(
    nowMs: number,
    elapsedMs: number,
    tokens = this.#meanTokens,
    timeoutMs = this.#attemptMs(tokens),
  ): void {
    this.#calls.add(nowMs)
    this.#faults.add(nowMs)
    const ms = Math.max(elapsedMs > 0 ? elapsedMs : 0, timeoutMs > 0 ? timeoutMs : 0)
    if (ms < Number.POSITIVE_INFINITY) {
      this.#raisePeak(nowMs, (ms / ((tokens > 0 ? tokens : 0) + this.#fixedTokens)) * 1_000)
    }
  }

  /** It gave something that is no score; how many times within the last 60 s, this one included. */
  corrupt(nowMs: number): number {
    this.#corrupt.add(nowMs)
    return this.#corrupt.total(nowMs)
  }

  /** Times within the last 60 s that it gave something that is no score. */
  corruptCount(nowMs: number): number {
    return this.#corrupt.total(nowMs)
  }

  /** Of the calls that ended within the last 30 s, well or by the server's fault: how many, and the share of faults. */
  faultShare(nowMs: number): { share: number; calls: number } {
    const calls = this.#calls.total(nowMs)
    return { share: calls === 0 ? 0 : this.#faults.total(nowMs) / calls, calls }
  }

  /**
   * Tokens/s the server gives with all the samples it may have, an EWMA with a half-life of 10 s; null when it was not seen
   * so within the last minute. With fewer samples it gives less, which says nothing of it: what was measured then only
   * raises this, else the server with the fewest samples would seem the slowest and be given fewer still.
   */
  tokensPerSecond(nowMs: number): number | null {
    return nowMs - this.#rateAtMs > STALE_MS ? null : this.#rate
  }

  /**
   * Ms for 1,000 tokens at its worst of late: a slow call or a fault raises it at once, and it comes down within 10 s or
   * so to what is usual; null without a call within the last minute.
   */
  peakMsPerKtok(nowMs: number): number | null {
    const sinceMs = nowMs - this.#peakAtMs
    if (sinceMs > STALE_MS) return null
    // A sample of 1,000 tokens, fixed cost included: what is fixed differs from server to server.
    const ofSample = (1_000 + this.#fixedTokens) / 1_000
    if (sinceMs <= 0) return ofSample * this.#peak
    const usual = this.normalisedMs(0.5) ?? 0
    return ofSample * (usual + (this.#peak - usual) * Math.exp(-sinceMs / PEAK_DECAY_MS))
  }

  /** Mean size of its samples, in tokens, the newest weighing most; 0 without any. */
  get meanTokens(): number {
    return this.#meanTokens
  }

  /**
   * The time for 1,000 tokens that a share `q` (0–1) of the last 256 samples did not exceed, in ms, the fixed cost of a call
   * taken for so many tokens as it costs; null without any. Sorted anew when an eighth of the samples is: a sample costs 0.4 µs so.
   */
  normalisedMs(q: number): number | null {
    const samples = this.#samples
    if (samples === 0) return null
    if (this.#unsorted * 8 >= samples || this.#sortedSamples === 0) {
      const sorted = this.#sorted.subarray(0, samples)
      this.#sortedFixed = this.#fixedTokens
      for (let i = 0; i < samples; i++) {
        const size = (this.#sizes[i] as number) + this.#sortedFixed
        sorted[i] = ((this.#times[i] as number) / size) * 1_000
      }
      sorted.sort()
      this.#sortedSamples = samples
      this.#unsorted = 0
    }
    const count = this.#sortedSamples
    return this.#sorted[Math.min(count, Math.max(1, Math.ceil(q * count))) - 1] as number
  }

  /** The time that a share `q` of samples of so many tokens would not exceed, in ms; null without any sample. */
  quantileMs(q: number, tokens: number): number | null {
    const normalised = this.normalisedMs(q)
    return normalised === null ? null : (normalised * (tokens + this.#sortedFixed)) / 1_000
  }

  /** What a sample of so many tokens takes, by the median, in ms; null without any sample. */
  expectedMs(tokens: number): number | null {
    return this.quantileMs(0.5, tokens)
  }

  /** Forgets everything: behind the name is another server, or another model. */
  reset(): void {
    this.#windowSamples = 0
    this.#tokens = 0
    this.#sampleMs = 0
    this.#begun = 0
    this.#inFlightSum = 0
    this.#filled = 0
    this.#windowFromMs = Number.NaN
    this.#rateAtMs = Number.NEGATIVE_INFINITY
    this.#peakAtMs = Number.NEGATIVE_INFINITY
    this.#meanTokens = 0
    this.#lineSamples = 0
    this.#sortedFixed = FIXED_TOKENS
    this.#next = 0
    this.#samples = 0
    this.#sortedSamples = 0
    this.#unsorted = 0
    this.#calls.clear()
    this.#faults.clear()
    this.#corrupt.clear()
  }

  #fit(size: number, ms: number): void {
    const step = Math.max(LINE_STEP, 1 / ++this.#lineSamples)
    this.#x += step * (size - this.#x)
    this.#y += step * (ms - this.#y)
    this.#xx += step * (size * size - this.#xx)
    this.#xy += step * (size * ms - this.#xy)
  }

  /** Where the line through the samples says that a call without any tokens would be. */
  get #fixedTokens(): number {
    const x = this.#x
    const variance = this.#xx - x * x
    if (this.#lineSamples < LINE_SAMPLES || variance < (LINE_SPREAD * x) ** 2) return FIXED_TOKENS
    const slope = (this.#xy - x * this.#y) / variance
    if (!(slope > 0)) return FIXED_TOKENS_MAX
    return Math.min(FIXED_TOKENS_MAX, Math.max(0, this.#y / slope - x))
  }

  #attemptMs(tokens: number): number {
    const p99 = this.quantileMs(0.99, tokens)
    return p99 === null ? ATTEMPT_LEAST_MS : Math.max(ATTEMPT_LEAST_MS, ATTEMPT_OF_P99 * p99)
  }

  #raisePeak(nowMs: number, normalised: number): void {
    const sinceMs = nowMs - this.#peakAtMs
    const kept = sinceMs > STALE_MS ? 0 : Math.exp(-Math.max(0, sinceMs) / PEAK_DECAY_MS)
    this.#peak = Math.max(normalised, normalised + (this.#peak - normalised) * kept)
    this.#peakAtMs = nowMs
  }

  #closeWindow(nowMs: number): void {
    if (Number.isNaN(this.#windowFromMs)) this.#windowFromMs = nowMs
    const windowMs = nowMs - this.#windowFromMs
    if (windowMs < (this.#windowSamples >= RATE_SAMPLES ? MIN_RATE_MS : MAX_RATE_MS)) return
    // By Little's law: over so few samples, tokens ended by the clock are what happened to be half done before.
    const rate = ((this.#inFlightSum / this.#begun) * this.#tokens * 1_000) / this.#sampleMs
    const filled = this.#filled >= FILLED_SHARE * this.#begun
    this.#windowSamples = 0
    this.#tokens = 0
    this.#sampleMs = 0
    this.#begun = 0
    this.#inFlightSum = 0
    this.#filled = 0
    this.#windowFromMs = nowMs
    if (!Number.isFinite(rate) || rate <= 0) return
    const known = nowMs - this.#rateAtMs <= STALE_MS
    if (!filled && !(known && rate > this.#rate)) return
    const kept = known ? 2 ** -(Math.max(0, nowMs - this.#rateAtMs) / RATE_HALF_LIFE_MS) : 0
    this.#rate = rate + (this.#rate - rate) * kept
    this.#rateAtMs = nowMs
  }
}
