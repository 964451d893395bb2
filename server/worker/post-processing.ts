import type { PostProcessed } from '../contract/post-processed.ts'
import type { Logger } from '../log.ts'
import { postProcessGroup } from '../rewards/functions/group-calls.ts'
import type { RewardTools } from '../rewards/managers/manager.ts'
import { callOptions } from '../rewards/scoring/by-function.ts'
import type { Database } from '../store/database.ts'
import type { JobQueue } from '../store/job-queue.ts'
import {
  finishStaged,
  type PostProcessingCall,
  queuePostProcessing,
  type StagedSample,
  stagedSamples,
} from '../store/sql/post-process.ts'
import type { ActiveBatch } from './active-batches.ts'

/** Delay before a search for ready groups, ms. One search then finds all groups completed during the delay. */
const WAKE_MS = 30
/** Pause after a search for ready groups, as a multiple of its duration, because a search scans the whole batch. */
const PAUSE = 10

/**
 * Post-processes groups: searches a batch for ready groups after some of its samples were scored or failed, and
 * processes the groups whose jobs this worker has claimed.
 *
 *   scored, staged ──whole group scored or failed──▶ queued ──processed──▶ scored, group complete
 *                                          │ the worker died: the job is delivered again
 *                                          │ the batch ended: its samples fail
 */
export class PostProcessing {
  readonly #db: Database
  readonly #queue: JobQueue
  readonly #tools: RewardTools
  readonly #workerId: number
  readonly #log: Logger
  readonly #awake = new Map<number, { again: boolean }>()

  constructor(options: {
    db: Database
    queue: JobQueue
    tools: RewardTools
    workerId: number
    log: Logger
  }) {
    this.#db = options.db
    this.#queue = options.queue
    this.#tools = options.tools
    this.#workerId = options.workerId
    this.#log = options.log
  }

  /** Searches the batch for ready groups soon. If the search fails, a sweep of the service repeats it. */
  wake(batchId: number): void {
    const looking = this.#awake.get(batchId)
    if (looking) {
      looking.again = true
      return
    }
    this.#awake.set(batchId, { again: false })
    setTimeout(() => void this.#look(batchId), WAKE_MS).unref()
  }

  async #look(batchId: number): Promise<void> {
    const looking = this.#awake.get(batchId) as { again: boolean }
    looking.again = false
    const begun = performance.now()
    await queuePostProcessing(this.#db, this.#queue, batchId).catch((error: Error) =>
      this.#log.debug({ err: error.message }, 'groups to post-process were not read'),
    )
    const pauseMs = Math.max(WAKE_MS, PAUSE * (performance.now() - begun))
    setTimeout(() => {
      if (looking.again) void this.#look(batchId)
      else this.#awake.delete(batchId)
    }, pauseMs).unref()
  }

  async staged(batchId: number, groups: readonly number[]): Promise<Map<number, StagedSample[]>> {
    const rows = await stagedSamples(this.#db, batchId, groups)
    return Map.groupBy(rows, (row) => row.group_no)
  }

  /** Runs the post-processing function on a group. `nowMs` is on the database's clock. */
  async process(
    batch: ActiveBatch,
    signal: AbortSignal,
    members: readonly StagedSample[],
    nowMs: number,
  ): Promise<PostProcessed> {
    const { spec } = batch
    const { reward } = spec
    const [first] = members as [StagedSample]
    if (reward.postProcess === undefined) {
      return { ok: false, reason: 'function_error', detail: 'unknown post-processing function' }
    }
    const options = callOptions({
      reward,
      signal,
      run: spec.run,
      group: `${spec.id}:${first.group_no}`,
      key: `${first.idx}`,
      sampleId: `b${spec.id}-${first.idx}`,
      priority: spec.priority,
      deadlineMs: spec.deadline_at ? spec.deadline_at.getTime() - nowMs : undefined,
      urgent: false,
    })
    const group = {
      uid: first.uid,
      members: members.map((m) => ({
        index: m.idx,
        dataSource: m.data_source,
        score: m.staged_score,
        rewardExtraInfo: m.reward_extra ?? {},
      })),
    }
    return postProcessGroup(this.#tools.functions, reward.postProcess, group, options)
  }

  /**
   * Stores the results of the group's samples. Returns the number of samples that had no result before, or null if the
   * database refused the write.
   */
  async finish(
    batchId: number,
    members: readonly StagedSample[],
    outcome: PostProcessed,
    call: PostProcessingCall,
  ): Promise<number | null> {
    const indexes = members.map((member) => member.idx)
    try {
      return await finishStaged(this.#db, this.#workerId, batchId, indexes, outcome, call)
    } catch (error) {
      this.#log.error(
        { err: (error as Error).message, batch: `b${batchId}` },
        'a post-processed group could not be written',
      )
      return null
    }
  }
}
