/** Longest pause a server may request by Retry-After. */
const MAX_RETRY_AFTER_MS = 30_000
/** Consecutive busy answers without Retry-After, without a score between them, after which a server pauses. */
const REFUSALS_TO_PAUSE = 3
/** Length of that pause: 100 ms, doubled while busy answers continue, at most 5 s; half of it is random. */
const BUSY_STEP_MS = 100
const MAX_BUSY_MS = 5_000

/**
 * A server's pauses after busy answers. Its Retry-After applies to every sample. Without Retry-After, refused samples
 * back off individually, and the server pauses only when it refuses all: sent at full speed, each waiting sample would
 * use up its attempts.
 */
export class BusyPause {
  #untilMs = 0
  #pausedAtMs = 0
  /** Pauses since the last score. */
  #pauses = 0
  /** Busy answers since the last score. */
  #refusals = 0

  /** End of the pause, on the clock of `performance.now()`. */
  get untilMs(): number {
    return this.#untilMs
  }

  /** Resets the counts: the server returned a score. */
  scored(): void {
    this.#refusals = 0
    this.#pauses = 0
  }

  /** Records a busy answer to a call begun at `startedAtMs`; returns true when the server pauses because of it. */
  refused(retryAfterMs: number | undefined, startedAtMs: number, nowMs: number): boolean {
    this.#refusals++
    let pauseMs = 0
    if (retryAfterMs !== undefined) {
      pauseMs = Math.min(MAX_RETRY_AFTER_MS, retryAfterMs)
    } else if (this.#refusals >= REFUSALS_TO_PAUSE && startedAtMs >= this.#pausedAtMs) {
      // When many calls in flight are all refused, only a call begun since the last pause makes the next pause longer.
      pauseMs = Math.min(MAX_BUSY_MS, BUSY_STEP_MS * 2 ** this.#pauses) * (0.5 + Math.random() / 2)
      this.#pausedAtMs = nowMs
      this.#pauses++
    }
    if (pauseMs === 0) return false
    this.#untilMs = Math.max(this.#untilMs, nowMs + pauseMs)
    return true
  }
}
