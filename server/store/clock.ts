import { monotonicEpochMs } from '../monotonic-clock.ts'
import type { Database } from './database.ts'

/** Questions of the first synchronisation; the quickest answer counts. */
const FIRST_QUESTIONS = 5
/** How far this process's clock may drift from the database's between two reports, in ms; beyond it one was set. */
const DRIFT_MS = 20

/**
 * The database's clock as this process knows it. It runs on this process's monotonic clock and is corrected with every
 * report, so that a step of either machine's clock moves no deadline and puts no stored time out of order.
 */
export class DatabaseClock {
  #offsetMs = 0
  /** How far the offset may be wrong: half of the round trip it was measured over. */
  #uncertaintyMs = Number.POSITIVE_INFINITY

  /** A clock that was compared with the database's. */
  static async of(db: Database): Promise<DatabaseClock> {
    const clock = new DatabaseClock()
    for (let i = 0; i < FIRST_QUESTIONS; i++) {
      const sentAtMs = monotonicEpochMs()
      const [row] = await db.rows<{ now: Date }>('clock', 'select clock_timestamp() as now')
      clock.observe(row!.now.getTime(), sentAtMs)
    }
    return clock
  }

  /** Database clock minus this process's monotonic epoch clock, in ms. */
  get offsetMs(): number {
    return this.#offsetMs
  }

  /** Epoch milliseconds by the database's clock. */
  nowMs(): number {
    return monotonicEpochMs() + this.#offsetMs
  }

  /** Takes in what the database's clock read between `sentAtMs` (by `monotonicEpochMs`) and now. */
  observe(databaseMs: number, sentAtMs: number): void {
    const uncertaintyMs = (monotonicEpochMs() - sentAtMs) / 2
    const offsetMs = databaseMs - sentAtMs - uncertaintyMs
    const isSet =
      Math.abs(offsetMs - this.#offsetMs) > uncertaintyMs + this.#uncertaintyMs + DRIFT_MS
    if (!isSet && uncertaintyMs > this.#uncertaintyMs) return
    this.#uncertaintyMs = uncertaintyMs
    // Within the round trip the two clocks may be one.
    this.#offsetMs = Math.abs(offsetMs) <= 2 * uncertaintyMs + 1 ? 0 : offsetMs
  }
}
