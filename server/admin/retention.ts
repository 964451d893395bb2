import { setTimeout as sleep } from 'node:timers/promises'
import {
  DEFAULT_POLICY,
  MAX_LISTED_REMOVALS,
  type RemovedDto,
  type RetentionDto,
  type RetentionJobDto,
  RetentionPolicy,
  type RetentionPreviewDto,
} from '../contract/retention.ts'
import { RewardOpsError, runNotFound } from '../errors.ts'
import type { Logger } from '../log.ts'
import { type Client, type Database, isOutage } from '../store/database.ts'
import { PeriodicTask } from '../store/periodic-task.ts'
import { insertAudit } from '../store/sql/audit.ts'
import {
  beginJob,
  cancelJob,
  deletePiece,
  dropDay,
  endJob,
  hasPendingRemoval,
  jobById,
  keepRun,
  keptRuns,
  lockRemover,
  markPiece,
  newestJobs,
  noteProblem,
  previewBatches,
  previewDays,
  previewEvents,
  previewImages,
  pruneEvents,
  type RemovalOf,
  type RetentionJobRow,
  runForDeletion,
  runningJob,
  sinceLastPolicyJob,
  unmark,
} from '../store/sql/retention.ts'
import { readSetting, writeSetting } from '../store/sql/settings.ts'

const TICK_MS = 2_000
const POLICY_EVERY_MS = 3_600_000
/**
 * Minimum pause after a transaction. The pause after a longer transaction is as long as the transaction, so that half
 * of the disk time is left for scoring.
 */
const PAUSE_MS = 10
/** Pause after a failed transaction, for example one that waited too long for a lock. */
const RETRY_MS = 1_000
const MAX_EVENTS = 100_000
const MAX_DAYS = 400
const MAX_KEPT = 1_000
const POLICY = 'retention'

/**
 * Removes old data or a run. It first marks the batches, so that pages show the removal immediately, and then deletes
 * in transactions of about 2,000 rows. Only one process at a time removes data. If that process crashes, another
 * process continues.
 *
 *   policy or run ─▶ running ─mark─▶ drop days ─▶ delete rows ─▶ prune events ─▶ done
 *                       └──cancel──▶ cancelled (batches whose removal has not begun are kept)
 */
export class Retention {
  readonly #db: Database
  readonly #log: Logger
  readonly #task: PeriodicTask
  /** The id of the removal whose batches are all marked, or null if there is none. */
  #marked: number | null = null
  #lookAgainAtMs = 0

  constructor(db: Database, log: Logger, isTurn?: () => Promise<boolean>) {
    this.#db = db
    this.#log = log
    this.#task = new PeriodicTask({
      everyMs: TICK_MS,
      failed: 'removal failed',
      log,
      isTurn,
      work: () => this.#work(),
    })
  }

  start(): void {
    this.#task.start()
  }

  async stop(): Promise<void> {
    await this.#task.stop()
  }

  async get(): Promise<RetentionDto> {
    const [setting, kept, jobs] = await Promise.all([
      readSetting<RetentionPolicy>(this.#db, POLICY),
      keptRuns(this.#db, MAX_KEPT),
      newestJobs(this.#db, MAX_LISTED_REMOVALS),
    ])
    return {
      policy: setting === undefined ? DEFAULT_POLICY : RetentionPolicy.parse(setting.value),
      changedAt: setting?.changed_at.toISOString() ?? null,
      changedBy: setting?.changed_by ?? null,
      kept: kept.map((row) => ({
        run: row.run,
        keptAt: row.kept_at.toISOString(),
        keptBy: row.kept_by,
      })),
      jobs: jobs.map(toDto),
    }
  }

  async set(policy: RetentionPolicy, by: string): Promise<RetentionDto> {
    await writeSetting(this.#db, POLICY, policy, by)
    return this.get()
  }

  /** The data that a removal would delete now. @throws RewardOpsError `run_not_found` */
  async preview(of: RemovalOf): Promise<RetentionPreviewDto> {
    if ('run' in of && (await runForDeletion(this.#db, of.run)) === undefined)
      throw runNotFound(of.run)
    const [row, days, images, events] = await Promise.all([
      previewBatches(this.#db, of),
      previewDays(this.#db, of, MAX_DAYS),
      previewImages(this.#db, of),
      'policy' in of ? previewEvents(this.#db, of.policy, MAX_EVENTS) : 0,
    ])
    const whole = days.filter((day) => day.whole && day.bytes > 0)
    const shares = days.map((day) =>
      day.whole || day.there === 0 ? 0 : (day.bytes * day.samples) / day.there,
    )
    const rows = row.samples_there === 0 ? 0 : (row.sample_bytes * row.samples) / row.samples_there
    return {
      batches: row.batches,
      samples: row.samples,
      textBatches: row.text_batches,
      partitions: whole.length,
      events,
      eventsCapped: events >= MAX_EVENTS,
      freedBytes: sum(whole.map((day) => day.bytes)),
      reusableBytes: Math.round(sum(shares) + images + rows),
      skipped: { kept: row.kept, underWay: row.under_way },
      days: days.map(({ day, batches, bytes, whole }) => ({ day, batches, bytes, whole })),
    }
  }

  /** Applies the policy now. @throws RewardOpsError `removal_under_way` */
  async apply(by: string): Promise<RetentionJobDto> {
    const { policy } = await this.get()
    const { batches, samples, textBatches } = await this.preview({ policy })
    return this.#begin({
      kind: 'policy',
      run: null,
      last_batch_id: null,
      requested_by: by,
      policy,
      progress: { expected: { batches: batches + textBatches, samples } },
    })
  }

  /**
   * Deletes a run with all its data.
   * @throws RewardOpsError `not_confirmed`, `run_not_found`, `run_busy`, `removal_under_way`
   */
  async deleteRun(run: string, confirm: string, by: string): Promise<RetentionJobDto> {
    if (confirm !== run) {
      throw new RewardOpsError(
        'not_confirmed',
        `"${confirm}" is not the name of the run to be deleted.`,
      )
    }
    const found = await runForDeletion(this.#db, run)
    if (found === undefined) throw runNotFound(run)
    if (found.busy > 0) {
      throw new RewardOpsError(
        'run_busy',
        `"${run}" has batches that have not ended or are being rescored: ${found.busy}.`,
      )
    }
    return this.#begin({
      kind: 'run',
      run,
      last_batch_id: found.last_id ?? 0,
      requested_by: by,
      policy: null,
      progress: { expected: { batches: found.batches, samples: found.samples } },
    })
  }

  async keepRun(run: string, keep: boolean, by: string): Promise<RetentionDto> {
    if (keep && (await runForDeletion(this.#db, run)) === undefined) throw runNotFound(run)
    await keepRun(this.#db, run, keep, by)
    return this.get()
  }

  /** Cancels a removal. Batches that it has not begun to remove are kept. A finished removal is unchanged. */
  async cancel(id: string): Promise<RetentionJobDto> {
    const number = Number(id.slice(1))
    await this.#db.transaction(async (client) => {
      if (await cancelJob(client, number)) await unmark(client, number)
    })
    const job = await jobById(this.#db, number)
    if (job === undefined) throw new RewardOpsError('not_found', `There is no removal ${id}.`)
    return toDto(job)
  }

  async settle(): Promise<void> {
    while (!this.#task.stopping && (await hasPendingRemoval(this.#db))) await this.#task.run()
  }

  async #begin(job: Parameters<typeof beginJob>[1]): Promise<RetentionJobDto> {
    const row = await beginJob(this.#db, job)
    if (row === undefined) {
      throw new RewardOpsError('removal_under_way', 'A removal is already running.')
    }
    void this.#task.run()
    return toDto(row)
  }

  async #work(): Promise<void> {
    await this.#applyWhenDue()
    if (!(await hasPendingRemoval(this.#db))) return
    await this.#pieces()
  }

  /** Removes data in many short transactions, because exports share the pool's only connection. */
  async #pieces(): Promise<void> {
    let noted: string | null = null
    while (!this.#task.stopping) {
      const begunAt = performance.now()
      let job: RetentionJobRow | undefined
      try {
        const done = await this.#db.transaction(async (client) => {
          if (!(await lockRemover(client))) return true
          job = await runningJob(client)
          return !(await this.#piece(client, job))
        })
        if (done) return
        if (noted !== null && job !== undefined) await noteProblem(this.#db, job.id, null)
        noted = null
      } catch (error) {
        if (isOutage(error)) throw error
        const { message } = error as Error
        this.#log.warn({ err: message }, 'a transaction of a removal failed and is retried')
        if (job !== undefined && message !== noted) await noteProblem(this.#db, job.id, message)
        noted = message
        await sleep(RETRY_MS)
        continue
      }
      await sleep(Math.max(PAUSE_MS, performance.now() - begunAt))
    }
  }

  /** Marks or removes the rows of one transaction; returns false if nothing is left. */
  async #piece(client: Client, job: RetentionJobRow | undefined): Promise<boolean> {
    if (job !== undefined && job.id !== this.#marked) {
      if (await markPiece(client, job)) return true
      // All batches were checked. The next removal covers batches that become old later.
      this.#marked = job.id
    }
    if (await dropDay(client)) return true
    if (await deletePiece(client)) return true
    if (job === undefined) return false
    if (await pruneEvents(client, job)) return true
    await endJob(client, job)
    const { expected: _, ...removed } = job.progress
    await insertAudit(client, {
      // The user who deleted the run or applied the policy, or `policy` if the policy was applied automatically.
      actor: job.requested_by,
      role: 'admin',
      action: 'retention.removed',
      target: job.run ?? 'data older than the retention policy',
      changes: Object.entries(removed).map(([field, value]) => ({
        field,
        from: null,
        to: String(value),
      })),
    })
    return true
  }

  async #applyWhenDue(): Promise<void> {
    const sinceMs = await sinceLastPolicyJob(this.#db)
    if (sinceMs !== null && sinceMs < POLICY_EVERY_MS) return
    if (performance.now() < this.#lookAgainAtMs) return
    this.#lookAgainAtMs = performance.now() + POLICY_EVERY_MS / 12
    const { policy } = await this.get()
    const { textsDays, batchesDays, eventsDays, auditDays } = policy
    if ([textsDays, batchesDays, eventsDays, auditDays].every((days) => days === null)) return
    const { batches, textBatches, events } = await this.preview({ policy })
    if (batches + textBatches + events === 0) return
    await this.apply('policy').catch((error) => {
      if (error.reason !== 'removal_under_way') throw error
    })
  }
}

function toDto(row: RetentionJobRow): RetentionJobDto {
  const { expected = null, ...removed } = row.progress
  const none: RemovedDto = {
    batches: 0,
    samples: 0,
    textBatches: 0,
    partitions: 0,
    events: 0,
    freedBytes: 0,
    reusableBytes: 0,
  }
  return {
    id: `r${row.id}`,
    kind: row.kind,
    run: row.run,
    state: row.state,
    requestedBy: row.requested_by,
    createdAt: row.created_at.toISOString(),
    endedAt: row.ended_at?.toISOString() ?? null,
    removed: { ...none, ...removed },
    expected,
    problem: row.problem,
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0)
}
