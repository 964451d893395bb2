/**
 * Tracks whether a process is blocked, and by which call. While one call blocks it, the time limits of the other calls
 * are paused: {@link totalMs} is subtracted from their times.
 */
export class HeldUp {
  #sinceMs = 0
  #holder: number | null = null
  #beforeMs = 0

  /** Id of the call that blocks the process; 0 if unknown, null if none. */
  get holder(): number | null {
    return this.#holder
  }

  get ms(): number {
    return this.#holder === null ? 0 : performance.now() - this.#sinceMs
  }

  get totalMs(): number {
    return this.#beforeMs + this.ms
  }

  /** Records that the process has not responded for `ms`, apparently because of the call `holder`. */
  seen(holder: number, ms: number): void {
    if (this.#holder === null) this.#sinceMs = performance.now() - ms
    this.#holder = holder
  }

  over(): void {
    this.#beforeMs += this.ms
    this.#holder = null
  }
}
