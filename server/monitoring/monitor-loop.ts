import type { Logger } from '../log.ts'
import { notify } from '../store/channels.ts'
import { type Client, type Database, isOutage } from '../store/database.ts'
import { PeriodicTask } from '../store/periodic-task.ts'
import { batchesToMonitor } from '../store/sql/monitor-batches.ts'
import { deleteRemovedRuns, lockMonitors } from '../store/sql/monitor-state.ts'
import { checkBatch } from './check-batch.ts'
import { checkFleet } from './fleet-conditions.ts'

/** Interval of the check for ended batches, ms; the same as the interval of their roll-ups. */
const TICK_MS = 500
/** Ticks between two checks of the fleet. Server states change with probes, at most about once a second. */
const FLEET_EVERY = 4
const FORGET_EVERY = 2 * 600
/** Maximum number of batches evaluated in a tick, about 4 ms each. */
const MAX_BATCHES = 64
const FAILED_AGAIN_MS = 60_000

/**
 * Runs the monitors of runs and of the fleet. Each batch is evaluated once, from roll-ups only, by one process at a
 * time under a lock in the database. The evaluation and its effects are stored in one transaction.
 */
export class MonitorLoop {
  readonly #db: Database
  readonly #log: Logger
  readonly #onAlert: () => void
  readonly #task: PeriodicTask
  #ticks = 0
  readonly #notBefore = new Map<number, number>()

  constructor(db: Database, log: Logger, onAlert: () => void, isTurn?: () => Promise<boolean>) {
    this.#db = db
    this.#log = log
    this.#onAlert = onAlert
    this.#task = new PeriodicTask({
      everyMs: TICK_MS,
      failed: 'the monitors were not evaluated',
      log,
      isTurn,
      work: () => this.#tick(),
    })
  }

  start(): void {
    this.#task.start()
  }

  async stop(): Promise<void> {
    await this.#task.stop()
  }

  async all(): Promise<void> {
    while ((await this.#batches()) === MAX_BATCHES);
  }

  async #tick(): Promise<void> {
    await this.#batches()
    const tick = this.#ticks++
    if (tick % FORGET_EVERY === 0) await deleteRemovedRuns(this.#db)
    if (tick % FLEET_EVERY !== 0) return
    const changed = await this.#alone(checkFleet, (changed) => changed)
    if (changed === true) this.#onAlert()
  }

  async #batches(): Promise<number> {
    const ids = await batchesToMonitor(this.#db, MAX_BATCHES)
    for (const id of ids) {
      if (this.#task.stopping) return 0
      if ((this.#notBefore.get(id) ?? 0) > performance.now()) continue
      try {
        const hasAlert = await this.#alone(
          (client) => checkBatch(client, id),
          () => true,
        )
        if (hasAlert === null) return 0
        this.#notBefore.delete(id)
        if (hasAlert) this.#onAlert()
      } catch (error) {
        if (isOutage(error)) throw error
        // A failing batch does not block the batches after it.
        this.#notBefore.set(id, performance.now() + FAILED_AGAIN_MS)
        this.#log.warn({ err: (error as Error).message, batch: id }, 'a batch was not evaluated')
      }
    }
    return ids.length
  }

  /**
   * Runs `work` in a transaction under the lock, or returns null if another process has the lock. Notifies pages if
   * `tells` returns true.
   */
  #alone<T>(
    work: (client: Client) => Promise<T>,
    tells: (result: T) => boolean,
  ): Promise<T | null> {
    return this.#db.transaction(async (client) => {
      if (!(await lockMonitors(client))) return null
      const result = await work(client)
      // Postgres sends notifications at the commit, and sends equal ones only once.
      if (tells(result)) await notify(client, 'monitorsChanged')
      return result
    })
  }
}
