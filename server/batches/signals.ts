/**
 * Wakes whoever waits for a batch to move. A notification is only a hint: every waiter looks again after a
 * second at the latest, because `wait` never sleeps longer.
 */
export class BatchSignals {
  readonly #waiters = new Map<number, Set<() => void>>()
  #stopped = false

  /** The batch moved. */
  notify(batchId: number): void {
    const waiters = this.#waiters.get(batchId)
    if (!waiters) return
    this.#waiters.delete(batchId)
    for (const wake of waiters) wake()
  }

  /** Notifications may have been missed: everybody looks again. */
  notifyAll(): void {
    for (const batchId of [...this.#waiters.keys()]) this.notify(batchId)
  }

  /** Long polls are answered with what there is: the service stops. */
  stop(): void {
    this.#stopped = true
    this.notifyAll()
  }

  get stopped(): boolean {
    return this.#stopped
  }

  /** Resolves when the batch moved, after `ms` (at most a second), or when `signal` aborts. */
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

  /** Waiters now; zero at idle. */
  get size(): number {
    let n = 0
    for (const set of this.#waiters.values()) n += set.size
    return n
  }
}
