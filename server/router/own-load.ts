import { type EventLoopUtilization, performance } from 'node:perf_hooks'

/** Looked at anew after so long, ms: a step of a fast model is over in a second, and its first calls go out one by one. */
const LOOK_MS = 20
/** What lies longer apart says nothing of now, ms. */
const STALE_MS = 500
/** Busy from this share of the time on, until it is below the other: one that saves work by it must not stop at once. */
const BUSY_FROM = 0.7
const BUSY_UNTIL = 0.4

/** Whether this process is short of time: how much of it its event loop had something to do. */
export class OwnLoad {
  #at = 0
  #last: EventLoopUtilization = performance.eventLoopUtilization()
  #busy = false

  /** As of the last look, a moment ago. */
  isBusy(nowMs: number): boolean {
    if (nowMs - this.#at < LOOK_MS) return this.#busy
    const now = performance.eventLoopUtilization()
    const { utilization } = performance.eventLoopUtilization(now, this.#last)
    const known = nowMs - this.#at < STALE_MS
    this.#busy = known && utilization >= (this.#busy ? BUSY_UNTIL : BUSY_FROM)
    this.#at = nowMs
    this.#last = now
    return this.#busy
  }
}
