/** Characters a token before any server counted: English and code with the tokenizers of 2024–26. */
const CHARS_PER_TOKEN = 3.6
/** Weight of the newest count: about 100 samples are remembered. */
const STEP = 0.02

/** Estimates tokens from characters, corrected by what servers count. */
export class TokenEstimate {
  #charsPerToken = CHARS_PER_TOKEN

  /** At least 1. */
  tokensOf(chars: number): number {
    return Math.max(1, chars / this.#charsPerToken)
  }

  /** A server counted so many tokens in so many characters. */
  seen(chars: number, tokens: number): void {
    // Templates add tokens to short texts: those say little of the rate.
    if (chars < 64 || !(tokens >= 1)) return
    const ratio = Math.min(20, Math.max(0.5, chars / tokens))
    this.#charsPerToken += STEP * (ratio - this.#charsPerToken)
  }
}
