import type { ClientBase } from 'pg'
import { monotonicEpochMs } from '../monotonic-clock.ts'
import type { Database } from './database.ts'

/** Number of queries in the first synchronization. Only the quickest answer counts. */
const FIRST_QUERIES = 5
/**
 * Maximum drift between the database's clock and this process's from one reading to the next, in ms. A larger
 * difference means that one of the clocks was set.
 */
const DRIFT_MS = 20

/** The present time by the database's clock. */
export async function databaseNow(client: Pick<ClientBase, 'query'>): Promise<Date> {
  const { rows } = await client.query<{ now: Date }>({
    name: 'clock',
    text: 'select clock_timestamp() as now',
  })
  return rows[0]!.now
}

/**
 * The database's clock as this process knows it. It runs on the process's monotonic clock, so a clock change on this
 * machine moves no deadline and puts no stored time out of order. Each report of the process to the database returns a
 * reading of the database's clock. The reading corrects the offset.
 */
export class DatabaseClock {
  #offsetMs = 0
  /** Uncertainty of the offset: half of the round trip in which it was measured. */
  #uncertaintyMs = Number.POSITIVE_INFINITY

  static async of(db: Database): Promise<DatabaseClock> {
    const clock = new DatabaseClock()
    for (let i = 0; i < FIRST_QUERIES; i++) {
      const sentAtMs = monotonicEpochMs()
      clock.observe((await databaseNow(db.pool)).getTime(), sentAtMs)
    }
    return clock
  }

  /** Database clock minus this process's monotonic epoch clock, in ms. */
  get offsetMs(): number {
    return this.#offsetMs
  }

  nowMs(): number {
    return monotonicEpochMs() + this.#offsetMs
  }

  /**
   * Corrects the offset with a reading of the database's clock, taken between `sentAtMs` (by `monotonicEpochMs`) and
   * now.
   */
  observe(databaseMs: number, sentAtMs: number): void {
    const uncertaintyMs = (monotonicEpochMs() - sentAtMs) / 2
    const offsetMs = databaseMs - sentAtMs - uncertaintyMs
    const isSet =
      Math.abs(offsetMs - this.#offsetMs) > uncertaintyMs + this.#uncertaintyMs + DRIFT_MS
    if (!isSet && uncertaintyMs > this.#uncertaintyMs) return
    this.#uncertaintyMs = uncertaintyMs
    // An offset smaller than the round trip cannot be measured, so it counts as 0.
    this.#offsetMs = Math.abs(offsetMs) <= 2 * uncertaintyMs + 1 ? 0 : offsetMs
  }
}
