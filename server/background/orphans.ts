import type { ClientBase } from 'pg'
import { chunk, poolOf, scoresWholeGroups, wholeGroupJobs } from '../batches/accept/jobs.ts'
import type { Logger } from '../log.ts'
import type { Database } from '../store/database.ts'
import type { JobQueue } from '../store/job-queue.ts'
import { eachInTurn } from '../store/periodic-task.ts'
import {
  lockOrphans,
  orphanedSamples,
  type UnfinishedBatch,
  unfinishedBatches,
  unmarkOrphanedGroups,
} from '../store/sql/orphans.ts'

/** A batch is checked when no sample of it has been scored or has failed for this long, then at growing intervals. */
const STALLED_MS = 5_000
/**
 * Maximum interval between two checks of a stalled batch. Each check reads all pending samples of the batch, so the
 * interval doubles up to this value.
 */
const MAX_RECHECK_MS = 60_000

interface Watched {
  ended: number
  checkAtMs: number
  waitMs: number
}

/**
 * Finds orphaned samples, which are pending although no job holds them, and returns them to the queue. They only occur
 * because of a bug, so they are counted (`rewardops_orphaned_samples_total`) and logged.
 */
export class Orphans {
  readonly #db: Database
  readonly #queue: JobQueue
  readonly #log: Logger
  readonly #watched = new Map<number, Watched>()
  returned = 0

  constructor(db: Database, queue: JobQueue, log: Logger) {
    this.#db = db
    this.#queue = queue
    this.#log = log
  }

  async sweep(nowMs = performance.now()): Promise<void> {
    const batches = await unfinishedBatches(this.#db.pool)
    const ids = new Set(batches.map(({ id }) => id))
    for (const id of this.#watched.keys()) if (!ids.has(id)) this.#watched.delete(id)
    const stalled = batches.filter((batch) => this.#isStalled(batch, nowMs))
    await eachInTurn(stalled, (batch) => this.#check(batch))
  }

  #isStalled({ id, ended }: UnfinishedBatch, nowMs: number): boolean {
    const known = this.#watched.get(id)
    if (known === undefined || known.ended !== ended) {
      this.#watched.set(id, { ended, checkAtMs: nowMs + STALLED_MS, waitMs: STALLED_MS })
      return false
    }
    if (nowMs < known.checkAtMs) return false
    known.waitMs = Math.min(MAX_RECHECK_MS, 2 * known.waitMs)
    known.checkAtMs = nowMs + known.waitMs
    return true
  }

  async #check(batch: UnfinishedBatch): Promise<void> {
    const samples = await queueOrphans(this.#queue, batch, (work) =>
      this.#db.transaction(async (client) =>
        (await lockOrphans(client, batch.id)) ? work(client) : 0,
      ),
    )
    if (samples === 0) return
    this.returned += samples
    this.#log.error(
      { batch: `b${batch.id}`, samples },
      'orphaned samples returned to the queue: no job held them',
    )
  }
}

/** Queues a batch's pending samples that no job holds, in a transaction. Returns their number. */
export async function queueOrphans(
  queue: JobQueue,
  { id, run, priority, reward, closed, now }: UnfinishedBatch,
  inTransaction: (work: (client: ClientBase) => Promise<number>) => Promise<number>,
): Promise<number> {
  const isWhole = scoresWholeGroups(reward)
  const pool = poolOf(reward)
  await queue.ensure(pool)
  return inTransaction(async (client) => {
    // In an open batch, a group that is scored as a whole is queued only after its last sample has arrived.
    const rows = await orphanedSamples(client, id, isWhole && !closed ? 'full' : 'all')
    const staged = await unmarkOrphanedGroups(client, id)
    const groupOf = new Map(rows.map((row) => [row.idx, row.group_no]))
    const indexes = rows.map((row) => row.idx)
    const nowMs = now.getTime()
    const jobs = isWhole
      ? wholeGroupJobs(
          Map.groupBy(indexes, (idx) => groupOf.get(idx) as number).values(),
          id,
          nowMs,
        )
      : chunk(indexes, (idx) => groupOf.get(idx) as number, id, nowMs)
    await queue.insert(pool, jobs, { run, priority, client })
    return rows.length + staged.reduce((sum, n) => sum + n, 0)
  })
}
