import { type EventLoopUtilization, performance } from 'node:perf_hooks'

/**
 * The load is measured again after this many ms: a step of a fast model takes a second, and its first calls are sent one
 * by one.
 */
const LOOK_MS = 20
/** Measurements further apart than this are ignored, ms. */
const STALE_MS = 500
/**
 * Busy starts at this utilization and ends below the other: micro-batching saves work, which must not stop it at once.
 */
const BUSY_FROM = 0.7
const BUSY_UNTIL = 0.4

/** Whether this process is short of CPU time, by the utilization of its event loop. */
export class OwnLoad {
  #at = 0
  #last: EventLoopUtilization = performance.eventLoopUtilization()
  #busy = false

  /** Result of the last measurement, at most 20 ms ago. */
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
