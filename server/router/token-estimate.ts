/** Characters per token before any server has counted: English and code with the tokenizers of 2024–26. */
const CHARS_PER_TOKEN = 3.6
/** Weight of the newest count: about the last 100 samples count. */
const STEP = 0.02

/** Estimates tokens from characters, corrected by the servers' counts. */
export class TokenEstimate {
  #charsPerToken = CHARS_PER_TOKEN

  /** Estimated tokens of a text, at least 1. */
  tokensOf(chars: number): number {
    return Math.max(1, chars / this.#charsPerToken)
  }

  /** Records that a server counted `tokens` in `chars` characters. */
  seen(chars: number, tokens: number): void {
    // Templates add tokens to short texts, which distorts their ratio.
    if (chars < 64 || !(tokens >= 1)) return
    const ratio = Math.min(20, Math.max(0.5, chars / tokens))
    this.#charsPerToken += STEP * (ratio - this.#charsPerToken)
  }
}
