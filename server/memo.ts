interface Entry<T> {
  /** Time until which the value is fresh, by `performance.now()`; infinite while it is loading. */
  until: number
  value: Promise<T>
  isRenewing: boolean
}

/** Caches query results for a short time and runs one query per key at a time: 16 readers of a page cost one query. */
export class Memo<T> {
  readonly #ttlMs: number
  readonly #staleMs: number
  readonly #share: number
  readonly #entries = new Map<string, Entry<T>>()

  /**
   * @param staleMs time after `ttlMs` during which an old result is still returned while a new one loads, so that
   * callers never wait for a slow query that is requested often
   * @param share the maximum share of time, 0–1, that the queries of one key may take up; results of slow queries are
   * therefore cached for longer
   */
  constructor(ttlMs: number, staleMs = 0, share = 1) {
    this.#ttlMs = ttlMs
    this.#staleMs = staleMs
    this.#share = share
  }

  /** Returns the cached result, or a new one. Failures are not cached. */
  get(key: string, query: () => Promise<T>): Promise<T> {
    const now = performance.now()
    const kept = this.#entries.get(key)
    if (kept && kept.until > now) return kept.value
    if (kept && kept.until + this.#staleMs > now) {
      if (!kept.isRenewing) {
        kept.isRenewing = true
        // After a failure, the next caller runs a new query and gets its error.
        query().then(
          (value) => this.#keep(key, Promise.resolve(value), now),
          () => this.#entries.delete(key),
        )
      }
      return kept.value
    }
    if (this.#entries.size > 1_000) this.#prune(now)
    return this.#keep(key, query(), now)
  }

  #keep(key: string, value: Promise<T>, startedMs: number): Promise<T> {
    const entry: Entry<T> = { until: Number.POSITIVE_INFINITY, value, isRenewing: false }
    this.#entries.set(key, entry)
    value.then(
      () => {
        const nowMs = performance.now()
        entry.until = nowMs + Math.max(this.#ttlMs, (nowMs - startedMs) * (1 / this.#share - 1))
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
