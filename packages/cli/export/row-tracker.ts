const LF = 10
const QUOTE = 34

/** Splits a byte stream into whole rows. In CSV, a line end inside quotes is text. */
export class RowTracker {
  rows = 0
  bytes = 0
  /** Includes its line end; null before the first row. */
  lastRow: Buffer | null = null
  readonly #quotes: boolean
  #inQuotes = false
  #begun: Buffer[] = []

  constructor(quotes: boolean) {
    this.#quotes = quotes
  }

  push(chunk: Buffer): Buffer[] {
    let from = 0
    let quote = this.#quotes ? chunk.indexOf(QUOTE) : -1
    const passQuotes = (until: number) => {
      for (; quote !== -1 && quote < until; quote = chunk.indexOf(QUOTE, quote + 1)) {
        this.#inQuotes = !this.#inQuotes
      }
    }
    let lastFrom = 0
    for (let end = chunk.indexOf(LF); end !== -1; end = chunk.indexOf(LF, end + 1)) {
      passQuotes(end)
      if (this.#inQuotes) continue
      this.rows++
      lastFrom = from
      from = end + 1
    }
    passQuotes(chunk.length)
    if (from === 0) {
      this.#begun.push(chunk)
      return []
    }
    const whole = chunk.subarray(0, from)
    const out = [...this.#begun, whole]
    this.lastRow = lastFrom === 0 ? Buffer.concat(out) : Buffer.from(chunk.subarray(lastFrom, from))
    this.bytes += out.reduce((sum, part) => sum + part.length, 0)
    this.#begun = from < chunk.length ? [Buffer.from(chunk.subarray(from))] : []
    return out
  }
}
