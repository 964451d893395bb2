/** Answers kept for a short time, one question at a time: 16 readers of one page cost one query. */
export class Memo<T> {
  readonly #ttlMs: number
  readonly #entries = new Map<string, { until: number; value: Promise<T> }>()

  constructor(ttlMs: number) {
    this.#ttlMs = ttlMs
  }

  /** The kept answer, or a new one. A failed answer is not kept. */
  get(key: string, ask: () => Promise<T>): Promise<T> {
    const now = performance.now()
    const kept = this.#entries.get(key)
    if (kept && kept.until > now) return kept.value
    if (this.#entries.size > 1_000) this.#prune(now)
    const value = ask()
    // Kept from the moment it is asked, and again for the full time from its arrival.
    const entry = { until: Number.POSITIVE_INFINITY, value }
    this.#entries.set(key, entry)
    value.then(
      () => {
        entry.until = performance.now() + this.#ttlMs
      },
      () => {
        if (this.#entries.get(key) === entry) this.#entries.delete(key)
      },
    )
    return value
  }

  #prune(now: number): void {
    for (const [key, entry] of this.#entries) if (entry.until <= now) this.#entries.delete(key)
  }
}
