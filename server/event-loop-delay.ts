import { monitorEventLoopDelay } from 'node:perf_hooks'

/** Interval of the measuring timer. In an idle process, 10 ms would take 4 ms of CPU time a second, 20 ms takes 2. */
const INTERVAL_MS = 20

/** Measures how late the timers of this process run. */
export class EventLoopDelay {
  readonly #intervals = monitorEventLoopDelay({ resolution: INTERVAL_MS })

  constructor() {
    this.#intervals.enable()
  }

  /** Returns the 99th percentile and the maximum of the delay since the last call, ms. */
  take(): { p99Ms: number; maxMs: number } {
    const delayMs = (intervalNs: number) => Math.max(0, intervalNs / 1e6 - INTERVAL_MS)
    const p99Ms = delayMs(this.#intervals.percentile(99))
    const maxMs = delayMs(this.#intervals.max)
    this.#intervals.reset()
    return { p99Ms, maxMs }
  }
}
