/**
 * Tracks whether a process is blocked, and by which call. While one call blocks it, the clocks of the others stop;
 * {@link totalMs} is the time to subtract.
 */
export class HeldUp {
  #sinceMs = 0
  /** 0: an unknown call; null: the process is not blocked. */
  #holder: number | null = null
  #beforeMs = 0

  /** The call that blocks the process; 0 if unknown, null if none. */
  get holder(): number | null {
    return this.#holder
  }

  /** Time for which the process has been blocked so far, ms; 0 while it responds. */
  get ms(): number {
    return this.#holder === null ? 0 : performance.now() - this.#sinceMs
  }

  /** Total time for which it was blocked, ms. */
  get totalMs(): number {
    return this.#beforeMs + this.ms
  }

  /** Records that it has not responded for this time, apparently because of this call. */
  seen(holder: number, ms: number): void {
    if (this.#holder === null) this.#sinceMs = performance.now() - ms
    this.#holder = holder
  }

  /** Records that it responds again. */
  over(): void {
    this.#beforeMs += this.ms
    this.#holder = null
  }
}
