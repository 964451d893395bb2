interface Entry<T> {
  /** Fresh up to this moment; no end while it is on its way. */
  until: number
  value: Promise<T>
  /** The next one has been asked for. */
  renewing: boolean
}

/** Answers kept for a short time, one question at a time: 16 readers of one page cost one query. */
export class Memo<T> {
  readonly #ttlMs: number
  readonly #staleMs: number
  readonly #entries = new Map<string, Entry<T>>()

  /**
   * @param staleMs for so long after `ttlMs` an answer is still given while a new one is on its way: nobody waits for a slow
   * question that somebody asks again and again
   */
  constructor(ttlMs: number, staleMs = 0) {
    this.#ttlMs = ttlMs
    this.#staleMs = staleMs
  }

  /** The kept answer, or a new one. A failed answer is not kept. */
  get(key: string, ask: () => Promise<T>): Promise<T> {
    const now = performance.now()
    const kept = this.#entries.get(key)
    if (kept && kept.until > now) return kept.value
    if (kept && kept.until + this.#staleMs > now) {
      if (!kept.renewing) {
        kept.renewing = true
        // Who asks after a failure is told of it.
        ask().then(
          (value) => this.#keep(key, Promise.resolve(value)),
          () => this.#entries.delete(key),
        )
      }
      return kept.value
    }
    if (this.#entries.size > 1_000) this.#prune(now)
    return this.#keep(key, ask())
  }

  #keep(key: string, value: Promise<T>): Promise<T> {
    // Kept from the moment it is asked, and again for the full time from its arrival.
    const entry: Entry<T> = { until: Number.POSITIVE_INFINITY, value, renewing: false }
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
    for (const [key, entry] of this.#entries) {
      if (entry.until + this.#staleMs <= now) this.#entries.delete(key)
    }
  }
}
