import { PeriodicTask } from '../store/periodic-task.ts'
import { lastBatchId } from '../store/sql/batches.ts'
import { type ServerRow, sleepRequests } from '../store/sql/servers.ts'
import type { ModelsContext } from './context.ts'
import type { SleepCycle } from './sleep-cycle.ts'

/**
 * Number of newest batches that the first sweep checks, so that it also handles batches that ended while no sweep ran.
 */
const LOOK_BACK = 200
const MIN_AWAKE_MS = 1
/** Tolerance between the database's clock and the local one, ms. */
const CLOCK_SLACK_MS = 300

/**
 * Keeps servers awake for as long as batches need them, and no longer:
 * - a batch with `sleepAfter` wakes the sleeping servers of its model
 * - a woken server is kept awake while any batch of its model has not ended
 * - a server whose time awake is over is put to sleep if no batch needs it and it has no requests
 * - a server that was never woken is left alone, unless a batch with `sleepAfter` used its pool
 *
 * The end of a server's time awake is stored in Postgres, so another process can continue after a crash.
 */
export class SleepSweep {
  readonly #o: ModelsContext
  readonly #cycle: SleepCycle
  readonly #isBusy: (id: number) => boolean
  readonly #noWakeBefore = new Map<number, number>()
  readonly #noSleepBefore = new Map<number, number>()
  /** Servers that this sweep is putting to sleep; a batch may cancel that. */
  readonly #own = new Set<number>()
  /**
   * For each server, the time until which batches keep it awake, on the local clock. If no other caller has extended
   * that time, the server is put to sleep as soon as the last batch ends.
   */
  readonly #byBatches = new Map<number, number>()
  #newest: number | null = null
  readonly #task: PeriodicTask

  constructor(context: ModelsContext, cycle: SleepCycle, isBusy: (id: number) => boolean) {
    this.#o = context
    this.#cycle = cycle
    this.#isBusy = isBusy
    this.#task = new PeriodicTask({
      everyMs: context.timings.sweepEveryMs,
      atStart: true,
      failed: 'sweep of sleeping servers failed',
      log: context.log,
      isTurn: context.isTurn && (() => context.isTurn!('sleep')),
      work: () => this.#look(),
    })
  }

  start(): void {
    this.#task.start()
  }

  async stop(): Promise<void> {
    await this.#task.stop()
  }

  async #look(): Promise<void> {
    const { db, registry, timings } = this.#o
    const newest = await lastBatchId(db)
    const requests = await sleepRequests(db, this.#newest ?? newest - LOOK_BACK)
    this.#newest = newest
    const needed = new Set(requests.filter((w) => w.open).map((w) => w.model))
    const wake = new Set(requests.filter((w) => w.open && w.sleep_after).map((w) => w.model))
    const sleepAfter = new Set(requests.filter((w) => w.sleep_after).map((w) => w.model))
    const keep: number[] = []
    const over: number[] = []
    for (const row of await registry.active()) {
      if (!row.canSleep) continue
      const awake = row.state === 'ready' || row.state === 'quarantined'
      const leftMs = row.awakeLeftMs
      if (needed.has(row.model)) {
        this.#noSleepBefore.delete(row.id)
        if (this.#own.has(row.id)) void this.#cycle.cancelSleep(row.id, 'a batch needs it')
        if (row.state === 'sleeping' && wake.has(row.model)) this.#wake(row)
        const ours = leftMs !== null || sleepAfter.has(row.model)
        if (awake && ours && (leftMs ?? 0) < timings.keepAwakeMs - timings.sweepEveryMs) {
          keep.push(row.id)
        }
      } else if (awake) {
        if (leftMs === null && sleepAfter.has(row.model)) over.push(row.id)
        else if (leftMs !== null && this.#isOver(row.id, leftMs)) this.#sleep(row)
      }
    }
    await registry.prolong(keep, timings.keepAwakeMs)
    await registry.prolong(over, MIN_AWAKE_MS)
    for (const id of keep) this.#keptByBatches(id)
    for (const id of over) this.#keptByBatches(id)
  }

  #keptByBatches(id: number): void {
    this.#byBatches.set(id, performance.now() + this.#o.timings.keepAwakeMs)
  }

  #isOver(id: number, leftMs: number): boolean {
    const byBatchesMs = (this.#byBatches.get(id) ?? 0) - performance.now()
    if (leftMs <= byBatchesMs + CLOCK_SLACK_MS) return true
    return leftMs <= 0 && !this.#isBusy(id)
  }

  #wake(row: ServerRow): void {
    if (performance.now() < (this.#noWakeBefore.get(row.id) ?? 0)) return
    this.#noWakeBefore.set(row.id, performance.now() + this.#o.timings.tryWakeAgainMs)
    void this.#cycle
      .wake(row, this.#o.timings.keepAwakeMs, 'a batch needs it')
      .then(() => this.#keptByBatches(row.id))
      .catch((error: Error) =>
        this.#o.log.warn({ err: error.message, server: row.name }, 'not woken for a batch'),
      )
  }

  #sleep(row: ServerRow): void {
    if (this.#own.has(row.id)) return
    if (performance.now() < (this.#noSleepBefore.get(row.id) ?? 0)) return
    this.#own.add(row.id)
    void this.#cycle
      .sleep(row, 1, 'its minimum time awake has passed and no batch needs it')
      .catch((error: Error) => {
        this.#noSleepBefore.set(row.id, performance.now() + this.#o.timings.trySleepAgainMs)
        this.#o.log.info({ err: error.message, server: row.name }, 'not put to sleep')
      })
      .finally(() => this.#own.delete(row.id))
  }
}
