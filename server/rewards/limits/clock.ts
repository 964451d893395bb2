export interface LimitClock {
  /** Monotonic milliseconds since an arbitrary start. */
  nowMs(): number
  /** Returns a function that cancels the callback. */
  after(ms: number, callback: () => void): () => void
}

export const systemClock: LimitClock = {
  nowMs: () => performance.now(),
  after(ms, callback) {
    // Node fires a timer with a longer delay immediately.
    const timer = setTimeout(callback, Math.min(ms, 2 ** 31 - 1))
    return () => clearTimeout(timer)
  },
}
