/**
 * Bucket bounds grow by a factor of 2^(1/4) ≈ 1.189 from 0.1 ms. A quantile taken from the middle of a bucket is at
 * most 9 % off. 96 buckets reach 1,400 s; longer durations count in the last one.
 */
const BUCKETS_PER_DOUBLING = 4
const FIRST_BOUND_MS = 0.1
const BUCKET_COUNT = 96

export const LATENCY_BUCKET_RATIO = 2 ** (1 / BUCKETS_PER_DOUBLING)

/** Upper bound of each bucket in ms; the first bucket counts all shorter durations, the last all longer ones. */
export const LATENCY_BOUNDS_MS: readonly number[] = Array.from(
  { length: BUCKET_COUNT },
  (_, i) => FIRST_BOUND_MS * LATENCY_BUCKET_RATIO ** i,
)

const LOG_SCALE = BUCKETS_PER_DOUBLING / Math.LN2

/** Counts durations in fixed logarithmic buckets, so that histograms of several processes can be added. */
export class LatencyHistogram {
  readonly counts: number[]

  constructor() {
    this.counts = new Array<number>(BUCKET_COUNT).fill(0)
  }

  /** Restores a histogram from {@link toJSON}'s output. @throws RangeError for invalid input */
  static from(counts: readonly number[]): LatencyHistogram {
    if (counts.length !== BUCKET_COUNT || !counts.every((n) => Number.isInteger(n) && n >= 0)) {
      throw new RangeError(`a latency histogram has ${BUCKET_COUNT} counts of 0 or more`)
    }
    const histogram = new LatencyHistogram()
    for (let i = 0; i < BUCKET_COUNT; i++) histogram.counts[i] = counts[i] as number
    return histogram
  }

  /** Counts one duration in ms. Negative values and NaN count as the shortest duration. */
  add(durationMs: number): void {
    const index =
      durationMs > FIRST_BOUND_MS
        ? Math.min(BUCKET_COUNT - 1, Math.ceil(Math.log(durationMs / FIRST_BOUND_MS) * LOG_SCALE))
        : 0
    this.counts[index] = (this.counts[index] as number) + 1
  }

  subtract(counts: readonly number[]): void {
    for (let i = 0; i < BUCKET_COUNT; i++) {
      this.counts[i] = (this.counts[i] as number) - (counts[i] as number)
    }
  }

  get total(): number {
    let total = 0
    for (const count of this.counts) total += count
    return total
  }

  /**
   * Returns the quantile `q` (0–1) of the counted durations in ms, as the geometric middle of its bucket, or null if no
   * durations were counted.
   */
  quantile(q: number): number | null {
    const total = this.total
    if (total === 0) return null
    const rank = Math.min(total, Math.max(1, Math.ceil(q * total)))
    let seen = 0
    for (let i = 0; i < BUCKET_COUNT; i++) {
      seen += this.counts[i] as number
      if (seen >= rank) return (LATENCY_BOUNDS_MS[i] as number) / Math.sqrt(LATENCY_BUCKET_RATIO)
    }
    return null
  }

  toJSON(): number[] {
    return this.counts.slice()
  }
}
