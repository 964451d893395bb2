/** One server as one process sees it; the first three are always there. */
export interface WorkerServerStats {
  /** Calls in flight. */
  inFlight: number
  /** Of the server's limit, leased by this process. */
  slots: number
  requestsPerSecond: number
  /** The limit of this process, adaptive or set. */
  limit?: number
  health?: 'ok' | 'suspect' | 'ejected' | 'half_open' | 'slow_start'
  consecutiveFaults?: number
  /** Measured tokens per second; null: not measured yet. */
  tokensPerSecond?: number | null
  /** Hedged requests since this process started. */
  hedges?: number
  ejections?: number
  /** Samples that wait for a slot in this process. */
  waiting?: number
}

/** What a worker's row says of it; the pages read this. */
export interface WorkerStats {
  samplesPerSecond: number
  inFlight: number
  inUse: number
  capacity: number
  eventLoopP99Ms: number
  eventLoopMaxMs: number
  rssBytes: number
  scoredTotal: number
  failedTotal: number
  history: (number | null)[]
  /** By server id. */
  servers: Record<string, WorkerServerStats>
}
