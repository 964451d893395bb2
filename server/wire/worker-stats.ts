/** What a worker's row says of it; the pages read this. */
export interface WorkerStats {
  samplesPerSecond: number
  inFlight: number
  held: number
  room: number
  eventLoopP99Ms: number
  eventLoopMaxMs: number
  rssBytes: number
  scoredTotal: number
  failedTotal: number
  history: (number | null)[]
  /** Calls in flight and calls a second, by server id. */
  servers: Record<string, { inFlight: number; slots: number; requestsPerSecond: number }>
}
