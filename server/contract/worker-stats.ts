/** One server as one process sees it; the first three are always there. */
export interface WorkerServerStats {
  /** Calls in flight. */
  inFlight: number
  /** Of the server's limit, leased by this process. */
  slots: number
  requestsPerSecond: number
  /** What this process lets itself have in flight, found by measuring or given. */
  limit?: number
  health?: 'ok' | 'suspect' | 'ejected' | 'half_open' | 'slow_start'
  consecutiveFaults?: number
  /** Tokens a second it was seen to score; null: not seen yet. */
  tokensPerSecond?: number | null
  /** Since this process started: calls sent while another was out for the same sample, and times it was put out. */
  hedges?: number
  ejections?: number
  /** Samples of its model that wait for a slot in this process. */
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
