import { createHash } from 'node:crypto'
import type { DirectEndMessage } from '../contract/direct-score.ts'
import type { EndedMessage } from '../contract/ended-message.ts'
import { rewardVersionOf } from '../contract/resolved-reward.ts'
import type { Result, ScoreInput, ScoreResult } from '../contract/trainer.ts'
import { RewardOpsError } from '../errors.ts'
import { checkRulesForMore } from '../rewards/resolve.ts'
import { type Database, isOutage } from '../store/database.ts'
import { openImplicitBatch } from '../store/sql/accept.ts'
import { sampleOfKey } from '../store/sql/append.ts'
import { lastDetail } from '../store/sql/results.ts'
import { type BatchSpec, batchSpec } from '../store/sql/worker-reads.ts'
import { type AcceptContext, acceptBatch } from './accept/accept-batch.ts'
import { BatchDraft } from './accept/batch-draft.ts'
import { refuseSingles } from './accept/jobs.ts'
import { batchNumber } from './batch-reader.ts'
import { type DirectlyScored, DirectScores, type WorkerChannel } from './direct-scores.ts'
import type { BatchSignals } from './signals.ts'
import { SingleAppends } from './single-appends.ts'
import { resultOf, SingleResults } from './single-results.ts'

/**
 * Maximum number of calls per append. Calls that arrive during an append join the next one, so that 2,000 concurrent
 * calls make 10 commits, not 2,000.
 */
const MAX_JOINED = 256

interface Waiting {
  input: ScoreInput
  hash: Buffer | null
  /** The sample's result, if a worker scored it before it was stored. */
  scored: DirectlyScored | null
  settle: (outcome: Stored | Error) => void
}

interface Stored {
  batchId: number
  index: number
  /**
   * True if this call stored the sample, with its result if it was scored directly. False if an earlier call with the
   * same key stored it.
   */
  stored: boolean
}

/**
 * `samples.score`: takes one sample and returns its reward. A sample without a batch id joins the implicit open batch
 * of its run, step, split and reward. Appends and reads of results are combined across calls.
 */
export class SingleScores {
  readonly #db: Database
  readonly #accept: AcceptContext
  readonly #appends: SingleAppends
  readonly #implicit = new Map<string, Promise<number>>()
  readonly #waiting = new Map<string, Waiting[]>()
  readonly #appending = new Set<string>()
  readonly #specs = new Map<number, BatchSpec>()
  /** Batches that received samples recently, by batch id or implicit key. */
  readonly #open = new Map<string, BatchSpec>()
  readonly #results: SingleResults
  readonly #direct: DirectScores

  /** `nowMs` returns the time of the database's clock. */
  constructor(
    db: Database,
    accept: AcceptContext,
    signals: BatchSignals,
    workers: WorkerChannel,
    nowMs: () => number,
  ) {
    this.#db = db
    this.#direct = new DirectScores(workers, nowMs)
    this.#accept = accept
    this.#results = new SingleResults(db, signals)
    this.#appends = new SingleAppends(accept, nowMs)
  }

  /** Resolves with the sample's result. If the caller disconnects, the sample is still scored. */
  async score(input: ScoreInput, signal?: AbortSignal): Promise<ScoreResult> {
    const { sample, idempotencyKey } = input
    const hash = idempotencyKey ? contentHashOf(input) : null
    if (idempotencyKey) {
      const known = await this.#known(idempotencyKey, hash as Buffer)
      if (known) {
        const { batchId, index } = known
        return this.#scoreResult(batchId, await this.#results.wait(batchId, index, null, signal))
      }
    }
    const key = input.batchId ?? implicitKeyOf(input)
    const batch = this.#open.get(key)
    const scored = batch === undefined ? null : await this.#direct.score(batch, sample)
    const at = await new Promise<Stored>((resolve, reject) => {
      const list = this.#waiting.get(key) ?? []
      this.#waiting.set(key, list)
      list.push({
        input,
        hash,
        scored,
        settle: (o) => (o instanceof Error ? reject(o) : resolve(o)),
      })
      void this.#appendWaiting(key)
    })
    if (scored !== null && at.stored) {
      this.#direct.timed(at.batchId, scored.end.scoreMs)
      return this.#scoreResult(
        at.batchId,
        resultOf(sample, { ...scored.end, ...at }, scored.workerId),
      )
    }
    return this.#scoreResult(
      at.batchId,
      await this.#results.wait(at.batchId, at.index, sample, signal),
    )
  }

  async #scoreResult(batchId: number, result: Result): Promise<ScoreResult> {
    const { reward } = this.#specs.get(batchId) ?? (await this.#spec(batchId))
    const id = `b${batchId}`
    return {
      ...result,
      id: `${id}-${result.index}`,
      batchId: id,
      detail: result.reason === null ? null : await lastDetail(this.#db, batchId, result.index),
      rewardVersion: rewardVersionOf(reward),
    }
  }

  stop(): void {
    this.#results.stop()
  }

  ended(message: EndedMessage | DirectEndMessage): void {
    if (message.type === 'scored') {
      this.#direct.onScored(message)
      return
    }
    for (const { batchId, scoreMs } of message.samples) this.#direct.timed(batchId, scoreMs)
    this.#results.ended(message)
  }

  async #known(key: string, hash: Buffer): Promise<{ batchId: number; index: number } | null> {
    const row = await sampleOfKey(this.#db, key)
    if (!row) return null
    if (!hash.equals(row.content_hash)) {
      throw new RewardOpsError(
        'idempotency_conflict',
        `idempotencyKey "${key}" belongs to sample b${row.batch_id}-${row.idx}, which has different content.`,
      )
    }
    return { batchId: row.batch_id, index: row.idx }
  }

  /** Runs one append at a time per batch; calls that arrive meanwhile join the next one. */
  async #appendWaiting(key: string): Promise<void> {
    if (this.#appending.has(key)) return
    this.#appending.add(key)
    try {
      for (;;) {
        const list = this.#waiting.get(key)
        if (!list || list.length === 0) break
        const joined = takeDistinctKeys(list, MAX_JOINED)
        try {
          await this.#append(key, joined)
        } catch (error) {
          // If the connection was lost, the samples may already be stored, and another append would store them twice.
          if (joined.length > 1 && !isOutage(error)) await this.#appendOneByOne(key, joined)
          else for (const call of joined) call.settle(await this.#afterFailure(call, error))
        }
      }
    } finally {
      this.#appending.delete(key)
      if (this.#waiting.get(key)?.length === 0) this.#waiting.delete(key)
    }
  }

  /** Appends the calls one by one, so that an invalid sample fails only its own call. */
  async #appendOneByOne(key: string, calls: Waiting[]): Promise<void> {
    for (const call of calls) {
      try {
        await this.#append(key, [call])
      } catch (error) {
        call.settle(await this.#afterFailure(call, error))
      }
    }
  }

  /** Returns the sample that a call with the same idempotency key stored first, or else the error. */
  async #afterFailure(call: Waiting, error: unknown): Promise<Stored | Error> {
    if ((error as { constraint?: string }).constraint === 'score_key_pkey') {
      const known = await this.#known(
        call.input.idempotencyKey as string,
        call.hash as Buffer,
      ).catch((e: Error) => e)
      if (known instanceof Error) return known
      if (known) return { ...known, stored: false }
    }
    return error as Error
  }

  async #append(key: string, calls: Waiting[], again = true): Promise<void> {
    const first = calls[0]!.input
    const batchId = first.batchId
      ? batchNumber(first.batchId)
      : await this.#implicitBatch(key, first)
    const spec = await this.#find(batchId)
    const start = spec === undefined ? 'closed' : await this.#appendTo(spec, calls)
    if (spec === undefined || start === 'closed') {
      this.#specs.delete(batchId)
      this.#open.delete(key)
      // The implicit batch was closed or removed meanwhile, so the samples go to a new one.
      if (again && !first.batchId) {
        this.#implicit.delete(key)
        return this.#append(key, calls, false)
      }
      // Throws `batch_not_found` if the batch was removed.
      await this.#spec(batchId)
      throw new RewardOpsError('batch_closed', `b${batchId} takes no more samples.`)
    }
    if (this.#open.size > 1_000) this.#open.clear()
    this.#open.set(key, spec)
    calls.forEach((call, i) => {
      call.settle({ batchId, index: start + i, stored: true })
    })
  }

  #appendTo(spec: BatchSpec, calls: Waiting[]): Promise<number | 'closed'> {
    refuseSingles(spec.reward)
    const samples = calls.map((call) => call.input.sample)
    const toScore = samples.filter((s) => s.score == null)
    checkRulesForMore([...new Set(toScore.map((s) => s.dataSource))], spec.reward)
    const keys = calls.map((call) =>
      call.hash ? { key: call.input.idempotencyKey as string, hash: call.hash } : null,
    )
    return this.#appends.append(
      spec,
      samples,
      keys,
      calls.map((call) => call.scored),
    )
  }

  async #spec(batchId: number): Promise<BatchSpec> {
    const spec = await this.#find(batchId)
    if (!spec) throw new RewardOpsError('batch_not_found', `There is no batch b${batchId}.`)
    return spec
  }

  async #find(batchId: number): Promise<BatchSpec | undefined> {
    const known = this.#specs.get(batchId)
    if (known) return known
    const spec = await batchSpec(this.#db, batchId)
    if (spec === undefined) return undefined
    if (this.#specs.size > 1_000) this.#specs.clear()
    this.#specs.set(batchId, spec)
    return spec
  }

  #implicitBatch(key: string, input: ScoreInput): Promise<number> {
    let open = this.#implicit.get(key)
    if (!open) {
      open = this.#openImplicit(key, input)
      open.catch(() => this.#implicit.delete(key))
      if (this.#implicit.size > 1_000) this.#implicit.clear()
      this.#implicit.set(key, open)
    }
    return open
  }

  async #openImplicit(key: string, input: ScoreInput): Promise<number> {
    const found = await openImplicitBatch(this.#db, key)
    if (found !== undefined) return found
    const { dataSource, score } = input.sample
    try {
      const { batchId } = await acceptBatch(
        this.#accept,
        {
          run: input.run,
          step: input.step,
          split: input.split,
          groupSize: null,
          reward: input.reward,
          open: true,
          priority: 0,
          deadlineMs: null,
        },
        new BatchDraft(this.#accept.images()),
        // The data source is checked too, so that a refused call opens no batch.
        { implicitKey: key, ...(score == null ? { dataSources: [dataSource] } : {}) },
      )
      return batchNumber(batchId)
    } catch (error) {
      if ((error as { constraint?: string }).constraint === 'batch_implicit_open') {
        const other = await openImplicitBatch(this.#db, key)
        if (other !== undefined) return other
      }
      throw error
    }
  }
}

/**
 * Removes up to `most` calls with distinct idempotency keys from the list. A second call with the same key stays in the
 * list, so that a later append finds the sample of the first one.
 */
function takeDistinctKeys(list: Waiting[], most: number): Waiting[] {
  const seen = new Set<string>()
  const taken: Waiting[] = []
  for (let i = 0; i < list.length && taken.length < most; ) {
    const key = list[i]!.input.idempotencyKey
    if (key && seen.has(key)) {
      i++
      continue
    }
    if (key) seen.add(key)
    taken.push(...list.splice(i, 1))
  }
  return taken
}

/** The hash of a call's content. Without a batch id, it equals the hash that earlier versions stored. */
function contentHashOf({ run, step, split, reward, sample, batchId }: ScoreInput): Buffer {
  const content = [run, step, split, reward, sample, ...(batchId == null ? [] : [batchId])]
  return createHash('sha256').update(JSON.stringify(content)).digest()
}

function implicitKeyOf(input: ScoreInput): string {
  return createHash('sha256')
    .update(JSON.stringify([input.run, input.step, input.split, input.reward]))
    .digest('hex')
}
