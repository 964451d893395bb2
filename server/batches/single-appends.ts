import { foreseeLimits, limitsOf } from '../admin/run-limits.ts'
import type { SampleInput } from '../contract/trainer.ts'
import { RewardOpsError } from '../errors.ts'
import { payloadOf } from '../store/channels.ts'
import type { Client, Statement } from '../store/database.ts'
import { type ChunkJob, INTERACTIVE_POOL, type InlineSample, toRanges } from '../store/job-queue.ts'
import { appendStatement, lockBatch, nextIndex, scoreKeyStatement } from '../store/sql/append.ts'
import { attemptsStatement, type FlushedSample, flushStatement } from '../store/sql/flush.ts'
import { storeImages } from '../store/sql/images.ts'
import { retriesStatement } from '../store/sql/retries.ts'
import type { BatchSpec } from '../store/sql/worker-reads.ts'
import { ImageCollector } from '../store/stored-images.ts'
import { type EncodedTexts, encodeTexts } from '../store/stored-texts.ts'
import type { AcceptContext } from './accept/accept-batch.ts'
import type { DirectlyScored } from './direct-scores.ts'

export interface ScoreKey {
  key: string
  hash: Buffer
}

/** Maximum number of samples and of characters per job. Jobs are small, so that all workers share the load. */
const MAX_JOB_SAMPLES = 8
const MAX_JOB_CHARS = 256 << 10

/**
 * Appends samples that arrive one at a time. Samples, keys and jobs are written in one transaction whose statements are
 * sent together, in one round trip. The first index is known from the previous append. If another server has appended
 * meanwhile, Postgres refuses the append, and it is repeated under the batch's lock. Servers get the lock in turn.
 * Without the lock, the index could be outdated again whenever another server appends.
 */
export class SingleAppends {
  readonly #accept: AcceptContext
  readonly #nowMs: () => number
  readonly #nextIndex = new Map<number, number>()
  /**
   * Decides which worker checks the queue first, because two workers that check it at the same time delay each other
   * by half a millisecond.
   */
  #turn = 0

  /** `nowMs` returns the time of the database's clock. */
  constructor(accept: AcceptContext, nowMs: () => number) {
    this.#accept = accept
    this.#nowMs = nowMs
  }

  /**
   * Appends samples and returns the index of the first one, or 'closed' if the batch is closed or was removed.
   * `scored`: the results of samples that are scored already, written in the same transaction.
   * Throws `group_too_large`, `run_queue_full`, `run_limit`.
   */
  async append(
    batch: BatchSpec,
    samples: SampleInput[],
    keys: (ScoreKey | null)[],
    scored: (DirectlyScored | null)[],
  ): Promise<number | 'closed'> {
    const toQueue = samples.filter((s, i) => s.score == null && !scored[i]).length
    const limits = await limitsOf(this.#accept.db, batch.run)
    await foreseeLimits(this.#accept.db, limits, batch.run, { samples: toQueue, batches: 0 })
    const collector = new ImageCollector(this.#accept.images())
    const sent = samples.map(encodeTexts)
    const texts = sent.map((each, i) => collector.take(each, samples[i]!, 'sample'))
    const statementsFrom = async (start: number): Promise<Statement[]> => {
      const jobs = await this.#jobStatements(batch, start, samples, texts, scored)
      const notice =
        jobs.length === 0
          ? payloadOf('batchChanged', batch.id)
          : payloadOf('jobsQueued', `${INTERACTIVE_POOL}:${this.#turn++ % 1_000}`)
      return [
        appendStatement(batch.id, start, samples, { sent, stored: texts }, notice),
        ...keyStatements(batch.id, start, keys),
        ...jobs,
        ...endStatements(batch.id, start, scored),
      ]
    }
    const { db } = this.#accept
    const store = async (client: Client, statements: Statement[]): Promise<void> => {
      for (const statement of statements) await client.query(statement)
      await storeImages(client, batch.id, collector.images)
    }
    const atKnownIndex = async (): Promise<number> => {
      const start = this.#nextIndex.get(batch.id) ?? (await nextIndex(db.pool, batch.id))
      // The statements are built before the transaction, because the queue may read its options on another connection
      // of the pool.
      const statements = await statementsFrom(start)
      if (collector.images.size === 0) await db.atOnce(statements)
      else await db.transaction((client) => store(client, statements))
      return start
    }
    const underLock = (): Promise<number> =>
      db.transaction(async (client) => {
        await lockBatch(client, batch.id)
        const start = await nextIndex(client, batch.id)
        // `atKnownIndex` has built statements already, so the queue has read its options and needs no other connection.
        await store(client, await statementsFrom(start))
        return start
      })
    try {
      const start = await atKnownIndex().catch((error: { code?: string }) => {
        if (error.code === 'RW002') return underLock()
        throw error
      })
      if (this.#nextIndex.size > 1_000) this.#nextIndex.clear()
      this.#nextIndex.set(batch.id, start + samples.length)
      return start
    } catch (error) {
      this.#nextIndex.delete(batch.id)
      const { code, message } = error as { code?: string; message: string }
      if (code === 'RW003') return 'closed'
      if (code === 'RW001') throw new RewardOpsError('group_too_large', message)
      throw error
    }
  }

  async #jobStatements(
    batch: BatchSpec,
    start: number,
    samples: SampleInput[],
    texts: EncodedTexts[],
    scored: (DirectlyScored | null)[],
  ): Promise<Statement[]> {
    const inline: InlineSample[] = []
    samples.forEach((sample, i) => {
      if (sample.score != null || scored[i]) return
      const { prompt, response, groundTruth, extraInfo, encoding } = texts[i] as EncodedTexts
      inline.push({
        idx: start + i,
        data_source: sample.dataSource,
        prompt,
        response,
        ground_truth: groundTruth,
        extra_info: extraInfo,
        encoding,
        response_length: sample.responseLength ?? null,
      })
    })
    if (inline.length === 0) return []
    const acceptedAt = this.#nowMs()
    const jobs = inJobs(inline).map(
      (s): ChunkJob => ({ b: batch.id, i: toRanges(s.map((x) => x.idx)), t: acceptedAt, s }),
    )
    return this.#accept.queue.insertStatements(INTERACTIVE_POOL, jobs, batch)
  }
}

function keyStatements(batchId: number, start: number, keys: (ScoreKey | null)[]): Statement[] {
  const keyed = keys.flatMap((key, i) => (key ? [{ ...key, index: start + i }] : []))
  if (keyed.length === 0) return []
  return [scoreKeyStatement(batchId, keyed)]
}

/**
 * Statements that store the results of samples. The flush statement makes the transaction wait until its commit is on
 * disk.
 */
function endStatements(
  batchId: number,
  start: number,
  scored: (DirectlyScored | null)[],
): Statement[] {
  const byWorker = new Map<number, FlushedSample[]>()
  scored.forEach((direct, i) => {
    if (direct === null) return
    const list = byWorker.get(direct.workerId) ?? []
    list.push({ ...direct.end, batchId, index: start + i })
    byWorker.set(direct.workerId, list)
  })
  return [...byWorker].flatMap(([workerId, samples]) => {
    const attempts = attemptsStatement(workerId, samples)
    const flush = flushStatement(workerId, samples)
    return attempts === null ? [flush] : [attempts, flush, retriesStatement(samples)]
  })
}

function inJobs(samples: InlineSample[]): InlineSample[][] {
  const jobs: InlineSample[][] = []
  let chars = 0
  for (const sample of samples) {
    const length = sample.response.length + (sample.prompt?.length ?? 0)
    const last = jobs.at(-1)
    if (!last || last.length >= MAX_JOB_SAMPLES || chars + length > MAX_JOB_CHARS) {
      jobs.push([sample])
      chars = length
    } else {
      last.push(sample)
      chars += length
    }
  }
  return jobs
}
