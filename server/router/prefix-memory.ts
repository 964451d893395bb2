import type { RoutedSample } from './routed-sample.ts'

/**
 * Maximum number of groups whose prompt is assumed to be in a server's prefix cache. The prompts of more groups would
 * not fit next to the samples in flight.
 */
const MAX_GROUPS = 64
/** Weight of the newest sample in the mean times per token, which cover about the last 16 samples. */
const STEP = 1 / 16
/**
 * Minimum number of completed first samples of groups, and of completed later samples, before the times of the two
 * kinds are compared.
 */
const MIN_OF_EACH = 4

/**
 * Estimates the cost of a sample for a server, in tokens: the whole sample, or only its response if the prompt of its
 * group is in the server's prefix cache. Decoders pooled at the last token have such a cache, encoders do not. Whether
 * the model has one is inferred from the times per token of first and later samples. Until enough samples are known, a
 * cache is assumed. Otherwise a server with a cache would seem to slow down in the first seconds of a step.
 */
export class PrefixMemory {
  readonly #groups = new Set<string>()
  #firstSeen = 0
  #againSeen = 0
  /**
   * Mean ms per token. `#first`: first samples of groups. `#whole`: later samples, with the prompt's tokens counted.
   * `#responseOnly`: later samples, without the prompt's tokens.
   */
  #first = 0
  #whole = 0
  #responseOnly = 0

  /** Whether later samples of a group cost only their response. */
  get pays(): boolean {
    if (this.#firstSeen < MIN_OF_EACH || this.#againSeen < MIN_OF_EACH) return true
    return (
      Math.abs(Math.log(this.#responseOnly / this.#first)) <
      Math.abs(Math.log(this.#whole / this.#first))
    )
  }

  /** Records that the server receives the prompt of the sample's group. Returns whether it had received it before. */
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

  /** Estimated cost of the sample, in tokens. `isKnown`: as returned by {@link takes}. */
  costOf(sample: RoutedSample, isKnown: boolean): number {
    return isKnown && this.pays ? Math.max(1, sample.tokens - sample.promptTokens) : sample.tokens
  }

  took(sample: RoutedSample, isKnown: boolean, serviceMs: number): void {
    const responseTokens = sample.tokens - sample.promptTokens
    // With almost no prompt or response, the times with and without the prompt cannot be compared.
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
