import type { RoutedSample } from './routed-sample.ts'

/** Groups whose prompt is taken to be in a server's cache: more would not fit beside what is in flight. */
const GROUPS = 64
/** Weight of the newest sample in the times a token takes: some 16 samples are remembered. */
const STEP = 1 / 16
/** Samples of both kinds that must have ended before their times are compared. */
const SEEN_OF_EACH = 4

/**
 * What a sample costs a server, in tokens: all of it, or its response alone where its group's prompt is in the server's
 * prefix cache. Whether a server has such a cache (decoders pooled at the last token do, encoders do not) is found by
 * comparing: samples of a known group take as long a token as first ones either with their prompt counted, or without. Until
 * then it is taken to have one: taken not to, what a step's first seconds show looks like a server that slows down.
 */
export class PrefixMemory {
  readonly #groups = new Set<string>()
  #firstSeen = 0
  #againSeen = 0
  /** Ms a token: of first samples; of those of a known group with their prompt counted, and without. */
  #first = 0
  #whole = 0
  #responseOnly = 0

  /** True while the samples of a known group cost their response alone. */
  get pays(): boolean {
    if (this.#firstSeen < SEEN_OF_EACH || this.#againSeen < SEEN_OF_EACH) return true
    return (
      Math.abs(Math.log(this.#responseOnly / this.#first)) <
      Math.abs(Math.log(this.#whole / this.#first))
    )
  }

  /** True when its group's prompt is known here; from now on it is. */
  takes(sample: RoutedSample): boolean {
    const { group } = sample
    if (group === undefined) return false
    const known = this.#groups.delete(group)
    this.#groups.add(group)
    if (this.#groups.size > GROUPS) {
      const { value } = this.#groups.values().next()
      if (value !== undefined) this.#groups.delete(value)
    }
    return known
  }

  /** What the sample costs, as estimated. */
  costOf(sample: RoutedSample, known: boolean): number {
    return known && this.pays ? Math.max(1, sample.tokens - sample.promptTokens) : sample.tokens
  }

  /** A sample ended well. */
  took(sample: RoutedSample, known: boolean, serviceMs: number): void {
    const responseTokens = sample.tokens - sample.promptTokens
    // Where one of the two is next to nothing, the comparison says nothing.
    if (!(serviceMs > 0) || responseTokens < 1 || sample.promptTokens < 1) return
    if (known) {
      const step = this.#againSeen++ === 0 ? 1 : STEP
      this.#whole += step * (serviceMs / sample.tokens - this.#whole)
      this.#responseOnly += step * (serviceMs / responseTokens - this.#responseOnly)
    } else {
      const step = this.#firstSeen++ === 0 ? 1 : STEP
      this.#first += step * (serviceMs / sample.tokens - this.#first)
    }
  }
}
