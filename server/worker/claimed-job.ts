import type { FetchedJob } from '../store/job-queue.ts'
import type { ActiveBatch } from './active-batches.ts'

export class ClaimedJob {
  readonly job: FetchedJob
  readonly pool: string
  /** Number of workers that claimed these samples and died. */
  readonly losses: number
  /** Indexes of the unfinished samples; for post-processing, numbers of the unfinished groups. */
  readonly open = new Set<number>()
  /** True once `open` is filled. Until then every sample of the job counts as unfinished. */
  isRead = false
  /** Timer that writes the claim unless the job ends first. */
  claimTimer: NodeJS.Timeout | undefined
  /** The write of the claim, running or done, or null if none was started. */
  claim: Promise<unknown> | null = null
  /** True once this worker is done with the job, so that the job is not claimed again. */
  isReleased = false
  /** Indexes of scored or failed samples whose results are not committed yet. */
  readonly uncommitted = new Set<number>()
  /** True if the database refused some of the job's results. */
  unwritten = false
  /** True once this worker, which is stopping or was declared dead, gave up the job. Another worker completes it. */
  isGivenUp = false
  /** Samples and characters of the job that the intake counts. */
  counted = { samples: 0, chars: 0 }
  /** The batch of the job; null until the batch is loaded. */
  batch: ActiveBatch | null = null
  readonly abort = new AbortController()
  /** Time when the fetch of the job was sent, on the clock of `performance.now()`. */
  readonly fetchedAtMs: number

  constructor(job: FetchedJob, pool: string, fetchedAtMs: number) {
    this.job = job
    this.pool = pool
    this.fetchedAtMs = fetchedAtMs
    this.losses = (job.data.l ?? 0) + job.retryCount
  }

  get done(): boolean {
    return !this.isGivenUp && this.open.size === 0 && this.uncommitted.size === 0
  }

  /** Stops claiming the job: a delayed claim is not written, and a failed one is not retried. */
  release(): void {
    this.isReleased = true
    clearTimeout(this.claimTimer)
  }

  /** The id and retry count by which pg-boss identifies this delivery of the job. */
  get attempt(): { id: string; retryCount: number } {
    return { id: this.job.id, retryCount: this.job.retryCount }
  }
}
