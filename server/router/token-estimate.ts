/** Characters per token until a server has counted tokens: typical of English and code with tokenizers of 2024–26. */
const CHARS_PER_TOKEN = 3.6
/** Weight of the newest count, so that about the last 50 counts matter. */
const STEP = 0.02

/** Estimates the tokens of a text from its characters, corrected by the servers' counts. */
export class TokenEstimate {
  #charsPerToken = CHARS_PER_TOKEN

  tokensOf(chars: number): number {
    return Math.max(1, chars / this.#charsPerToken)
  }

  seen(chars: number, tokens: number): void {
    // Chat templates add tokens, which distorts the ratio of short texts.
    if (chars < 64 || !(tokens >= 1)) return
    const ratio = Math.min(20, Math.max(0.5, chars / tokens))
    this.#charsPerToken += STEP * (ratio - this.#charsPerToken)
  }
}
