import type { Logger } from '../log.ts'
import { type Client, type Database, isOutage } from '../store/database.ts'
import { PeriodicTask } from '../store/periodic-task.ts'
import { batchesToMonitor } from '../store/sql/monitor-batches.ts'
import { forgetGoneRuns, lockMonitors } from '../store/sql/monitor-state.ts'
import { notify } from '../store/sql/notify.ts'
import { lookAtFleet } from './fleet-conditions.ts'
import { lookAtBatch } from './look-at-batch.ts'

/** How often ended batches are looked for; their roll-ups are made as often. */
const TICK_MS = 500
/** The fleet is looked at every so many ticks: its states change by probes of one second and more. */
const FLEET_EVERY = 4
/** Ticks between two looks for runs that were removed. */
const FORGET_EVERY = 2 * 600
/** Batches of one tick, some 4 ms each. */
const MAX_BATCHES = 64
/** A batch that could not be looked at is tried again after so long. */
const FAILED_AGAIN_MS = 60_000

/**
 * The monitors of runs and of the fleet. A batch is looked at once, after its roll-up, from roll-ups alone; a lock in the
 * database has one process do it at a time, and one transaction holds the look and all that follows from it.
 */
export class MonitorLoop {
  readonly #db: Database
  readonly #log: Logger
  readonly #onAlert: () => void
  readonly #task: PeriodicTask
  #ticks = 0
  readonly #notBefore = new Map<number, number>()

  /** @param onAlert called when there may be something to deliver */
  constructor(db: Database, log: Logger, onAlert: () => void, isTurn?: () => Promise<boolean>) {
    this.#db = db
    this.#log = log
    this.#onAlert = onAlert
    this.#task = new PeriodicTask({
      everyMs: TICK_MS,
      failed: 'the monitors could not look',
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

  /** Looks at all batches that wait, now. */
  async all(): Promise<void> {
    while ((await this.#batches()) === MAX_BATCHES);
  }

  async #tick(): Promise<void> {
    await this.#batches()
    const tick = this.#ticks++
    if (tick % FORGET_EVERY === 0) await forgetGoneRuns(this.#db)
    if (tick % FLEET_EVERY !== 0) return
    const changed = await this.#alone(lookAtFleet, (changed) => changed)
    if (changed === true) this.#onAlert()
  }

  /** Gives how many were found. */
  async #batches(): Promise<number> {
    const ids = await batchesToMonitor(this.#db, MAX_BATCHES)
    for (const id of ids) {
      if (this.#task.stopping) return 0
      if ((this.#notBefore.get(id) ?? 0) > performance.now()) continue
      try {
        const told = await this.#alone(
          (client) => lookAtBatch(client, id),
          () => true,
        )
        // Another process is at it.
        if (told === null) return 0
        this.#notBefore.delete(id)
        if (told) this.#onAlert()
      } catch (error) {
        if (isOutage(error)) throw error
        // One batch that cannot be looked at does not keep the others from it.
        this.#notBefore.set(id, performance.now() + FAILED_AGAIN_MS)
        this.#log.warn({ err: (error as Error).message, batch: id }, 'a batch was not looked at')
      }
    }
    return ids.length
  }

  /**
   * Runs `work` in a transaction of its own under the lock; null where another process has it. Pages are told where
   * `tells` says so.
   */
  #alone<T>(
    work: (client: Client) => Promise<T>,
    tells: (result: T) => boolean,
  ): Promise<T | null> {
    return this.#db.transaction(async (client) => {
      if (!(await lockMonitors(client))) return null
      const result = await work(client)
      // Delivered with the commit; many at once are one.
      if (tells(result)) await notify(client, 'm')
      return result
    })
  }
}
