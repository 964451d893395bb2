/** Longest pause a server may ask for by Retry-After. */
const RETRY_AFTER_MAX_MS = 30_000
/** Busy answers in a row, without a score between, after which a server pauses that gave no Retry-After. */
const REFUSALS_TO_PAUSE = 3
/** Its pause: 100 ms, doubled while the answers go on, at most 5 s; half of it is random. */
const BUSY_STEP_MS = 100
const BUSY_MAX_MS = 5_000

/**
 * A server's pauses for being busy. Its Retry-After is kept for every sample. Without one the samples refused back off on
 * their own, and the server pauses only when it refuses all: sent on at full speed, each waiting sample would use up its
 * attempts.
 */
export class BusyPause {
  #untilMs = 0
  #pausedAtMs = 0
  /** Pauses since the last score. */
  #pauses = 0
  /** Busy answers since the last score. */
  #refusals = 0

  /** Until when it pauses, on the clock of `performance.now()`. */
  get untilMs(): number {
    return this.#untilMs
  }

  /** It gave a score. */
  scored(): void {
    this.#refusals = 0
    this.#pauses = 0
  }

  /** It refused a call begun at `startedAtMs` as busy; true when it pauses for that. */
  refused(retryAfterMs: number | undefined, startedAtMs: number, nowMs: number): boolean {
    this.#refusals++
    let pauseMs = 0
    if (retryAfterMs !== undefined) {
      pauseMs = Math.min(RETRY_AFTER_MAX_MS, retryAfterMs)
    } else if (this.#refusals >= REFUSALS_TO_PAUSE && startedAtMs >= this.#pausedAtMs) {
      // Of many calls in flight that were all refused, only one begun since the last pause makes the next one longer.
      pauseMs = Math.min(BUSY_MAX_MS, BUSY_STEP_MS * 2 ** this.#pauses) * (0.5 + Math.random() / 2)
      this.#pausedAtMs = nowMs
      this.#pauses++
    }
    if (pauseMs === 0) return false
    this.#untilMs = Math.max(this.#untilMs, nowMs + pauseMs)
    return true
  }
}
