/**
 * Wakes callers that wait for a batch to change. A notification is only a hint: `wait` never sleeps longer than a
 * second, so every caller checks again at least that often.
 */
export class BatchSignals {
  readonly #waiters = new Map<number, Set<() => void>>()
  #stopped = false

  notify(batchId: number): void {
    const waiters = this.#waiters.get(batchId)
    if (!waiters) return
    this.#waiters.delete(batchId)
    for (const wake of waiters) wake()
  }

  /** Wakes all callers, because notifications may have been missed. */
  notifyAll(): void {
    for (const batchId of [...this.#waiters.keys()]) this.notify(batchId)
  }

  /** Wakes all callers, because the service is stopping; long polls then return the current state. */
  stop(): void {
    this.#stopped = true
    this.notifyAll()
  }

  get stopped(): boolean {
    return this.#stopped
  }

  /** Resolves when the batch changes, after `ms` (at most a second), or when `signal` aborts. */
  wait(batchId: number, ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const set = this.#waiters.get(batchId) ?? new Set<() => void>()
      this.#waiters.set(batchId, set)
      const wake = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', wake)
        set.delete(wake)
        if (set.size === 0 && this.#waiters.get(batchId) === set) this.#waiters.delete(batchId)
        resolve()
      }
      const timer = setTimeout(wake, Math.max(0, Math.min(ms, 1_000)))
      signal?.addEventListener('abort', wake)
      set.add(wake)
      if (signal?.aborted) wake()
    })
  }

  get size(): number {
    let n = 0
    for (const set of this.#waiters.values()) n += set.size
    return n
  }
}
