import type { DirectEndMessage } from '../contract/direct-score.ts'
import type { EndedMessage } from '../contract/ended-message.ts'
import type { RescoreResult, RescoreSomeInput } from '../contract/rescore.ts'
import type {
  AppendInput,
  AppendResult,
  BatchSummary,
  ScoreInput,
  ScoreResult,
  SubmitInput,
  SubmitResult,
} from '../contract/trainer.ts'
import { RewardOpsError } from '../errors.ts'
import { type Client, type Database, throughOutage } from '../store/database.ts'
import { lockBatch } from '../store/sql/append.ts'
import {
  type ClosedBatch,
  cancelBatch,
  closeBatch,
  endUnfinished,
  settleClosed,
} from '../store/sql/end-batch.ts'
import { isPostProcessed, queuePostProcessing } from '../store/sql/post-process.ts'
import type { AcceptContext } from './accept/accept-batch.ts'
import { appendParsed, submitParsed } from './accept/ingest.ts'
import { poolOf, queueUnfilledGroups, scoresWholeGroups } from './accept/jobs.ts'
import { BatchReader } from './batch-reader.ts'
import type { WorkerChannel } from './direct-scores.ts'
import { Rescores } from './rescore.ts'
import type { BatchSignals } from './signals.ts'
import { SingleScores } from './single-scores.ts'

/**
 * Accepts, rescores, closes and cancels batches, and scores single samples. All persistent state is in Postgres.
 *
 *   submit ─▶ running ────all samples scored or failed──▶ completed
 *   submit(open) ─▶ open ──close──▶ running ─▶ …         ↘
 *   open, running ──cancel──▶ cancelled (its pending samples fail as `cancelled`)
 *   open, running ──a sample failed, onFailure fail_batch──▶ failed (pending samples fail too)
 */
export class RewardLoopManager {
  readonly #db: Database
  readonly #accept: AcceptContext
  readonly #singles: SingleScores
  readonly #signals: BatchSignals
  readonly reader: BatchReader
  readonly #rescores: Rescores

  /** `nowMs` returns the time of the database's clock. */
  constructor(
    db: Database,
    accept: AcceptContext,
    signals: BatchSignals,
    workers: WorkerChannel,
    nowMs: () => number,
  ) {
    this.#db = db
    this.#accept = accept
    this.#singles = new SingleScores(db, accept, signals, workers, nowMs)
    this.#signals = signals
    this.reader = new BatchReader(db, signals)
    this.#rescores = new Rescores(accept, this.reader)
  }

  /** A reader on the connections of `db`, for the pages. */
  readerOn(db: Database): BatchReader {
    return new BatchReader(db, this.#signals)
  }

  submit(input: SubmitInput): Promise<SubmitResult> {
    return submitParsed(this.#accept, input)
  }

  append(input: AppendInput): Promise<AppendResult> {
    return appendParsed(this.#accept, input)
  }

  rescore(input: RescoreSomeInput): Promise<RescoreResult> {
    return this.#rescores.rescore(input)
  }

  score(input: ScoreInput, signal?: AbortSignal): Promise<ScoreResult> {
    return this.#singles.score(input, signal)
  }

  /** Rejects callers that still wait for single scores. Call it after the workers have stopped. */
  stop(): void {
    this.#singles.stop()
  }

  ended(message: EndedMessage | DirectEndMessage): void {
    this.#singles.ended(message)
  }

  /**
   * Closes a batch: no more samples follow. An already closed batch stays as it is.
   * @throws RewardOpsError `batch_not_found`; `batch_closed` if the batch was cancelled or has failed
   */
  async close(batchId: string): Promise<BatchSummary> {
    const row = await this.reader.row(batchId)
    if (row.status === 'cancelled' || row.status === 'failed') {
      throw new RewardOpsError('batch_closed', `${batchId} is ${row.status}.`, {
        hint: 'Submit a new batch.',
      })
    }
    await this.closeById(row.id)
    return this.reader.summary(batchId)
  }

  /**
   * Closes a batch in two transactions, because groups must be locked before their batch: the first marks the batch as
   * closed, so that every flush sees it; the second completes the groups without pending samples. After a crash in
   * between, the sweep runs the second one.
   */
  async closeById(id: number): Promise<void> {
    await this.#db.transaction(async (client) => {
      await lockBatch(client, id)
      const batch = await closeBatch(client, id)
      if (batch !== undefined) await this.#queueWhatWaited(client, id, batch)
    })
    await throughOutage(() => settleClosed(this.#db, id), { forMs: 5_000 })
    // Groups whose post-processing waited only for the close are queued now. If queueing fails, the sweep queues them.
    const { queue } = this.#accept
    if (await isPostProcessed(this.#db, id)) await queuePostProcessing(this.#db, queue, id)
  }

  async #queueWhatWaited(client: Client, batchId: number, batch: ClosedBatch): Promise<void> {
    const { run, priority, reward, group_size, now } = batch
    if (!scoresWholeGroups(reward)) return
    const to = { batchId, run, priority, pool: poolOf(reward), nowMs: now.getTime() }
    await queueUnfilledGroups(client, this.#accept.queue, to, group_size)
  }

  /** Fails the pending samples of a failed batch (`fail_batch`). If the write fails, the sweep repeats it. */
  async endFailed(id: number): Promise<void> {
    await throughOutage(() => endUnfinished(this.#db, id), { forMs: 5_000 })
  }

  /** Cancels a batch: unscored samples fail as `cancelled`. Cancelling an ended batch changes nothing. */
  async cancel(batchId: string): Promise<BatchSummary> {
    const row = await this.reader.row(batchId)
    await this.#db.transaction(async (client) => {
      await lockBatch(client, row.id)
      await cancelBatch(client, row.id)
    })
    await throughOutage(() => endUnfinished(this.#db, row.id), { forMs: 5_000 })
    return this.reader.summary(batchId)
  }
}
