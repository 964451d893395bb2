import { SecondRing } from './second-ring.ts'

const RATE_HALF_LIFE_MS = 10_000
/**
 * A rate is computed over at least this many samples and {@link MIN_RATE_MS}. After {@link MAX_RATE_MS}, fewer samples
 * suffice.
 */
const RATE_SAMPLES = 8
const MIN_RATE_MS = 250
const MAX_RATE_MS = 2_000
/** A rate below the known one is accepted only if at least this share of the samples was sent to a full server. */
const FILLED_SHARE = 0.7
/** Time constant of the decay of the peak latency. */
const PEAK_DECAY_MS = 10_000
/** Measurements older than this are discarded, so that a slow server is tried again. */
const STALE_MS = 60_000
const MAX_SAMPLES = 256
/**
 * Default fixed cost of a call (connection, tokenizing, batching), expressed in tokens. Without a fixed cost, a sample
 * of 10 tokens in 12 ms would count as 1,200 ms per 1,000 tokens, and one of 2,000 tokens on the same server as 60 ms.
 * The default applies until a line fitted through samples of different sizes gives another value.
 */
const FIXED_TOKENS = 200
const MAX_FIXED_TOKENS = 4_000
/**
 * The line is fitted through about the last 64 samples. It needs at least 12, whose sizes have a standard deviation of
 * at least a quarter of their mean.
 */
const LINE_STEP = 1 / 64
const LINE_SAMPLES = 12
const LINE_SPREAD = 0.25
/** A failed attempt counts as this time or as `ATTEMPT_OF_P99` times the 99th percentile, whichever is longer. */
const MIN_ATTEMPT_MS = 5_000
const ATTEMPT_OF_P99 = 3
/** Weight of the newest sample in the mean size. */
const NEWEST_SHARE = 1 / 32
const FAULT_SECONDS = 30
const CORRUPT_SECONDS = 60

/** Measures the speed of one server, and how often it fails, from its calls. */
export class ServerRating {
  // The current window of the rate measurement, and the measured rate.
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

  // Exponential moving averages of size, time, size squared and size × time, for the fitted line.
  #lineSamples = 0
  #x = 0
  #y = 0
  #xx = 0
  #xy = 0

  /** `#sizes`, `#times`: the last samples, in order of arrival. `#sorted`: times per 1,000 tokens at the last sort. */
  readonly #sizes = new Float64Array(MAX_SAMPLES)
  readonly #times = new Float64Array(MAX_SAMPLES)
  readonly #sorted = new Float64Array(MAX_SAMPLES)
  /** The fixed cost that the sorted list assumes, in tokens. */
  #sortedFixed = FIXED_TOKENS
  #next = 0
  #samples = 0
  #sortedSamples = 0
  #unsorted = 0

  readonly #calls = new SecondRing(FAULT_SECONDS)
  readonly #faults = new SecondRing(FAULT_SECONDS)
  readonly #corrupt = new SecondRing(CORRUPT_SECONDS)

  get samples(): number {
    return this.#samples
  }

  /** `inFlight` includes this sample. */
  began(inFlight: number, most: number): void {
    this.#begun++
    this.#inFlightSum += inFlight
    if (inFlight >= most) this.#filled++
  }

  completed(nowMs: number, tokens: number, elapsedMs: number): void {
    const size = tokens > 0 && tokens < Number.POSITIVE_INFINITY ? tokens : 0
    const ms = elapsedMs > 0 && elapsedMs < Number.POSITIVE_INFINITY ? elapsedMs : 0
    this.#calls.add(nowMs)
    this.#meanTokens += (size - this.#meanTokens) * (this.#samples === 0 ? 1 : NEWEST_SHARE)
    this.#fit(size, ms)
    const normalized = (ms / (size + this.#fixedTokens)) * 1_000
    this.#sizes[this.#next] = size
    this.#times[this.#next] = ms
    this.#next = (this.#next + 1) % MAX_SAMPLES
    if (this.#samples < MAX_SAMPLES) this.#samples++
    this.#unsorted++
    this.#raisePeak(nowMs, normalized)
    this.#windowSamples++
    this.#tokens += size
    this.#sampleMs += ms
    this.#closeWindow(nowMs)
  }

  /**
   * Records a failure after `elapsedMs` that is the server's fault. It counts as a call of at least `timeoutMs`,
   * because a server that fails within a millisecond must not look fast.
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

  /** Records an invalid response; returns their number within the last 60 s, this one included. */
  corrupt(nowMs: number): number {
    this.#corrupt.add(nowMs)
    return this.#corrupt.total(nowMs)
  }

  corruptCount(nowMs: number): number {
    return this.#corrupt.total(nowMs)
  }

  /**
   * The number of calls of the last 30 s that returned a score or failed through the server's fault, and the share of
   * failures.
   */
  faultShare(nowMs: number): { share: number; calls: number } {
    const calls = this.#calls.total(nowMs)
    return { share: calls === 0 ? 0 : this.#faults.total(nowMs) / calls, calls }
  }

  /**
   * Tokens/s of the server at full load, an EWMA with a half-life of 10 s, or null if not measured within the last
   * minute. Below full load the rate is lower, so a measurement there can only raise the value. Otherwise the server
   * with the fewest samples would look slowest and receive even fewer.
   */
  tokensPerSecond(nowMs: number): number | null {
    return nowMs - this.#rateAtMs > STALE_MS ? null : this.#rate
  }

  /**
   * Recent peak of ms per 1,000 tokens, or null if there was no call within the last minute. A slow call or a fault
   * raises it immediately. It decays towards the median with a time constant of 10 s.
   */
  peakMsPerKtok(nowMs: number): number | null {
    const sinceMs = nowMs - this.#peakAtMs
    if (sinceMs > STALE_MS) return null
    // The fixed cost differs between servers, so the peak is given for a sample of 1,000 tokens.
    const ofSample = (1_000 + this.#fixedTokens) / 1_000
    if (sinceMs <= 0) return ofSample * this.#peak
    const usual = this.normalizedMs(0.5) ?? 0
    return ofSample * (usual + (this.#peak - usual) * Math.exp(-sinceMs / PEAK_DECAY_MS))
  }

  /** Exponential moving average of the samples' sizes, in tokens. 0 before the first sample. */
  get meanTokens(): number {
    return this.#meanTokens
  }

  /**
   * The quantile `q` (0–1) of the time per 1,000 tokens over the last 256 samples, in ms, or null if there are no
   * samples. The fixed cost of a call counts as tokens. The samples are sorted again when an eighth of them is new,
   * which costs 0.4 µs per sample.
   */
  normalizedMs(q: number): number | null {
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

  /** The estimated quantile `q` (0–1) of the times of samples of this size, in ms, or null if there are no samples. */
  quantileMs(q: number, tokens: number): number | null {
    const normalized = this.normalizedMs(q)
    return normalized === null ? null : (normalized * (tokens + this.#sortedFixed)) / 1_000
  }

  expectedMs(tokens: number): number | null {
    return this.quantileMs(0.5, tokens)
  }

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

  get #fixedTokens(): number {
    const x = this.#x
    const variance = this.#xx - x * x
    if (this.#lineSamples < LINE_SAMPLES || variance < (LINE_SPREAD * x) ** 2) return FIXED_TOKENS
    const slope = (this.#xy - x * this.#y) / variance
    if (!(slope > 0)) return MAX_FIXED_TOKENS
    return Math.min(MAX_FIXED_TOKENS, Math.max(0, this.#y / slope - x))
  }

  #attemptMs(tokens: number): number {
    const p99 = this.quantileMs(0.99, tokens)
    return p99 === null ? MIN_ATTEMPT_MS : Math.max(MIN_ATTEMPT_MS, ATTEMPT_OF_P99 * p99)
  }

  #raisePeak(nowMs: number, normalized: number): void {
    const sinceMs = nowMs - this.#peakAtMs
    const kept = sinceMs > STALE_MS ? 0 : Math.exp(-Math.max(0, sinceMs) / PEAK_DECAY_MS)
    this.#peak = Math.max(normalized, normalized + (this.#peak - normalized) * kept)
    this.#peakAtMs = nowMs
  }

  #closeWindow(nowMs: number): void {
    if (Number.isNaN(this.#windowFromMs)) this.#windowFromMs = nowMs
    const windowMs = nowMs - this.#windowFromMs
    if (windowMs < (this.#windowSamples >= RATE_SAMPLES ? MIN_RATE_MS : MAX_RATE_MS)) return
    // The rate follows from Little's law. With so few samples, tokens per wall time would mostly reflect samples that
    // were partly done before the window.
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
