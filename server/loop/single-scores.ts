import { createHash } from 'node:crypto'
import { RewardOpsError } from '../errors.ts'
import { checkRulesForMore } from '../rewards/resolve.ts'
import { plainArray, textArray } from '../store/array-literal.ts'
import type { Client, Database } from '../store/database.ts'
import { INTERACTIVE_POOL, type InlineSample, toRanges } from '../store/job-queue.ts'
import { samplesByIndex, toResult } from '../store/sql/results.ts'
import { type BatchSpec, batchSpec } from '../store/sql/worker-reads.ts'
import type { Result, ScoreInput } from '../wire/trainer.ts'
import { type AcceptContext, acceptBatch } from './accept/accept-batch.ts'
import { BatchDraft, encodeTexts } from './accept/batch-draft.ts'
import { batchNumber } from './batch-reader.ts'
import type { BatchSignals } from './signals.ts'

/** Calls that arrive while an append is under way join the next one: 2,000 at once are 10 commits, not 2,000. */
const MAX_JOINED = 256

interface Waiting {
  input: ScoreInput
  hash: Buffer | null
  settle: (outcome: { batchId: number; index: number } | Error) => void
}

interface Watched {
  resolve: (result: Result) => void
  reject: (error: Error) => void
}

/**
 * `samples.score`: one sample in, its reward out. Without a batch it joins the implicit open one of its run, step,
 * split and reward. Appends are combined, and so is the looking for results.
 */
export class SingleScores {
  readonly #db: Database
  readonly #accept: AcceptContext
  readonly #signals: BatchSignals
  readonly #implicit = new Map<string, Promise<number>>()
  readonly #waiting = new Map<string, Waiting[]>()
  readonly #appending = new Set<string>()
  readonly #specs = new Map<number, BatchSpec>()
  readonly #watched = new Map<number, Map<number, Set<Watched>>>()
  readonly #watching = new Set<number>()

  constructor(db: Database, accept: AcceptContext, signals: BatchSignals) {
    this.#db = db
    this.#accept = accept
    this.#signals = signals
  }

  /** Resolves with the sample's end. Abandoning the call leaves the sample to be scored. */
  async score(input: ScoreInput, signal?: AbortSignal): Promise<Result> {
    const { sample, idempotencyKey } = input
    const hash = idempotencyKey
      ? createHash('sha256')
          .update(JSON.stringify([input.run, input.step, input.split, input.reward, sample]))
          .digest()
      : null
    if (idempotencyKey) {
      const known = await this.#known(idempotencyKey, hash as Buffer)
      if (known) return this.#result(known.batchId, known.index, signal, true)
    }
    const key = input.batchId ?? implicitKeyOf(input)
    const at = await new Promise<{ batchId: number; index: number }>((resolve, reject) => {
      const list = this.#waiting.get(key) ?? []
      this.#waiting.set(key, list)
      list.push({ input, hash, settle: (o) => (o instanceof Error ? reject(o) : resolve(o)) })
      void this.#appendWaiting(key)
    })
    return this.#result(at.batchId, at.index, signal)
  }

  /** Asks those who still wait to come back: their samples are stored, and are scored after the restart. */
  stop(): void {
    const stopping = new RewardOpsError(
      'shutting_down',
      'The service is stopping; the sample is stored and will be scored.',
      {
        hint: 'Ask again after retryAfterMs, with the same idempotencyKey if there was one.',
        retryAfterMs: 2_000,
      },
    )
    for (const byIndex of [...this.#watched.values()]) {
      for (const set of [...byIndex.values()]) {
        for (const watched of [...set]) watched.reject(stopping)
      }
    }
  }

  async #known(key: string, hash: Buffer): Promise<{ batchId: number; index: number } | null> {
    const [row] = await this.#db.rows<{ batch_id: number; idx: number; content_hash: Buffer }>(
      'score-key',
      'select batch_id, idx, content_hash from score_key where key = $1',
      [key],
    )
    if (!row) return null
    if (!hash.equals(row.content_hash)) {
      throw new RewardOpsError(
        'idempotency_conflict',
        `idempotencyKey "${key}" belongs to sample b${row.batch_id}-${row.idx}, whose content is another.`,
      )
    }
    return { batchId: row.batch_id, index: row.idx }
  }

  /** One append at a time for each batch; whoever comes meanwhile is in the next. */
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
          if (joined.length === 1) joined[0]!.settle(await this.#afterFailure(joined[0]!, error))
          else await this.#appendOneByOne(key, joined)
        }
      }
    } finally {
      this.#appending.delete(key)
      if (this.#waiting.get(key)?.length === 0) this.#waiting.delete(key)
    }
  }

  /** One call's mistake must not fail the others it was joined with. */
  async #appendOneByOne(key: string, calls: Waiting[]): Promise<void> {
    for (const call of calls) {
      try {
        await this.#append(key, [call])
      } catch (error) {
        call.settle(await this.#afterFailure(call, error))
      }
    }
  }

  /** Another call with the same key was quicker: its sample is this call's too. */
  async #afterFailure(
    call: Waiting,
    error: unknown,
  ): Promise<{ batchId: number; index: number } | Error> {
    if ((error as { constraint?: string }).constraint === 'score_key_pkey') {
      const known = await this.#known(
        call.input.idempotencyKey as string,
        call.hash as Buffer,
      ).catch((e: Error) => e)
      if (known) return known
    }
    return error as Error
  }

  async #append(key: string, calls: Waiting[], again = true): Promise<void> {
    const first = calls[0]!.input
    const batchId = first.batchId
      ? batchNumber(first.batchId)
      : await this.#implicitBatch(key, first)
    const spec = await this.#spec(batchId)
    const samples = calls.map((call) => call.input.sample)
    if (spec.reward.kind === 'rule') {
      const toScore = samples.filter((s) => s.score == null)
      checkRulesForMore([...new Set(toScore.map((s) => s.dataSource))], spec.reward.kwargs)
    }
    const start = await this.#store(batchId, spec, calls)
    if (start < 0) {
      this.#specs.delete(batchId)
      // The implicit batch closed between two calls: the next one opens another.
      if (again && !first.batchId) {
        this.#implicit.delete(key)
        return this.#append(key, calls, false)
      }
      throw new RewardOpsError('batch_closed', `b${batchId} takes no more samples.`)
    }
    calls.forEach((call, i) => {
      call.settle({ batchId, index: start + i })
    })
  }

  /** Samples, keys and job in one transaction of four round trips. Gives the first index, or −1. */
  async #store(batchId: number, spec: BatchSpec, calls: Waiting[]): Promise<number> {
    const samples = calls.map((call) => call.input.sample)
    const texts = samples.map(encodeTexts)
    const { db, queue } = this.#accept
    try {
      return await db.transaction(async (client) => {
        const { rows } = await client.query<{ start: number; now: Date }>({
          name: 'append-singles',
          text: `select append_singles($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) as start, clock_timestamp() as now`,
          values: [
            batchId,
            textArray(samples.map((s) => s.uid)),
            textArray(samples.map((s) => s.dataSource)),
            plainArray(samples.map((s) => s.responseLength ?? null)),
            plainArray(samples.map((s) => s.score ?? null)),
            textArray(texts.map((t) => t.prompt)),
            textArray(texts.map((t) => t.response)),
            textArray(texts.map((t) => t.groundTruth)),
            textArray(texts.map((t) => t.extraInfo)),
            plainArray(texts.map((t) => t.encoding)),
            `q${INTERACTIVE_POOL}`,
          ],
        })
        const { start, now } = rows[0]!
        if (start < 0) return start
        await insertKeys(client, batchId, start, calls)
        const pending = samples.map((_, i) => i).filter((i) => samples[i]!.score == null)
        const inline = pending.map((i) => ({
          idx: start + i,
          data_source: samples[i]!.dataSource,
          prompt: texts[i]!.prompt,
          response: texts[i]!.response,
          ground_truth: texts[i]!.groundTruth,
          extra_info: texts[i]!.extraInfo,
          encoding: texts[i]!.encoding,
        }))
        await queue.insert(
          INTERACTIVE_POOL,
          inJobs(inline).map((s) => ({
            b: batchId,
            i: toRanges(s.map((x) => x.idx)),
            t: now.getTime(),
            s,
          })),
          { run: spec.run, priority: spec.priority, client, wake: false },
        )
        return start
      })
    } catch (error) {
      if ((error as { code?: string }).code === 'RW001') {
        throw new RewardOpsError('group_too_large', (error as Error).message)
      }
      throw error
    }
  }

  async #spec(batchId: number): Promise<BatchSpec> {
    const known = this.#specs.get(batchId)
    if (known) return known
    const spec = await batchSpec(this.#db, batchId)
    if (!spec) throw new RewardOpsError('batch_not_found', `There is no batch b${batchId}.`)
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
    const find = async () => {
      const [row] = await this.#db.rows<{ id: number }>(
        'implicit-open',
        'select id from batch where implicit_key = $1 and not closed',
        [key],
      )
      return row?.id
    }
    const found = await find()
    if (found !== undefined) return found
    // The sample itself is checked first, so that a refused call opens nothing.
    const { dataSource, score } = input.sample
    if (input.reward.model === null && score == null) {
      checkRulesForMore([dataSource], input.reward.kwargs)
    }
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
        new BatchDraft(),
        { implicitKey: key },
      )
      return batchNumber(batchId)
    } catch (error) {
      if ((error as { constraint?: string }).constraint === 'batch_implicit_open') {
        const other = await find()
        if (other !== undefined) return other
      }
      throw error
    }
  }

  #result(
    batchId: number,
    index: number,
    signal?: AbortSignal,
    mayHaveEnded = false,
  ): Promise<Result> {
    return new Promise((resolve, reject) => {
      const byIndex = this.#watched.get(batchId) ?? new Map<number, Set<Watched>>()
      this.#watched.set(batchId, byIndex)
      const set = byIndex.get(index) ?? new Set<Watched>()
      byIndex.set(index, set)
      const leave = () => {
        set.delete(watched)
        if (set.size === 0) byIndex.delete(index)
        if (byIndex.size === 0 && this.#watched.get(batchId) === byIndex)
          this.#watched.delete(batchId)
        signal?.removeEventListener('abort', onAbort)
      }
      const onAbort = () => {
        leave()
        reject(new RewardOpsError('busy', 'The caller went away.'))
      }
      const watched: Watched = {
        resolve: (result) => {
          leave()
          resolve(result)
        },
        reject: (error) => {
          leave()
          reject(error)
        },
      }
      set.add(watched)
      signal?.addEventListener('abort', onAbort)
      void this.#watch(batchId)
      // A fresh sample's end will be notified; an old one's may have been long ago.
      if (mayHaveEnded) this.#signals.notify(batchId)
    })
  }

  /** Looks for the results of all who wait in a batch, whenever it moves. */
  async #watch(batchId: number): Promise<void> {
    if (this.#watching.has(batchId)) return
    this.#watching.add(batchId)
    try {
      for (;;) {
        const byIndex = this.#watched.get(batchId)
        if (!byIndex) return
        const moved = this.#signals.wait(batchId, 1_000)
        const rows = await samplesByIndex(this.#db, batchId, [...byIndex.keys()]).catch(
          (error: Error) => error,
        )
        if (!(rows instanceof Error)) {
          for (const row of rows) {
            if (row.status < 2) continue
            const result = toResult(row)
            for (const watched of [...(byIndex.get(row.idx) ?? [])]) watched.resolve(result)
          }
        }
        if (!this.#watched.has(batchId)) return
        await moved
      }
    } finally {
      this.#watching.delete(batchId)
    }
  }
}

async function insertKeys(
  client: Client,
  batchId: number,
  start: number,
  calls: Waiting[],
): Promise<void> {
  const keyed = calls.map((call, i) => ({ call, i })).filter(({ call }) => call.hash)
  if (keyed.length === 0) return
  await client.query(
    `insert into score_key (key, batch_id, idx, content_hash)
     select t.key, $2, t.idx, t.hash from unnest($1::text[], $3::int[], $4::bytea[]) as t(key, idx, hash)`,
    [
      keyed.map(({ call }) => call.input.idempotencyKey),
      batchId,
      keyed.map(({ i }) => start + i),
      keyed.map(({ call }) => call.hash),
    ],
  )
}

/** Jobs of up to 8 samples and 256 KiB of text: small enough to be taken by all workers at once. */
function inJobs(samples: InlineSample[]): InlineSample[][] {
  const jobs: InlineSample[][] = []
  let chars = 0
  for (const sample of samples) {
    const length = sample.response.length + (sample.prompt?.length ?? 0)
    const last = jobs.at(-1)
    if (!last || last.length >= 8 || chars + length > 256 << 10) {
      jobs.push([sample])
      chars = length
    } else {
      last.push(sample)
      chars += length
    }
  }
  return jobs
}

/** Two calls with one idempotency key are never in one append: the second finds the first's sample. */
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

function implicitKeyOf(input: ScoreInput): string {
  return createHash('sha256')
    .update(JSON.stringify([input.run, input.step, input.split, input.reward]))
    .digest('hex')
}
