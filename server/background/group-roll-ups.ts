import { GroupPassesSum, passesOf, scoresOfGroups } from '../batches/group-passes.ts'
import { lacksCorrectness, reportsOf } from '../batches/group-reports.ts'
import { type GroupSignalCounts, noSignals, withoutCorrectness } from '../contract/group-signal.ts'
import { componentNames, isByModelsAlone } from '../contract/resolved-reward.ts'
import type { Logger } from '../log.ts'
import type { Database } from '../store/database.ts'
import { eachInTurn, PeriodicTask } from '../store/periodic-task.ts'
import { storeBatchRollUps } from '../store/sql/batch-roll-ups.ts'
import { lastBatchId } from '../store/sql/batches.ts'
import {
  batchesUnderWay,
  batchesWithoutGroupRollUp,
  type GroupRollUp,
  lastGroupOfPage,
  membersOfGroups,
  type RollUpCandidate,
  storeGroupCounts,
  storeGroupRollUps,
} from '../store/sql/group-statistics.ts'
import { addVisits, type KeyedVisit } from '../store/sql/prompts.ts'
import { rollUpRuns } from './run-roll-ups.ts'

const TICK_MS = 500
/** Number of samples in a page of groups. A page takes about 10 ms of event-loop time. */
const PAGE_SAMPLES = 16_384
/**
 * Maximum delay of a roll-up. Storing 1,024 groups takes Postgres about 30 ms and competes with the next step's
 * samples, so a roll-up waits up to this long for a moment without pending samples.
 */
const DUE_AFTER_MS = 10_000
const MAX_BATCHES = 64
/**
 * Number of newest batches that every tick checks again, because a batch from a large request gets its id long before
 * the batch is committed.
 */
const KEEP_LOOKING = 1_000

/**
 * Stores statistics, classes and advantages of groups (their roll-ups) after their batch has ended, so that flushes
 * stay short. Until the roll-up exists, queries compute these values from the scores. A roll-up is safe to repeat and
 * to run in two processes concurrently.
 */
export class GroupRollUps {
  readonly #db: Database
  readonly #task: PeriodicTask
  /** Every batch with a smaller id has a roll-up. */
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

  async all(): Promise<void> {
    for (;;) {
      const batches = await batchesWithoutGroupRollUp(this.#db, 0, MAX_BATCHES, 0)
      for (const batch of batches) await rollUpGroups(this.#db, batch)
      if (batches.length < MAX_BATCHES) break
    }
    await rollUpRuns(this.#db, { all: true })
  }

  /**
   * Rolls up ended batches, then their runs. While samples are pending, only batches that ended at least 10 s ago are
   * rolled up. A batch or run that fails does not hold up the others.
   */
  async tick(): Promise<void> {
    // The last id is read first, so that the next tick finds batches that are accepted during this tick.
    const last = await lastBatchId(this.#db)
    const { first, busy } = await batchesUnderWay(this.#db)
    const batches = await batchesWithoutGroupRollUp(
      this.#db,
      this.#fromId,
      MAX_BATCHES,
      DUE_AFTER_MS,
    )
    const left = new Set(batches.map(({ id }) => id))
    if (first !== null) left.add(first)
    if (batches.length === MAX_BATCHES) left.add((batches.at(-1) as RollUpCandidate).id + 1)
    const rollUp = async (batch: RollUpCandidate) => {
      if (this.#task.stopping || (busy && !batch.due)) return
      await rollUpGroups(this.#db, batch)
      left.delete(batch.id)
    }
    const steps = [
      () => eachInTurn(batches, rollUp),
      () => rollUpRuns(this.#db, { isStopping: () => this.#task.stopping }),
    ]
    await eachInTurn(steps, (step) => step()).finally(() => {
      this.#fromId = Math.max(this.#fromId, Math.min(last - KEEP_LOOKING, ...left))
    })
  }
}

/**
 * Stores the roll-ups of an ended batch's groups and adds the groups to the visits of their prompts. A rescore adds no
 * visits. Then stores the number of groups per class and, last, the roll-up of the batch, which marks the batch as
 * rolled up.
 */
export async function rollUpGroups(
  db: Database,
  batch: Omit<RollUpCandidate, 'due'>,
): Promise<GroupSignalCounts> {
  const counts = noSignals()
  const isUnclear = await lacksCorrectness(db, batch.id, batch.reward)
  const hasPasses = !isByModelsAlone(batch.reward)
  const passes = new GroupPassesSum(hasPasses)
  for (let from = 0; ; ) {
    const to = await lastGroupOfPage(db, batch.id, from - 1, PAGE_SAMPLES)
    if (to === null) break
    const members = await membersOfGroups(db, batch.id, from, to)
    const rollUps = new Map<number, GroupRollUp>()
    for (const [no, report] of reportsOf(members, batch.reward)) {
      const signal = isUnclear ? withoutCorrectness(report.signal) : report.signal
      counts[signal]++
      rollUps.set(no, { no, ...report, signal })
    }
    const groups = await storeGroupRollUps(db, batch.id, [...rollUps.values()])
    const scores = scoresOfGroups(members)
    const visits: KeyedVisit[] = []
    for (const { no, prompt } of groups) {
      const ofGroup = scores.get(no) ?? []
      passes.add(ofGroup)
      if (prompt === null) passes.withoutPrompt++
      const { mean, std } = rollUps.get(no) as GroupRollUp
      if (prompt === null || mean === null) continue
      visits.push({
        key: prompt,
        step: batch.step,
        batchId: batch.id,
        group: no,
        scored: ofGroup.length,
        passed: hasPasses ? passesOf(ofGroup) : null,
        mean,
        std: std ?? 0,
      })
    }
    if (!batch.is_rescore) await addVisits(db, batch, visits)
    from = to + 1
  }
  await storeGroupCounts(db, batch.id, counts, passes.get())
  await storeBatchRollUps(db, batch.id, componentNames(batch.reward))
  return counts
}
