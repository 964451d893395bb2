import type { FetchedJob } from '../store/job-queue.ts'

/** A job this worker holds: which of its samples have not ended, and whether its claim still stands. */
export class ClaimedJob {
  readonly job: FetchedJob
  readonly pool: string
  /** Workers lost while holding these samples, this delivery not counted. */
  readonly losses: number
  readonly open = new Set<number>()
  /** `open` is filled: until then every sample of the job counts as unfinished. */
  isRead = false
  /** Writes the claim, unless the job is done first. */
  claimTimer: NodeJS.Timeout | undefined
  /** The claim on its way or written; null while there is none. */
  claim: Promise<unknown> | null = null
  /** Indexes of samples that are scored or failed, and not yet committed. */
  readonly uncommitted = new Set<number>()
  /** The database refused some of its results. */
  unwritten = false
  /** This worker stops: what is left of the job is another worker's, and nobody here completes it any more. */
  isGivenUp = false

  constructor(job: FetchedJob, pool: string) {
    this.job = job
    this.pool = pool
    this.losses = (job.data.l ?? 0) + job.retryCount
  }

  get done(): boolean {
    return !this.isGivenUp && this.open.size === 0 && this.uncommitted.size === 0
  }

  /** As pg-boss wants it: fenced to this delivery. */
  get attempt(): { id: string; retryCount: number } {
    return { id: this.job.id, retryCount: this.job.retryCount }
  }
}
