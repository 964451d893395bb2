import type { Logger } from '../log.ts'
import { type Database, throughOutage } from '../store/database.ts'
import { type ChunkJob, indexesOf, type JobQueue, toRanges } from '../store/job-queue.ts'
import { claimJob, unclaimJob, unclaimJobs } from '../store/sql/claims.ts'
import { batchSpec } from '../store/sql/worker-reads.ts'
import type { ClaimedJob } from './claimed-job.ts'

/**
 * Delay before a refused or failed claim is retried, ms. A refused claim succeeds after the process's next report,
 * which is due every second.
 */
const CLAIM_AGAIN_MS = 500
/** Time within which ended jobs are collected and completed together, ms. */
const COMPLETE_AFTER_MS = 20

export class JobKeeper {
  readonly #db: Database
  readonly #queue: JobQueue
  readonly #workerId: number
  readonly #log: Logger
  readonly #completed = new Map<string, ClaimedJob[]>()
  #completing = false

  constructor(db: Database, queue: JobQueue, workerId: number, log: Logger) {
    this.#db = db
    this.#queue = queue
    this.#workerId = workerId
    this.#log = log
  }

  /**
   * Writes a job's claim and retries until it is written, because a job without a claim is requeued when another
   * worker dies. The claims of a worker that was declared dead are refused until it reports as alive again.
   */
  claim(job: ClaimedJob, indexes: number[]): void {
    const again = () => {
      if (job.isGivenUp || job.isReleased) return
      job.claimTimer = setTimeout(() => this.claim(job, indexes), CLAIM_AGAIN_MS)
    }
    job.claim = claimJob(this.#db, {
      jobId: job.job.id,
      queue: job.pool,
      workerId: this.#workerId,
      batchId: job.job.data.b,
      firstIndex: indexes[0] ?? 0,
      lastIndex: indexes[indexes.length - 1] ?? 0,
      samples: indexes.length,
    }).then((isClaimed) => {
      if (!isClaimed) again()
    }, again)
  }

  completed(job: ClaimedJob): void {
    job.release()
    const list = this.#completed.get(job.pool) ?? []
    list.push(job)
    this.#completed.set(job.pool, list)
    if (this.#completing) return
    this.#completing = true
    setTimeout(() => void this.flush(), COMPLETE_AFTER_MS)
  }

  /** Completes the collected jobs, one statement per pool. No sample's result waits for this. */
  async flush(): Promise<void> {
    try {
      for (const [pool, jobs] of [...this.#completed]) {
        this.#completed.delete(pool)
        await throughOutage(() => this.#complete(pool, jobs), { forMs: 15 * 60_000 }).catch(
          (error: Error) => this.#log.warn({ err: error.message }, 'jobs not completed'),
        )
      }
    } finally {
      this.#completing = false
      if (this.#completed.size > 0) {
        this.#completing = true
        setImmediate(() => void this.flush())
      }
    }
  }

  /**
   * Requeues unfinished samples (indexes or group numbers) as a new job. Unlike the death of a worker, a stop does not
   * count as a loss.
   */
  async requeue(job: ClaimedJob, indexes: number[], forMs: number): Promise<void> {
    const { b, t, g } = job.job.data
    const rest: ChunkJob =
      g === undefined
        ? { b, t, i: toRanges(indexes), l: job.losses }
        : { b, t, i: [], g: indexes, l: job.losses }
    await throughOutage(() => this.#replace(job, [rest]), { forMs })
  }

  async splitToSingles(job: ClaimedJob): Promise<void> {
    const { b, t } = job.job.data
    const ones = indexesOf(job.job.data).map((i): ChunkJob => ({ b, t, i: [i, i], l: job.losses }))
    await throughOutage(() => this.#replace(job, ones), { forMs: 60_000 })
  }

  async #complete(pool: string, jobs: ClaimedJob[]): Promise<void> {
    await this.#queue.complete(
      pool,
      jobs.map((job) => job.attempt),
    )
    const claimed = jobs.filter((job) => job.claim !== null)
    if (claimed.length === 0) return
    // Waits for the writes of claims, because a claim written later would never be removed.
    await Promise.all(claimed.map((job) => job.claim))
    const jobIds = claimed.map((job) => job.job.id)
    await unclaimJobs(this.#db, jobIds, this.#workerId)
  }

  /** Replaces a job with others in one transaction. Changes nothing if another worker has the job by now. */
  async #replace(job: ClaimedJob, jobs: ChunkJob[]): Promise<void> {
    job.release()
    // Waits for the write of the claim, because a claim written later would never be removed.
    await job.claim
    const spec = await batchSpec(this.#db, job.job.data.b)
    await this.#db.transaction(async (client) => {
      const held = await this.#queue.complete(job.pool, [job.attempt], client)
      if (held === 0) return
      await this.#queue.insert(job.pool, jobs, {
        run: spec?.run ?? 'unknown',
        priority: spec?.priority ?? 0,
        client,
      })
      await unclaimJob(client, job.job.id)
    })
  }
}
