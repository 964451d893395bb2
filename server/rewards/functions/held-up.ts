/**
 * Whether a process answers, and who keeps it from it. While one call holds it up, the others' time does not run: their
 * clock is {@link totalMs}.
 */
export class HeldUp {
  #sinceMs = 0
  /** 0: nobody could be named; null: it answers. */
  #holder: number | null = null
  #beforeMs = 0

  /** The call that holds it up; 0: one that nobody could name; null: none does. */
  get holder(): number | null {
    return this.#holder
  }

  /** For so long by now, ms; 0 while it answers. */
  get ms(): number {
    return this.#holder === null ? 0 : performance.now() - this.#sinceMs
  }

  /** How long it has been held up altogether, ms. */
  get totalMs(): number {
    return this.#beforeMs + this.ms
  }

  /** It has not answered for so long, because of this call as far as one can see now. */
  seen(holder: number, ms: number): void {
    if (this.#holder === null) this.#sinceMs = performance.now() - ms
    this.#holder = holder
  }

  /** It answers again. */
  over(): void {
    this.#beforeMs += this.ms
    this.#holder = null
  }
}
