/** Time as limits see it: the process's own, or a test's. */
export interface LimitClock {
  /** Milliseconds since some moment, never going back. */
  nowMs(): number
  /** Calls back after so many ms. Returns the way to call it off. */
  after(ms: number, callback: () => void): () => void
}

/** The process's clock. */
export const systemClock: LimitClock = {
  nowMs: () => performance.now(),
  after(ms, callback) {
    // Node fires a longer timer at once.
    const timer = setTimeout(callback, Math.min(ms, 2 ** 31 - 1))
    return () => clearTimeout(timer)
  },
}
