import type { FetchedJob } from '../store/job-queue.ts'

/** A job claimed by this worker, with its unfinished samples and the state of its claim. */
export class ClaimedJob {
  readonly job: FetchedJob
  readonly pool: string
  /** Number of workers that died with these samples, without this delivery. */
  readonly losses: number
  readonly open = new Set<number>()
  /** True once `open` is filled. Until then every sample of the job counts as unfinished. */
  isRead = false
  /** Timer that writes the claim unless the job ends first. */
  claimTimer: NodeJS.Timeout | undefined
  /** The claim's write, running or done; null: none was started. */
  claim: Promise<unknown> | null = null
  /** Indexes of ended samples whose results are not committed yet. */
  readonly uncommitted = new Set<number>()
  /** True when the database refused some of its results. */
  unwritten = false
  /** True once the stopping worker gave the job up; another worker completes it. */
  isGivenUp = false

  constructor(job: FetchedJob, pool: string) {
    this.job = job
    this.pool = pool
    this.losses = (job.data.l ?? 0) + job.retryCount
  }

  get done(): boolean {
    return !this.isGivenUp && this.open.size === 0 && this.uncommitted.size === 0
  }

  /** The job in pg-boss's form, fenced to this delivery. */
  get attempt(): { id: string; retryCount: number } {
    return { id: this.job.id, retryCount: this.job.retryCount }
  }
}
