/** A server as one process sees it. The first three fields are always set. */
export interface WorkerServerStats {
  inFlight: number
  /** Number of slots that this process leases from the server's limit. */
  slots: number
  requestsPerSecond: number
  /** Maximum number of requests in flight from this process, adaptive or set. */
  limit?: number
  health?: 'ok' | 'suspect' | 'ejected' | 'half_open' | 'slow_start'
  consecutiveFaults?: number
  /** Measured tokens per second; null if not measured yet. */
  tokensPerSecond?: number | null
  /** Hedged requests since this process started. */
  hedges?: number
  ejections?: number
  /** Samples that wait for a slot. */
  waiting?: number
}

/** Maximum number of listed workers. Live workers come before ended ones, and newer workers before older ones. */
export const MAX_LISTED_WORKERS = 200

/** The report of a worker process, as stored in its table row. */
export interface WorkerStats {
  samplesPerSecond: number
  inFlight: number
  /** Claimed samples that are neither scored nor failed yet. */
  inUse: number
  /** The current maximum of `inUse`. */
  capacity: number
  eventLoopP99Ms: number
  eventLoopMaxMs: number
  rssBytes: number
  scoredTotal: number
  failedTotal: number
  history: (number | null)[]
  /** The reason why the worker takes no jobs that need reward functions; null if it takes them. */
  functionProblem: string | null
  /** By server id. */
  servers: Record<string, WorkerServerStats>
}
