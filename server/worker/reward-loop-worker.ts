import type { LeaseHolder } from '../cluster/lease-holder.ts'
import type { PostProcessed } from '../contract/post-processed.ts'
import type { SampleFailureReason } from '../contract/sample-reason.ts'
import { responseText } from '../contract/turn-text.ts'
import type { Logger } from '../log.ts'
import type {
  RewardContext,
  RewardManager,
  RewardOutcome,
  RewardSample,
  RewardTools,
} from '../rewards/managers/manager.ts'
import type { AttemptRecord } from '../router/router-types.ts'
import type { DatabaseClock } from '../store/clock.ts'
import type { Database } from '../store/database.ts'
import {
  type FetchedJob,
  FUNCTIONS_POOL,
  INTERACTIVE_POOL,
  indexesOf,
  type JobQueue,
  SANDBOX_POOL,
  SERVICES_POOL,
} from '../store/job-queue.ts'
import { stageStatement } from '../store/sql/flush.ts'
import type { StagedSample } from '../store/sql/post-process.ts'
import type { PendingSample, WholeGroup } from '../store/sql/worker-reads.ts'
import { decodeTexts } from '../store/stored-texts.ts'
import { activeTrace, SampleTrace } from '../trace-context.ts'
import { withTimeout } from '../with-timeout.ts'
import { type ActiveBatch, ActiveBatches } from './active-batches.ts'
import { ChunkReader } from './chunk-reader.ts'
import { ClaimedJob } from './claimed-job.ts'
import { Intake } from './intake.ts'
import { JobKeeper } from './job-keeper.ts'
import { Outage } from './outage.ts'
import { PostProcessing } from './post-processing.ts'
import { type EndedSample, ResultWriter } from './result-writer.ts'
import { afterCalls, checkedParts, recalledCalls, sampleEndOf } from './sample-end.ts'
import type { GateSlot } from './slot-gate.ts'
import { WorkerCounters } from './worker-counters.ts'

/** A sample fails as `worker_lost` after this number of workers died while they held it. */
const MAX_LOSSES = 3
/** Delay before a claim is written, ms. Most jobs end earlier and need no claim. */
const CLAIM_AFTER_MS = 250
/** Maximum time that rules run without a break, ms. Heartbeats and interactive samples run in the breaks. */
const SLICE_MS = 8

interface RuleTask {
  job: ClaimedJob
  batch: ActiveBatch
  sample: PendingSample
}

/**
 * Fetches chunks while it has capacity, scores their samples and passes the results to a writer.
 *
 *   fetched ──claim──▶ claimed ──every sample scored or failed──▶ committed ──▶ job completed
 *                         │ stopping: unfinished samples are requeued as a new job
 *                         │ died: heartbeats stop, and the job is delivered again with one more loss
 */
export class RewardLoopWorker {
  readonly #reader: ChunkReader
  readonly #tools: RewardTools
  readonly #log: Logger
  readonly #writer: ResultWriter
  /** Writer of interactive samples, which never wait for a flush of other samples. */
  readonly #urgentWriter: ResultWriter
  /** Writer of scores that wait for the post-processing of their group. */
  readonly #stagedWriter: ResultWriter
  readonly #post: PostProcessing
  readonly #clock: DatabaseClock
  readonly intake: Intake
  readonly counters = new WorkerCounters()
  readonly #batches: ActiveBatches
  readonly #keeper: JobKeeper
  readonly #outage: Outage
  readonly #leases: LeaseHolder
  readonly #jobs = new Set<ClaimedJob>()
  readonly #rules: RuleTask[] = []
  #ruleLoop = false
  /** Jobs whose samples were lost with two workers. They wait here until they run alone or are requeued. */
  #alone: ClaimedJob[] = []
  #runningAlone = false
  #running = 0
  #stopping = false

  constructor(options: {
    id: number
    db: Database
    queue: JobQueue
    tools: RewardTools
    leases: LeaseHolder
    slotsOf: (model: string) => number
    fairShareOf: (model: string) => number
    wantSlots: (model: string) => void
    functionCapacity: () => number
    limiterCapacity: (pool: string) => number
    clock: DatabaseClock
    onUrgentCommitted: ((samples: EndedSample[]) => void) | null
    log: Logger
  }) {
    this.#reader = new ChunkReader(options.db)
    this.#tools = options.tools
    this.#leases = options.leases
    this.#batches = new ActiveBatches(options.db, options.leases)
    this.#keeper = new JobKeeper(options.db, options.queue, options.id, options.log)
    this.#log = options.log
    this.#clock = options.clock
    const heard = {
      onOutage: (error: unknown) => this.#outage.begin(error),
      onWritten: () => this.#outage.end(),
      onSettled: () => this.intake.written(),
    }
    const writer = (extra: object = {}) =>
      new ResultWriter(options.db, options.id, options.log, { ...heard, ...extra })
    this.#writer = writer()
    this.#urgentWriter = writer({ onCommitted: options.onUrgentCommitted })
    this.#stagedWriter = writer({ statement: stageStatement })
    this.#outage = new Outage(options.log, (isAway) => {
      this.intake.halted = isAway
      if (!this.#stopping) options.leases.paused = isAway
    })
    const { db, queue, tools, id: workerId, log } = options
    this.#post = new PostProcessing({ db, queue, tools, workerId, log })
    this.intake = new Intake(
      options.queue,
      {
        slotsOf: options.slotsOf,
        fairShareOf: options.fairShareOf,
        wantSlots: options.wantSlots,
        functionCapacity: options.functionCapacity,
        limiterCapacity: options.limiterCapacity,
        unwritten: () => this.#unwritten,
        take: (pool, job, fetchedAtMs) => this.#take(pool, job, fetchedAtMs),
      },
      options.log,
    )
  }

  get inFlight(): number {
    return this.#running
  }

  get #unwritten(): number {
    return this.#writer.unwritten + this.#urgentWriter.unwritten + this.#stagedWriter.unwritten
  }

  jobsByPool(): Map<string, { id: string; retryCount: number }[]> {
    const out = new Map<string, { id: string; retryCount: number }[]>()
    for (const job of [...this.#jobs, ...this.#alone]) {
      if (job.isGivenUp) continue
      const list = out.get(job.pool) ?? []
      list.push(job.attempt)
      out.set(job.pool, list)
    }
    return out
  }

  batchEnded(batchId: number): void {
    this.#batches.ended(batchId)
  }

  /**
   * Gives up the jobs fetched before `atMs` (on the clock of `performance.now()`), after this process was declared dead
   * and its jobs were requeued. Cancels the calls of these jobs, because other workers repeat them. Results that wait
   * for a flush are still written.
   */
  giveUpJobs(atMs: number): void {
    const givenUp = [...this.#jobs, ...this.#alone].filter(
      (job) => !job.isGivenUp && job.fetchedAtMs < atMs,
    )
    if (givenUp.length === 0) return
    this.#log.warn({ jobs: givenUp.length }, 'declared dead after a pause; its jobs are given up')
    for (const job of givenUp) {
      job.isGivenUp = true
      // `#drop` removes only started jobs. A job that waits in `#alone` is removed by `#runAlone`.
      this.#drop(job)
      job.abort.abort()
    }
  }

  /**
   * Stops fetching jobs and dispatching samples, waits at most `drainMs` for those in flight, then writes finished samples
   * and requeues the rest within `writeMs`. A job that could not be requeued stays active; the sweep of dead workers or a
   * lapsed heartbeat redelivers it.
   */
  async stop(drainMs: number, writeMs: number): Promise<void> {
    this.#stopping = true
    this.intake.close()
    // Samples that wait for a slot are requeued, because a call sent now may have to be repeated by another worker.
    this.#leases.paused = true
    const drainedAtMs = performance.now() + drainMs
    while (this.#isBusy && performance.now() < drainedAtMs) await shortly()
    const untilMs = performance.now() + writeMs
    const givenUp = [...this.#jobs]
    const rest = new Map<ClaimedJob, number[]>()
    for (const job of givenUp) {
      // Late results of these samples no longer count here and do not complete the job.
      job.isGivenUp = true
      rest.set(job, job.isRead ? [...job.open] : (job.job.data.g ?? indexesOf(job.job.data)))
      job.open.clear()
    }
    const writers = [this.#writer, this.#urgentWriter, this.#stagedWriter]
    await withTimeout(Promise.all(writers.map((writer) => writer.drain())), writeMs / 2)
    await Promise.all([
      ...givenUp.map((job) => {
        // A result not committed by now may be lost with this process.
        const left = [...(rest.get(job) as number[]), ...job.uncommitted].sort((a, b) => a - b)
        return this.#requeue(job, left, untilMs)
      }),
      ...this.#alone.map((job) => this.#requeue(job, indexesOf(job.job.data), untilMs)),
    ])
    await withTimeout(this.#keeper.flush(), Math.max(0, untilMs - performance.now()))
  }

  /** True while a call to a reward model, function, service or sandbox is running. */
  get #isBusy(): boolean {
    if (this.#leases.callsInFlight > 0) return true
    const calls = [FUNCTIONS_POOL, SERVICES_POOL, SANDBOX_POOL]
    return this.#running > 0 && [...this.#jobs].some(({ pool }) => calls.includes(pool))
  }

  async #requeue(job: ClaimedJob, indexes: number[], untilMs: number): Promise<void> {
    if (indexes.length === 0) {
      if (!job.unwritten) this.#keeper.completed(job)
      return
    }
    await this.#keeper
      .requeue(job, indexes, Math.max(0, untilMs - performance.now()))
      .catch((error: Error) =>
        this.#log.warn(
          { err: error.message, samples: indexes.length },
          'unfinished samples were not returned to the queue; their heartbeat will lapse',
        ),
      )
  }

  #take(pool: string, job: FetchedJob, fetchedAtMs: number): void {
    const claimed = new ClaimedJob(job, pool, fetchedAtMs)
    if (job.data.g !== undefined) {
      void this.#startPost(claimed, job.data.g)
      return
    }
    if (claimed.losses >= MAX_LOSSES - 1) {
      this.#alone.push(claimed)
      this.#keeper.claim(claimed, indexesOf(job.data))
      this.intake.paused = true
      void this.#runAlone()
      return
    }
    this.intake.oneByOne = false
    void this.#start(claimed)
  }

  /** Counts samples and characters that a job adds to the intake (positive) or removes from it (negative). */
  #count(job: ClaimedJob, samples: number, chars: number): void {
    job.counted.samples += samples
    job.counted.chars += chars
    this.intake.count(job.pool, samples, chars)
  }

  async #start(job: ClaimedJob): Promise<void> {
    const indexes = indexesOf(job.job.data)
    this.#jobs.add(job)
    this.#count(job, indexes.length, 0)
    try {
      // The job is claimed immediately, because samples that were lost with one worker may kill this one too.
      if (job.losses > 0) {
        if (job.claim === null) this.#keeper.claim(job, indexes)
      } else job.claimTimer = setTimeout(() => this.#keeper.claim(job, indexes), CLAIM_AFTER_MS)
      const batch = await this.#enter(job)
      const groups = batch?.manager.runGroup
        ? await this.#reader.readGroups(batch.spec, job.job.data.i)
        : null
      const rows = groups
        ? groups.flatMap(({ members, pending }) => members.filter(({ idx }) => pending.has(idx)))
        : batch
          ? await this.#samplesOf(job, batch)
          : []
      if (job.isGivenUp) return
      let chars = 0
      for (const row of rows) {
        chars += row.response.length + (row.prompt?.length ?? 0)
        job.open.add(row.idx)
      }
      job.isRead = true
      this.#count(job, rows.length - indexes.length, chars)
      if (!batch || rows.length === 0) {
        this.#finishJob(job)
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
            `${job.losses} workers died while they held the sample`,
          )
      } else if (groups) {
        for (const group of groups) void this.#scoreGroup(job, entered, group)
      } else if (batch.spec.reward.kind === 'rule') {
        const tasks = rows.map((sample) => ({ job, batch: entered, sample }))
        if (job.pool === INTERACTIVE_POOL) this.#rules.unshift(...tasks)
        else for (const task of tasks) this.#rules.push(task)
        this.#running += rows.length
        this.#runRules()
      } else {
        for (const row of rows) void this.#score(job, entered, row)
      }
    } catch (error) {
      // Requeueing is faster than waiting for missed heartbeats.
      this.#log.warn({ err: (error as Error).message }, 'chunk could not be read')
      if (job.isGivenUp) return
      this.#drop(job)
      await this.#keeper.requeue(job, indexes, 60_000).catch(() => {})
    }
  }

  async #enter(job: ClaimedJob): Promise<ActiveBatch | null> {
    job.batch = await this.#batches.enter(job)
    if (job.isGivenUp && job.batch) this.#batches.leave(job.batch, job)
    return job.batch
  }

  #drop(job: ClaimedJob): void {
    this.#jobs.delete(job)
    job.release()
    this.#count(job, -job.counted.samples, -job.counted.chars)
    job.open.clear()
    if (job.batch) this.#batches.leave(job.batch, job)
  }

  async #startPost(job: ClaimedJob, nos: readonly number[]): Promise<void> {
    this.#jobs.add(job)
    this.#count(job, nos.length, 0)
    // No sample of these groups is pending, so the claim names an index that no sample has.
    job.claimTimer = setTimeout(() => this.#keeper.claim(job, [-1]), CLAIM_AFTER_MS)
    try {
      const batch = await this.#enter(job)
      const groups = batch ? await this.#post.staged(batch.spec.id, nos) : new Map()
      if (job.isGivenUp) return
      for (const no of groups.keys()) job.open.add(no)
      job.isRead = true
      this.#count(job, job.open.size - nos.length, 0)
      await Promise.all(
        [...groups].map(([no, members]) =>
          this.#postProcess(job, batch as ActiveBatch, no, members),
        ),
      )
      if (job.open.size === 0) this.#finishJob(job)
    } catch (error) {
      this.#log.warn({ err: (error as Error).message }, 'groups could not be read')
      if (job.isGivenUp) return
      this.#drop(job)
      await this.#keeper.requeue(job, [...nos], 60_000).catch(() => {})
    }
  }

  async #postProcess(
    job: ClaimedJob,
    batch: ActiveBatch,
    no: number,
    members: StagedSample[],
  ): Promise<void> {
    this.#running++
    const startedAtMs = this.#now()
    const outcome: PostProcessed =
      job.losses >= MAX_LOSSES
        ? {
            ok: false,
            reason: 'worker_lost',
            detail: `${job.losses} workers died while they post-processed its group`,
          }
        : await this.#post.process(batch, job.abort.signal, members, startedAtMs)
    this.#running--
    // The call was cancelled because this process stops; another worker repeats it.
    if (this.#stopping && !outcome.ok && outcome.reason === 'cancelled') return
    if (!job.open.has(no)) return
    const call = { startedAtMs, serviceMs: Math.max(0, this.#now() - startedAtMs) }
    const written = await this.#post.finish(batch.spec.id, members, outcome, call)
    if (written === null) job.unwritten = true
    if (job.open.delete(no)) this.#count(job, -1, 0)
  }

  async #samplesOf(job: ClaimedJob, batch: ActiveBatch): Promise<PendingSample[]> {
    const inline = job.losses === 0 ? job.job.data.s : undefined
    if (inline !== undefined) return this.#reader.withImages(batch.spec, inline)
    return this.#reader.read(batch.spec, job.job.data.i)
  }

  #runRules(): void {
    if (this.#ruleLoop) return
    this.#ruleLoop = true
    const slice = () => {
      const until = performance.now() + SLICE_MS
      const mayGoOn = () => performance.now() < until && !this.#outage.isOn && !this.#stopping
      while (this.#rules.length > 0 && mayGoOn()) {
        const { job, batch, sample } = this.#rules.shift() as RuleTask
        this.#running--
        if (!job.open.has(sample.idx)) continue
        const startedAt = performance.now()
        const outcome: RewardOutcome = job.abort.signal.aborted
          ? { ok: false, reason: 'cancelled', detail: 'the batch ended', attempts: null }
          : runRule(batch, sample)
        const tookMs = performance.now() - startedAt
        this.#end(job, batch, sample, outcome, this.#now() - tookMs, tookMs)
      }
      if (this.#stopping) return
      if (this.#outage.isOn) void this.#outage.over().then(slice)
      else if (this.#rules.length > 0) setImmediate(slice)
      else this.#ruleLoop = false
    }
    setImmediate(slice)
  }

  /**
   * Waits for the end of an outage and for a slot of the batch's `maxConcurrency`. Returns null if this process stops,
   * or if the batch ended and the samples were failed. The returned `slot` is null for a batch without
   * `maxConcurrency`.
   */
  async #enterGate(
    job: ClaimedJob,
    batch: ActiveBatch,
    rows: readonly PendingSample[],
  ): Promise<{ slot: GateSlot | null } | null> {
    if (this.#outage.isOn) await this.#outage.over()
    if (this.#stopping) return null
    if (batch.gate === null) return { slot: null }
    const slot = await this.#batches.enterGate(batch.spec.id, batch.gate, job)
    if (this.#stopping) return null
    if (slot !== null) return { slot }
    for (const row of rows) this.#fail(job, batch, row, 'cancelled', 'the batch ended')
    return null
  }

  /**
   * Scores all members of a group in one call, which counts once toward the batch's `maxConcurrency`. Members that
   * are already scored or failed are passed too, but keep their results.
   */
  async #scoreGroup(job: ClaimedJob, batch: ActiveBatch, group: WholeGroup): Promise<void> {
    const { members, pending } = group
    const rows = members.filter(({ idx }) => pending.has(idx))
    const entered = await this.#enterGate(job, batch, rows)
    if (entered === null) return
    const { slot } = entered
    this.#running += rows.length
    const startedAt = this.#now()
    const clock = performance.now()
    const context = this.#contextOf(job, slot, batch, members[0] as PendingSample, startedAt)
    const outcomes = await (batch.manager.runGroup as NonNullable<RewardManager['runGroup']>)(
      members.map(toRewardSample),
      context,
    )
    this.#running -= rows.length
    slot?.leave()
    if (outcomes.some((outcome) => isRecalled(job, slot, outcome))) {
      return this.#scoreGroup(job, batch, group)
    }
    const tookMs = performance.now() - clock
    for (const [at, row] of members.entries()) {
      const outcome = outcomes[at] as RewardOutcome
      if (!pending.has(row.idx)) continue
      if (!outcome.ok && outcome.reason === 'cancelled' && this.#stopping) continue
      const waitedMs = outcome.waitedMs ?? 0
      this.#end(job, batch, row, outcome, startedAt + waitedMs, Math.max(0, tookMs - waitedMs))
    }
  }

  #contextOf(
    job: ClaimedJob,
    slot: GateSlot | null,
    batch: ActiveBatch,
    row: PendingSample,
    startedAt: number,
    calls = 0,
  ): RewardContext {
    const { reward, deadline_at, id, run, priority, trace } = batch.spec
    return {
      reward,
      ...this.#tools,
      signal: slot ? AbortSignal.any([job.abort.signal, slot.recalled]) : job.abort.signal,
      urgent: job.pool === INTERACTIVE_POOL,
      run,
      group: row.group_no == null ? undefined : `${id}:${row.group_no}`,
      key: `${row.idx}`,
      sampleId: `b${id}-${row.idx}`,
      priority,
      order: id,
      deadlineMs: deadline_at ? deadline_at.getTime() - startedAt : undefined,
      trace: trace === null ? undefined : new SampleTrace(trace, id, row.idx, calls),
    }
  }

  /**
   * Scores a sample.
   * @param earlier the sample's earlier calls, which were cancelled to give their slots to other processes
   */
  async #score(
    job: ClaimedJob,
    batch: ActiveBatch,
    row: PendingSample,
    earlier: readonly AttemptRecord[] = [],
  ): Promise<void> {
    const entered = await this.#enterGate(job, batch, [row])
    if (entered === null) return
    const { slot } = entered
    this.#running++
    const startedAt = this.#now()
    const clock = performance.now()
    const context = this.#contextOf(job, slot, batch, row, startedAt, earlier.length)
    const outcome = afterCalls(earlier, await runManager(batch, row, context))
    this.#running--
    slot?.leave()
    if (isRecalled(job, slot, outcome)) {
      return this.#score(job, batch, row, recalledCalls(outcome))
    }
    if (!outcome.ok && outcome.reason === 'cancelled' && this.#stopping) return
    const first = outcome.attempts?.[0]
    const dispatchedAt = first
      ? first.startedAtMs + this.#clock.offsetMs
      : startedAt + (outcome.waitedMs ?? 0)
    const waitedMs = dispatchedAt - startedAt
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
    job: ClaimedJob,
    batch: ActiveBatch,
    row: PendingSample,
    reason: SampleFailureReason,
    detail: string,
  ): void {
    this.#end(job, batch, row, { ok: false, reason, detail, attempts: null }, this.#now(), 0)
  }

  #end(
    job: ClaimedJob,
    batch: ActiveBatch,
    row: PendingSample,
    given: RewardOutcome,
    dispatchedAtMs: number,
    scoreMs: number,
  ): void {
    // Callbacks that run after the flush must not capture `row`, whose texts would stay in memory.
    const index = row.idx
    // The sample was requeued, or already has a result.
    if (!job.open.delete(index)) return
    job.uncommitted.add(index)
    const outcome = checkedParts(given, () => decodeTexts(row).response)
    const acceptedAtMs = job.job.data.t
    this.counters.ended(outcome, { queueMs: dispatchedAtMs - acceptedAtMs, scoreMs })
    const chars = row.response.length + (row.prompt?.length ?? 0)
    const urgent = job.pool === INTERACTIVE_POOL
    const isPost = batch.spec.reward.postProcess !== undefined
    const isStaged = isPost && outcome.ok
    const writer = isStaged ? this.#stagedWriter : urgent ? this.#urgentWriter : this.#writer
    writer.add(
      {
        batchId: batch.spec.id,
        index,
        ...sampleEndOf(outcome, batch.spec.reward, {
          acceptedAtMs,
          dispatchedAtMs,
          scoreMs,
          clockOffsetMs: this.#clock.offsetMs,
        }),
        settled: (written) => {
          job.uncommitted.delete(index)
          if (!written) job.unwritten = true
          if (isPost) this.#post.wake(batch.spec.id)
          if (job.done) this.#finishJob(job)
        },
      },
      urgent,
    )
    this.#count(job, -1, -chars)
  }

  #finishJob(job: ClaimedJob): void {
    if (job.isGivenUp || !this.#jobs.delete(job)) return
    job.release()
    if (job.batch) this.#batches.leave(job.batch, job)
    // A job with unwritten results is not completed, so its heartbeat lapses and its pending samples are scored
    // again, with one more loss.
    if (job.unwritten) return
    this.#keeper.completed(job)
  }

  /**
   * Runs samples that were lost twice as jobs of one sample, each alone in this process, so that a sample that kills
   * its worker affects no other. Further jobs of such samples are requeued, because they could be lost once more
   * while they wait here, and then fail as `worker_lost` although they did no harm.
   */
  async #runAlone(): Promise<void> {
    if (this.#runningAlone) return
    this.#runningAlone = true
    while (!this.#stopping) {
      this.#alone = this.#alone.filter((job) => !job.isGivenUp)
      const [job, ...others] = this.#alone
      if (job === undefined) break
      const indexes = indexesOf(job.job.data)
      try {
        if (indexes.length > 1) {
          this.#alone.shift()
          await this.#keeper.splitToSingles(job)
        } else if (others.length > 0) {
          this.#alone = [job]
          for (const other of others) await this.#keeper.splitToSingles(other)
        } else {
          while (this.#jobs.size > 0 && !this.#stopping) await shortly()
          // A running fetch may have added more jobs.
          if (this.#alone.length > 1 || this.#stopping || job.isGivenUp) continue
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

  #now(): number {
    return this.#clock.nowMs()
  }
}

function shortly(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 20))
}

function runManager(
  { manager }: ActiveBatch,
  row: PendingSample,
  context: RewardContext,
): Promise<RewardOutcome> {
  const { trace } = context
  if (trace === undefined) return manager.run(toRewardSample(row), context)
  return activeTrace.run(trace, () => manager.run(toRewardSample(row), context))
}

function runRule(batch: ActiveBatch, row: PendingSample): RewardOutcome {
  try {
    return batch.manager.runRule(toRewardSample(row), batch.spec.reward)
  } catch (error) {
    const detail = (error as Error).message
    return { ok: false, reason: 'function_error', detail, attempts: null }
  }
}

/**
 * Whether a call was cancelled because other processes may use its slot. Such a call is repeated with the next slot.
 */
function isRecalled(job: ClaimedJob, slot: GateSlot | null, outcome: RewardOutcome): boolean {
  const isCancelled = !outcome.ok && outcome.reason === 'cancelled'
  return isCancelled && slot?.recalled.aborted === true && !job.abort.signal.aborted
}

function toRewardSample(row: PendingSample): RewardSample {
  // The prompt is empty for rules, which do not use it.
  const { prompt, response, groundTruth, extraInfo } = decodeTexts(row)
  return {
    dataSource: row.data_source,
    prompt,
    solutionStr: responseText(response),
    ...(typeof response === 'string' ? {} : { messages: response }),
    groundTruth,
    extraInfo,
    responseLength: row.response_length ?? null,
  }
}
