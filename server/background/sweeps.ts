import type { Logger } from '../log.ts'
import type { Database } from '../store/database.ts'
import { dropUnusedFunctions } from '../store/functions.ts'
import type { JobQueue } from '../store/job-queue.ts'
import { eachInTurn, PeriodicTask } from '../store/periodic-task.ts'
import { rollUpEnded } from '../store/sql/batches.ts'
import {
  batchesPastDeadline,
  batchesToEnd,
  endAtDeadline,
  endUnfinished,
  halfClosedBatches,
  settleClosed,
  silentBatches,
} from '../store/sql/end-batch.ts'
import { postProcessedBatches, queuePostProcessing } from '../store/sql/post-process.ts'
import { deleteAbandonedCopies } from '../store/sql/rescore.ts'
import { pruneFleetHistory } from '../store/sql/server-reports.ts'
import { currentTextBucket } from '../store/text-partitions.ts'
import { Orphans } from './orphans.ts'
import { sweepDeadWorkers } from './worker-supervisor.ts'

const TICK_MS = 250
/** An implicit batch (created by `samples.score`) closes after this long without a new sample. */
export const IMPLICIT_SILENCE_MS = 60_000
/** Ticks in a second. */
const SECOND = 1_000 / TICK_MS
const ORPHANS_EVERY = 2 * SECOND
const UNSETTLED_EVERY = 5 * SECOND
const PARTITIONS_EVERY = 600 * SECOND

/** Periodic work on batches. Each step is safe to repeat and to run in two processes concurrently. */
export class Sweeps {
  readonly #db: Database
  readonly #queue: JobQueue
  readonly #log: Logger
  readonly #closeBatch: (id: number) => Promise<void>
  readonly #isRecovering: () => boolean
  readonly #task: PeriodicTask
  readonly #orphans: Orphans
  #ticks = 0

  constructor(options: {
    db: Database
    queue: JobQueue
    log: Logger
    closeBatch: (id: number) => Promise<void>
    isTurn?: () => Promise<boolean>
    /** True for some time after an outage of the database, while disconnected workers may still have to report. */
    isRecovering?: () => boolean
  }) {
    this.#db = options.db
    this.#queue = options.queue
    this.#log = options.log
    this.#closeBatch = options.closeBatch
    this.#isRecovering = options.isRecovering ?? (() => false)
    this.#orphans = new Orphans(options.db, options.queue, options.log)
    this.#task = new PeriodicTask({
      everyMs: TICK_MS,
      failed: 'sweep failed',
      log: options.log,
      isTurn: options.isTurn,
      work: () => this.#tick(),
    })
  }

  get orphanedSamples(): number {
    return this.#orphans.returned
  }

  start(): void {
    this.#task.start()
  }

  async stop(): Promise<void> {
    await this.#task.stop()
  }

  /**
   * Runs the steps that are due. A step that fails, for one batch or for all, does not delay the other steps and
   * batches.
   */
  async #tick(): Promise<void> {
    const tick = this.#ticks++
    const steps: (() => Promise<unknown>)[] = [
      () => this.#endPastDeadlines(),
      () => rollUpEnded(this.#db),
    ]
    if (tick % SECOND === 0) {
      steps.push(
        () => this.#closeSilent(),
        () => this.#requeueOfDeadWorkers(),
        () => this.#queuePostProcessing(),
      )
    }
    if (tick % ORPHANS_EVERY === 0) steps.push(() => this.#orphans.sweep())
    if (tick % UNSETTLED_EVERY === 0) {
      steps.push(
        () => this.settleHalfDone(),
        () => this.#deleteAbandonedCopies(),
      )
    }
    if (tick % PARTITIONS_EVERY === 0) {
      steps.push(
        () => dropUnusedFunctions(this.#db.pool),
        () => pruneFleetHistory(this.#db),
        () => currentTextBucket(this.#db, 0),
        () => currentTextBucket(this.#db, 1),
      )
    }
    await eachInTurn(steps, (step) => step())
  }

  async #requeueOfDeadWorkers(): Promise<void> {
    const isRecovering = this.#isRecovering()
    const samples = await sweepDeadWorkers(this.#db, this.#queue, isRecovering)
    if (!isRecovering) await this.#queue.supervise()
    if (samples > 0) this.#log.warn({ samples }, 'samples of dead workers returned to the queue')
  }

  async #queuePostProcessing(): Promise<void> {
    await eachInTurn(await postProcessedBatches(this.#db), (id) =>
      queuePostProcessing(this.#db, this.#queue, id),
    )
  }

  async #endPastDeadlines(): Promise<void> {
    await eachInTurn(await batchesPastDeadline(this.#db), (id) => endAtDeadline(this.#db, id))
  }

  /**
   * Deletes the rows that interrupted rescores copied. It deletes them in chunks, for at most about `TICK_MS`, so that
   * batch deadlines do not wait until a million rows are deleted.
   */
  async #deleteAbandonedCopies(): Promise<void> {
    const until = performance.now() + TICK_MS
    while ((await deleteAbandonedCopies(this.#db)) && performance.now() < until);
  }

  async #closeSilent(): Promise<void> {
    await eachInTurn(await silentBatches(this.#db, IMPLICIT_SILENCE_MS), this.#closeBatch)
  }

  /**
   * Finishes closings, cancellations and failures that a crash interrupted: the batch is marked, but its
   * groups are not settled.
   */
  async settleHalfDone(): Promise<void> {
    const steps = [
      async () => eachInTurn(await batchesToEnd(this.#db), (id) => endUnfinished(this.#db, id)),
      async () => eachInTurn(await halfClosedBatches(this.#db), (id) => settleClosed(this.#db, id)),
    ]
    await eachInTurn(steps, (step) => step())
  }
}
