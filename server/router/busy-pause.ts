/** Longest pause that a server can request with Retry-After. */
const MAX_RETRY_AFTER_MS = 30_000
/** Number of busy answers since a server's last score after which the server pauses, even without Retry-After. */
const REFUSALS_TO_PAUSE = 3
/**
 * Length of a pause without Retry-After: 100 ms, doubled for each earlier pause since the last score, at most 5 s,
 * times a random factor from 0.5 to 1.
 */
const BUSY_STEP_MS = 100
const MAX_BUSY_MS = 5_000

/**
 * The pauses of one server after busy answers. A Retry-After applies to every sample. Without Retry-After, refused
 * samples back off individually, and the server pauses only after several busy answers without a score in between.
 * Without the pause, every waiting sample would be sent to the server at full speed and refused.
 */
export class BusyPause {
  #untilMs = 0
  #pausedAtMs = 0
  #pauses = 0
  #refusals = 0

  /** End of the pause, on the clock of `performance.now()`. */
  get untilMs(): number {
    return this.#untilMs
  }

  scored(): void {
    this.#refusals = 0
    this.#pauses = 0
  }

  /** Records a busy answer to a call begun at `startedAtMs`; returns true if it pauses the server. */
  refused(retryAfterMs: number | undefined, startedAtMs: number, nowMs: number): boolean {
    this.#refusals++
    let pauseMs = 0
    if (retryAfterMs !== undefined) {
      pauseMs = Math.min(MAX_RETRY_AFTER_MS, retryAfterMs)
    } else if (this.#refusals >= REFUSALS_TO_PAUSE && startedAtMs >= this.#pausedAtMs) {
      // Calls sent before the last pause began are often refused together. They start no further pause.
      pauseMs = Math.min(MAX_BUSY_MS, BUSY_STEP_MS * 2 ** this.#pauses) * (0.5 + Math.random() / 2)
      this.#pausedAtMs = nowMs
      this.#pauses++
    }
    if (pauseMs === 0) return false
    this.#untilMs = Math.max(this.#untilMs, nowMs + pauseMs)
    return true
  }
}
