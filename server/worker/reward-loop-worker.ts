import type { LeaseHolder } from '../fleet/lease-holder.ts'
import type { Logger } from '../log.ts'
import type { RewardManager, RewardOutcome, RewardSample } from '../rewards/managers/manager.ts'
import { managerNamed } from '../rewards/managers/registry.ts'
import type { RewardRouter } from '../router/router-types.ts'
import { type Database, throughOutage } from '../store/database.ts'
import {
  type ChunkJob,
  type HeldJob,
  INTERACTIVE_POOL,
  indexesOf,
  type JobQueue,
  toRanges,
} from '../store/job-queue.ts'
import {
  type BatchSpec,
  batchSpec,
  type PendingSample,
  pendingSamples,
} from '../store/sql/worker-reads.ts'
import { decodeTexts } from '../store/stored-texts.ts'
import type { SampleFailureReason } from '../wire/sample-reason.ts'
import { JobInHand } from './held-job.ts'
import { Intake } from './intake.ts'
import { type EndedSample, ResultWriter } from './result-writer.ts'
import { sampleEndOf } from './sample-end.ts'
import { SlotGate } from './slot-gate.ts'

/** A sample whose third worker died is given up. */
const MAX_LOSSES = 3
/** Most jobs are done before; a claim, and taking it back, would be two queries for nothing. */
const CLAIM_AFTER_MS = 60
/** Jobs that end within this time are completed together. */
const COMPLETE_AFTER_MS = 20
/** A batch's reward is remembered for this long after its last job. */
const KEEP_BATCH_MS = 2_000
/** Rules run in slices of this length, so that heartbeats and interactive samples get in between. */
const SLICE_MS = 8

/** A batch in hand. */
interface ActiveBatch {
  spec: BatchSpec
  manager: RewardManager
  abort: AbortController
  gate: SlotGate | null
  jobs: number
  leaving: boolean
}

interface RuleTask {
  job: JobInHand
  batch: ActiveBatch
  sample: PendingSample
}

/** What one worker counts; read once a second. */
export interface WorkerCounters {
  scored: number
  failed: number
}

/**
 * A RewardLoopWorker: takes chunks when it has room, scores each sample by itself, hands results to the writer.
 *
 *   fetched ──claim──▶ in hand ──every sample ended──▶ committed ──▶ job completed
 *                         │ stopping: what has not ended goes back as a new job
 *                         │ died: heartbeats stop, the job is delivered again with one loss more
 */
export class RewardLoopWorker {
  readonly #id: number
  readonly #db: Database
  readonly #queue: JobQueue
  readonly #router: RewardRouter
  readonly #leases: LeaseHolder
  readonly #log: Logger
  readonly #writer: ResultWriter
  /** For samples somebody waits for: never behind a flush of five hundred others. */
  readonly #urgentWriter: ResultWriter
  readonly #clockOffsetMs: number
  readonly intake: Intake
  readonly counters: WorkerCounters = { scored: 0, failed: 0 }
  readonly #batches = new Map<number, Promise<ActiveBatch | null>>()
  readonly #jobs = new Set<JobInHand>()
  readonly #rules: RuleTask[] = []
  #ruleLoop = false
  readonly #completed = new Map<string, JobInHand[]>()
  #completing = false
  /** Jobs whose samples lost two workers, until they are run or given back. */
  #alone: JobInHand[] = []
  #runningAlone = false
  #running = 0
  #stopping = false

  constructor(options: {
    id: number
    db: Database
    queue: JobQueue
    router: RewardRouter
    leases: LeaseHolder
    slotsOf: (model: string) => number
    fairShareOf: (model: string) => number
    wantSlots: (model: string) => void
    /** Database clock minus ours. */
    clockOffsetMs: number
    /** Hears of committed samples that somebody waits for. */
    onUrgentCommitted: ((samples: EndedSample[]) => void) | null
    log: Logger
  }) {
    this.#id = options.id
    this.#db = options.db
    this.#queue = options.queue
    this.#router = options.router
    this.#leases = options.leases
    this.#log = options.log
    this.#clockOffsetMs = options.clockOffsetMs
    this.#writer = new ResultWriter(options.db, options.id, options.log)
    this.#urgentWriter = new ResultWriter(
      options.db,
      options.id,
      options.log,
      options.onUrgentCommitted,
    )
    this.intake = new Intake(
      options.queue,
      {
        slotsOf: options.slotsOf,
        fairShareOf: options.fairShareOf,
        wantSlots: options.wantSlots,
        take: (pool, job) => this.#take(pool, job),
      },
      options.log,
    )
  }

  /** Samples being scored at this moment. */
  get inFlight(): number {
    return this.#running
  }

  /** The jobs it holds, by pool, for heartbeats. */
  jobsByPool(): Map<string, { id: string; retryCount: number }[]> {
    const out = new Map<string, { id: string; retryCount: number }[]>()
    for (const job of [...this.#jobs, ...this.#alone]) {
      const list = out.get(job.pool) ?? []
      list.push(job.attempt)
      out.set(job.pool, list)
    }
    return out
  }

  /** A batch was cancelled, or its deadline passed: what is in flight for it stops. */
  batchEnded(batchId: number): void {
    void this.#batches.get(batchId)?.then((batch) => batch?.abort.abort())
  }

  /** Stops taking, waits at most `forMs` for what is in flight, writes what ended, gives the rest back. */
  async stop(forMs: number): Promise<void> {
    this.#stopping = true
    this.intake.close()
    const until = performance.now() + forMs
    while (this.#running > 0 && performance.now() < until) {
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    const unfinished = [...this.#jobs].filter((job) => job.open.size > 0)
    await Promise.all([
      ...unfinished.map((job) =>
        this.#giveBack(
          job,
          [...job.open].sort((a, b) => a - b),
        ),
      ),
      ...this.#alone.map((job) => this.#giveBack(job, indexesOf(job.job.data))),
    ])
    await Promise.all([this.#writer.drain(), this.#urgentWriter.drain()])
    await this.#completeJobs()
  }

  #take(pool: string, job: HeldJob): void {
    const inHand = new JobInHand(job, pool)
    if (inHand.losses >= MAX_LOSSES - 1) {
      this.#alone.push(inHand)
      this.#claim(inHand, indexesOf(job.data))
      this.intake.paused = true
      void this.#runAlone()
      return
    }
    this.intake.oneByOne = false
    void this.#start(inHand)
  }

  async #start(job: JobInHand): Promise<void> {
    const indexes = indexesOf(job.job.data)
    const assumed = indexes.length
    this.#jobs.add(job)
    this.intake.count(job.pool, assumed, 0)
    let chars = 0
    let batch: ActiveBatch | null = null
    try {
      const { b } = job.job.data
      // What killed a worker may do so again, and soon.
      if (job.losses > 0) {
        if (job.claim === null) this.#claim(job, indexes)
      } else job.claimTimer = setTimeout(() => this.#claim(job, indexes), CLAIM_AFTER_MS)
      batch = await this.#enterBatch(b)
      const rows = batch ? await this.#samplesOf(job, batch) : []
      for (const row of rows) {
        chars += row.response.length + (row.prompt?.length ?? 0)
        job.open.add(row.idx)
      }
      this.intake.count(job.pool, rows.length - assumed, chars)
      if (!batch || rows.length === 0) {
        this.#finishJob(job, batch ?? undefined)
        return
      }
      const entered = batch
      if (job.losses >= MAX_LOSSES) {
        for (const row of rows)
          this.#fail(
            job,
            entered,
            row,
            'worker_lost',
            `${job.losses} workers died while they held it`,
          )
      } else if (batch.spec.reward.kind === 'rule') {
        const tasks = rows.map((sample) => ({ job, batch: entered, sample }))
        if (job.pool === INTERACTIVE_POOL) this.#rules.unshift(...tasks)
        else for (const task of tasks) this.#rules.push(task)
        this.#running += rows.length
        this.#runRules()
      } else {
        for (const row of rows) void this.#scoreByModel(job, entered, row)
      }
    } catch (error) {
      // Not read: the claim stays, and after missed heartbeats somebody takes it again. Giving it back is quicker.
      this.#log.warn({ err: (error as Error).message }, 'chunk could not be read')
      this.#jobs.delete(job)
      clearTimeout(job.claimTimer)
      this.intake.count(job.pool, -(job.open.size > 0 ? job.open.size : assumed), -chars)
      job.open.clear()
      if (batch) this.#leaveBatch(batch)
      await throughOutage(() => this.#returnJob(job, indexes), { forMs: 60_000 }).catch(() => {})
    }
  }

  /** What is to be scored: from the job where it brings its samples and this is its first delivery, else from the tables. */
  async #samplesOf(job: JobInHand, batch: ActiveBatch): Promise<PendingSample[]> {
    const inline = job.losses === 0 ? job.job.data.s : undefined
    return inline ?? pendingSamples(this.#db, batch.spec, job.job.data.i)
  }

  /** Best effort: without its claim a dead worker's job still comes back, by missed heartbeats. */
  #claim(job: JobInHand, indexes: number[]): void {
    job.claim = this.#db
      .rows(
        'claim',
        `insert into claim (job_id, queue, worker_id, batch_id, first_idx, last_idx, samples)
         values ($1, $2, $3, $4, $5, $6, $7)
         on conflict (job_id) do update set worker_id = excluded.worker_id, claimed_at = now()`,
        [
          job.job.id,
          job.pool,
          this.#id,
          job.job.data.b,
          indexes[0] ?? 0,
          indexes[indexes.length - 1] ?? 0,
          indexes.length,
        ],
      )
      .catch(() => {})
  }

  #batch(id: number): Promise<ActiveBatch | null> {
    let batch = this.#batches.get(id)
    if (!batch) {
      batch = this.#loadBatch(id)
      this.#batches.set(id, batch)
      batch.catch(() => this.#batches.delete(id))
    }
    return batch
  }

  async #loadBatch(id: number): Promise<ActiveBatch | null> {
    const spec = await batchSpec(this.#db, id)
    if (!spec) return null
    const limit = spec.reward.maxConcurrency
    const gate = limit === null ? null : new SlotGate()
    if (gate && limit !== null) {
      this.#leases.track({
        name: `batch:${id}`,
        limit,
        demand: () => gate.demand,
        inFlight: () => gate.inside,
        setSlots: (slots) => gate.setSlots(slots),
      })
    }
    return {
      spec,
      manager: managerNamed(spec.reward.manager),
      abort: new AbortController(),
      gate,
      jobs: 0,
      leaving: false,
    }
  }

  /** A job of it is in hand, and left one day: a batch forgotten meanwhile would have lost its gate's slots for good. */
  async #enterBatch(id: number): Promise<ActiveBatch | null> {
    for (;;) {
      const loading = this.#batch(id)
      const batch = await loading
      if (batch === null) return null
      if (this.#batches.get(id) !== loading) continue
      batch.jobs++
      return batch
    }
  }

  /** Forgets a batch that has had no jobs in hand for a while: what scores one sample at a time comes back soon. */
  #leaveBatch(batch: ActiveBatch): void {
    batch.jobs--
    if (batch.jobs > 0 || batch.leaving) return
    batch.leaving = true
    setTimeout(() => {
      batch.leaving = false
      if (batch.jobs > 0) return
      this.#batches.delete(batch.spec.id)
      if (batch.gate) this.#leases.forget(`batch:${batch.spec.id}`)
    }, KEEP_BATCH_MS).unref()
  }

  /** Built-in rules, on this loop, in slices; interactive ones go first. */
  #runRules(): void {
    if (this.#ruleLoop) return
    this.#ruleLoop = true
    const slice = () => {
      const until = performance.now() + SLICE_MS
      while (this.#rules.length > 0 && performance.now() < until) {
        const { job, batch, sample } = this.#rules.shift() as RuleTask
        this.#running--
        if (!job.open.has(sample.idx)) continue
        const startedAt = performance.now()
        const outcome: RewardOutcome = batch.abort.signal.aborted
          ? { ok: false, reason: 'cancelled', detail: 'the batch ended', attempts: null }
          : runRule(batch, sample)
        const tookMs = performance.now() - startedAt
        this.#end(job, batch, sample, outcome, this.#now() - tookMs, tookMs)
      }
      if (this.#rules.length > 0) setImmediate(slice)
      else this.#ruleLoop = false
    }
    setImmediate(slice)
  }

  async #scoreByModel(job: JobInHand, batch: ActiveBatch, row: PendingSample): Promise<void> {
    const { signal } = batch.abort
    if (batch.gate) {
      this.#leases.want(`batch:${batch.spec.id}`)
      if (!(await batch.gate.enter(signal)) || this.#stopping) {
        if (!this.#stopping) this.#fail(job, batch, row, 'cancelled', 'the batch ended')
        return
      }
    }
    this.#running++
    const startedAt = this.#now()
    const clock = performance.now()
    const { reward, deadline_at } = batch.spec
    const outcome = await batch.manager.runModel(toRewardSample(row), {
      reward,
      router: this.#router,
      signal,
      urgent: job.pool === INTERACTIVE_POOL,
      run: batch.spec.run,
      group: row.group_no == null ? undefined : `${batch.spec.id}:${row.group_no}`,
      key: `${row.idx}`,
      priority: batch.spec.priority,
      deadlineMs: deadline_at ? deadline_at.getTime() - startedAt : undefined,
    })
    this.#running--
    batch.gate?.leave()
    if (!outcome.ok && outcome.reason === 'cancelled' && this.#stopping) return
    const first = outcome.attempts?.[0]
    const dispatchedAt = first ? first.startedAtMs + this.#clockOffsetMs : startedAt
    const waitedMs = first ? first.startedAtMs + this.#clockOffsetMs - startedAt : 0
    this.#end(
      job,
      batch,
      row,
      outcome,
      dispatchedAt,
      Math.max(0, performance.now() - clock - waitedMs),
    )
  }

  #fail(
    job: JobInHand,
    batch: ActiveBatch,
    row: PendingSample,
    reason: SampleFailureReason,
    detail: string,
  ): void {
    this.#end(job, batch, row, { ok: false, reason, detail, attempts: null }, this.#now(), 0)
  }

  #end(
    job: JobInHand,
    batch: ActiveBatch,
    row: PendingSample,
    outcome: RewardOutcome,
    dispatchedAtMs: number,
    scoreMs: number,
  ): void {
    // Given back meanwhile, or ended before: somebody else answers for it.
    if (!job.open.delete(row.idx)) return
    job.uncommitted++
    if (outcome.ok) this.counters.scored++
    else this.counters.failed++
    const chars = row.response.length + (row.prompt?.length ?? 0)
    const urgent = job.pool === INTERACTIVE_POOL
    const writer = urgent ? this.#urgentWriter : this.#writer
    const acceptedAtMs = job.job.data.t
    writer.add(
      {
        batchId: batch.spec.id,
        index: row.idx,
        ...sampleEndOf(outcome, batch.spec.reward, { acceptedAtMs, dispatchedAtMs, scoreMs }),
        settled: (written) => {
          job.uncommitted--
          if (!written) job.unwritten = true
          if (job.done) this.#finishJob(job, batch)
        },
      },
      urgent,
    )
    this.intake.count(job.pool, -1, -chars)
  }

  #finishJob(job: JobInHand, batch?: ActiveBatch): void {
    if (!this.#jobs.delete(job)) return
    clearTimeout(job.claimTimer)
    if (batch) this.#leaveBatch(batch)
    // Not completed, its heartbeat lapses: what was not written is scored again, and is a loss should it never be.
    if (job.unwritten) return
    const list = this.#completed.get(job.pool) ?? []
    list.push(job)
    this.#completed.set(job.pool, list)
    if (!this.#completing) {
      this.#completing = true
      setTimeout(() => void this.#completeJobs(), COMPLETE_AFTER_MS)
    }
  }

  /** Completed jobs are told together, off the path of the samples. */
  async #completeJobs(): Promise<void> {
    try {
      for (const [pool, jobs] of [...this.#completed]) {
        this.#completed.delete(pool)
        await throughOutage(
          async () => {
            await this.#queue.complete(
              pool,
              jobs.map((job) => job.attempt),
            )
            const claimed = jobs.filter((job) => job.claim !== null)
            if (claimed.length === 0) return
            // Not before they are written: a claim that comes late would stay.
            await Promise.all(claimed.map((job) => job.claim))
            await this.#db.rows(
              'unclaim',
              'delete from claim where job_id = any($1::uuid[]) and worker_id = $2',
              [claimed.map((job) => job.job.id), this.#id],
            )
          },
          { forMs: 15 * 60_000 },
        ).catch((error: Error) => this.#log.warn({ err: error.message }, 'jobs not completed'))
      }
    } finally {
      this.#completing = false
      if (this.#completed.size > 0) {
        this.#completing = true
        setImmediate(() => void this.#completeJobs())
      }
    }
  }

  /** What has not ended goes back as a new job that counts no loss: stopping is not dying. */
  async #giveBack(job: JobInHand, indexes: number[]): Promise<void> {
    job.open.clear()
    await throughOutage(() => this.#returnJob(job, indexes), { forMs: 5_000 }).catch(
      (error: Error) =>
        this.#log.warn(
          { err: error.message },
          'unfinished samples were not given back; their heartbeat will lapse',
        ),
    )
  }

  async #returnJob(job: JobInHand, indexes: number[]): Promise<void> {
    const { b, t } = job.job.data
    await this.#requeue(job, [{ b, t, i: toRanges(indexes), l: job.losses }])
  }

  /** Replaces a job by others, in one transaction. */
  async #requeue(job: JobInHand, jobs: ChunkJob[]): Promise<void> {
    // Not before it is written: a claim that comes late would stay.
    await job.claim
    const spec = await batchSpec(this.#db, job.job.data.b)
    await this.#db.transaction(async (client) => {
      await this.#queue.insert(job.pool, jobs, {
        run: spec?.run ?? 'unknown',
        priority: spec?.priority ?? 0,
        client,
      })
      await this.#queue.complete(job.pool, [job.attempt], client)
      await client.query('delete from claim where job_id = $1', [job.job.id])
    })
  }

  /**
   * Samples that lost two workers: cut into jobs of one, and each of these runs with nothing else in this process,
   * so that one that kills its worker takes nobody with it. What was fetched beside it goes back at once: waiting
   * here it would die along, or miss its heartbeats behind a slow one, and be given up for what it did not do.
   */
  async #runAlone(): Promise<void> {
    if (this.#runningAlone) return
    this.#runningAlone = true
    while (this.#alone.length > 0 && !this.#stopping) {
      const [job, ...others] = this.#alone as [JobInHand, ...JobInHand[]]
      const indexes = indexesOf(job.job.data)
      try {
        if (indexes.length > 1) {
          this.#alone.shift()
          await this.#cutToOnes(job)
        } else if (others.length > 0) {
          this.#alone = [job]
          for (const other of others) await this.#cutToOnes(other)
        } else {
          while (this.#jobs.size > 0 && !this.#stopping) await shortly()
          // More may have come from a fetch that was under way.
          if (this.#alone.length > 1 || this.#stopping) continue
          this.#alone = []
          await this.#start(job)
          while (this.#jobs.size > 0 && !this.#stopping) await shortly()
        }
      } catch (error) {
        this.#log.warn({ err: (error as Error).message }, 'a sample could not be run alone')
      }
    }
    this.#runningAlone = false
    this.intake.oneByOne = true
    if (!this.#stopping) this.intake.paused = false
  }

  /** Gives a job back as jobs of one sample each, which count the same losses. */
  async #cutToOnes(job: JobInHand): Promise<void> {
    const { b, t } = job.job.data
    const ones = indexesOf(job.job.data).map((i): ChunkJob => ({ b, t, i: [i, i], l: job.losses }))
    await throughOutage(() => this.#requeue(job, ones), { forMs: 60_000 })
  }

  #now(): number {
    return Date.now() + this.#clockOffsetMs
  }
}

function shortly(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 20))
}

/** One sample's mistake is that sample's failure: thrown from here it would end the worker, and all that it holds. */
function runRule(batch: ActiveBatch, row: PendingSample): RewardOutcome {
  try {
    return batch.manager.runRule(toRewardSample(row), batch.spec.reward)
  } catch (error) {
    const detail = (error as Error).message
    return { ok: false, reason: 'function_error', detail, attempts: null }
  }
}

function toRewardSample(row: PendingSample): RewardSample {
  // The prompt is not read where nothing looks at it: by rules.
  const { prompt, response, groundTruth, extraInfo } = decodeTexts(row)
  return {
    dataSource: row.data_source,
    prompt,
    solutionStr: response,
    groundTruth,
    extraInfo,
  }
}
