import { lacksSpread, reportsOf } from '../batches/group-reports.ts'
import { type GroupSignalCounts, noSignals, withoutSpread } from '../contract/group-signal.ts'
import { componentNames } from '../contract/resolved-reward.ts'
import type { Logger } from '../log.ts'
import type { Database } from '../store/database.ts'
import { PeriodicTask } from '../store/periodic-task.ts'
import { storeBatchRollUps } from '../store/sql/batch-roll-ups.ts'
import {
  batchesUnderWay,
  batchesWithoutGroupRollUp,
  type GroupRollUp,
  lastBatchId,
  lastGroupOfPage,
  membersOfGroups,
  type RollUpCandidate,
  storeGroupRollUps,
  storeSignalCounts,
} from '../store/sql/group-statistics.ts'

/** How often ended batches are looked for. */
const TICK_MS = 500
/** Samples worked on at once: about 10 ms of the loop. */
const PAGE_SAMPLES = 16_384
/** Storing 1,024 groups takes Postgres some 30 ms, beside the next step's samples: it waits for a quiet moment so long. */
const DUE_AFTER_MS = 10_000
/** Batches of one tick. */
const MAX_BATCHES = 64
/** Batches behind the newest that are looked at again and again: a large body's id is taken long before it is there. */
const KEEP_LOOKING = 1_000

/**
 * Statistics, classes and advantages of groups, stored when their batch has ended: what a flush does stays as short as it
 * is, and until then whoever asks is answered from the scores. Safe to repeat, and to be done by two servers at once.
 */
export class GroupRollUps {
  readonly #db: Database
  readonly #task: PeriodicTask
  /** No batch before it is without a roll-up. */
  #fromId = 0

  constructor(db: Database, log: Logger, isTurn?: () => Promise<boolean>) {
    this.#db = db
    this.#task = new PeriodicTask({
      everyMs: TICK_MS,
      failed: 'groups were not rolled up',
      log,
      isTurn,
      work: () => this.tick(),
    })
  }

  start(): void {
    this.#task.start()
  }

  async stop(): Promise<void> {
    await this.#task.stop()
  }

  /** Rolls up all that has ended, now. */
  async all(): Promise<void> {
    for (;;) {
      const batches = await batchesWithoutGroupRollUp(this.#db, 0, MAX_BATCHES, 0)
      for (const batch of batches) await rollUpGroups(this.#db, batch)
      if (batches.length < MAX_BATCHES) return
    }
  }

  /** Rolls up what has ended, while nothing is being scored; what ended a while ago in any case. */
  async tick(): Promise<void> {
    // Asked first: a batch accepted in between is found by the next tick.
    const last = await lastBatchId(this.#db)
    const { first, busy } = await batchesUnderWay(this.#db)
    const batches = await batchesWithoutGroupRollUp(
      this.#db,
      this.#fromId,
      MAX_BATCHES,
      DUE_AFTER_MS,
    )
    const left: number[] = first === null ? [] : [first]
    if (batches.length === MAX_BATCHES) left.push((batches.at(-1) as RollUpCandidate).id + 1)
    for (const batch of batches) {
      if (this.#task.stopping) return
      if (batch.due || !busy) await rollUpGroups(this.#db, batch)
      else left.push(batch.id)
    }
    this.#fromId = Math.max(this.#fromId, Math.min(last - KEEP_LOOKING, ...left))
  }
}

/** Stores the roll-ups of an ended batch's groups, how many are of each class, then the batch's own; the last says that it is done. */
export async function rollUpGroups(
  db: Database,
  batch: Pick<RollUpCandidate, 'id' | 'reward'>,
): Promise<GroupSignalCounts> {
  const counts = noSignals()
  const flat = await lacksSpread(db, batch.id, batch.reward)
  for (let from = 0; ; ) {
    const to = await lastGroupOfPage(db, batch.id, from - 1, PAGE_SAMPLES)
    if (to === null) break
    const reports = reportsOf(await membersOfGroups(db, batch.id, from, to), batch.reward)
    const rollUps: GroupRollUp[] = []
    for (const [no, report] of reports) {
      const signal = flat ? withoutSpread(report.signal) : report.signal
      counts[signal]++
      rollUps.push({ no, ...report, signal })
    }
    await storeGroupRollUps(db, batch.id, rollUps)
    from = to + 1
  }
  await storeSignalCounts(db, batch.id, counts)
  await storeBatchRollUps(db, batch.id, componentNames(batch.reward))
  return counts
}
