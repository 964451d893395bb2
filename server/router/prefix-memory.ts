import type { RoutedSample } from './routed-sample.ts'

/** Groups whose prompt is assumed to be in a server's cache: more would not fit next to the samples in flight. */
const MAX_GROUPS = 64
/** Weight of the newest sample in the mean times per token: about the last 16 count. */
const STEP = 1 / 16
/** Completed samples of both kinds before their times are compared. */
const SEEN_OF_EACH = 4

/**
 * Estimates a sample's cost for a server, in tokens: the whole sample, or only its response if its group's prompt is in
 * the server's prefix cache. Whether a server has such a cache (decoders pooled at the last token do, encoders do not) is
 * inferred: the time per token of a known group's samples matches that of first samples either with or without the
 * prompt. Until then a cache is assumed; without that assumption, a step's first seconds would look like a server that
 * slows down.
 */
export class PrefixMemory {
  readonly #groups = new Set<string>()
  #firstSeen = 0
  #againSeen = 0
  /** Ms per token: of first samples; of samples of a known group with the prompt counted, and without it. */
  #first = 0
  #whole = 0
  #responseOnly = 0

  /** Whether samples of a known group cost their response only. */
  get pays(): boolean {
    if (this.#firstSeen < SEEN_OF_EACH || this.#againSeen < SEEN_OF_EACH) return true
    return (
      Math.abs(Math.log(this.#responseOnly / this.#first)) <
      Math.abs(Math.log(this.#whole / this.#first))
    )
  }

  /** Returns whether the server had received the prompt of the sample's group, and records that it has now. */
  takes(sample: RoutedSample): boolean {
    const { group } = sample
    if (group === undefined) return false
    const isKnown = this.#groups.delete(group)
    this.#groups.add(group)
    if (this.#groups.size > MAX_GROUPS) {
      const { value } = this.#groups.values().next()
      if (value !== undefined) this.#groups.delete(value)
    }
    return isKnown
  }

  /** Estimated cost of the sample. */
  costOf(sample: RoutedSample, isKnown: boolean): number {
    return isKnown && this.pays ? Math.max(1, sample.tokens - sample.promptTokens) : sample.tokens
  }

  /** Records the time of a scored sample. */
  took(sample: RoutedSample, isKnown: boolean, serviceMs: number): void {
    const responseTokens = sample.tokens - sample.promptTokens
    // With almost no prompt or response, the comparison is meaningless.
    if (!(serviceMs > 0) || responseTokens < 1 || sample.promptTokens < 1) return
    if (isKnown) {
      const step = this.#againSeen++ === 0 ? 1 : STEP
      this.#whole += step * (serviceMs / sample.tokens - this.#whole)
      this.#responseOnly += step * (serviceMs / responseTokens - this.#responseOnly)
    } else {
      const step = this.#firstSeen++ === 0 ? 1 : STEP
      this.#first += step * (serviceMs / sample.tokens - this.#first)
    }
  }
}
