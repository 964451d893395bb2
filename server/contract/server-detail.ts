import type { ServerDto, ServerState } from './servers.ts'
import type { WorkerServerStats } from './worker-stats.ts'

/** A change in a server's state, in how one process sees the server, or in the server's launched process. */
export interface ServerEventDto {
  id: number
  /**
   * `state`: the state in the registry · `health`: the health as one process sees it · `process`: the launched process
   */
  kind: 'state' | 'health' | 'process'
  /** The earlier value; null for the event of the registration. */
  from: string | null
  to: string
  /** The cause, in words. */
  cause: string
  /** Measured values behind the change. */
  evidence: Record<string, unknown> | null
  at: string
}

/** Requests to a server in one minute, over all processes. */
export interface ServerMinuteDto {
  minute: string
  requests: number
  errors: number
  /** Requests for samples that had failed before. */
  retries: number
  hedges: number
  /** Responses with status 429 or 503. */
  busy: number
  /** Invalid responses. */
  corrupt: number
  /**
   * Requests that the server refused with a 4xx status, or answered with a reply that is empty or that a content filter
   * withheld.
   */
  client: number
  p50Ms: number | null
  p99Ms: number | null
}

/** A server's share of its pool's requests and capacity. */
export interface PoolShareDto {
  id: string
  name: string
  state: ServerState
  /** The server's share of the pool's requests over the last 10 minutes, 0–1; null if there were none. */
  requestShare: number | null
  /**
   * This server's share of the capacity of the pool's ready servers, 0–1. Capacity is tokens per second if it was
   * measured for all of them, otherwise weight × limit.
   */
  capacityShare: number
}

/** The server as one worker process sees it. */
export interface ServerWorkerDto extends WorkerServerStats {
  workerId: string
}

/**
 * Findings over the last ten minutes:
 * - `degraded`: ejected by a process, at least 5 % of its requests failed, or its median latency is at least 3 times
 *   that of its peers
 * - `black_hole`: its share of the requests is at least twice its share of the capacity, and at least half of its
 *   requests fail
 * - `tie_collapse`: at least three servers are equal in capacity, latency, errors and health, and this one gets over 60 %
 *   of their requests
 * - `sticky_retries`: retries return to the server that failed, while others are ready
 * - `masked_client_errors`: over 5 % of the requests are refused with a 4xx status, or answered with a withheld or
 *   empty reply
 * - `drift`: its scores differ from its earlier scores, or from the scores of its pool
 * - `squashed_scores`: its scores are not raw, or might not be raw
 */
export type MonitorKind =
  | 'degraded'
  | 'black_hole'
  | 'tie_collapse'
  | 'sticky_retries'
  | 'masked_client_errors'
  | 'drift'
  | 'squashed_scores'

/** A current finding of a monitor. */
export interface ServerMonitorDto {
  serverId: string
  serverName: string
  model: string
  kind: MonitorKind
  severity: 'warning' | 'error'
  /** The finding, with numbers. */
  text: string
}

/** Number of minutes in the charts of a server: an hour and the current minute. */
export const SHOWN_MINUTES = 61

/** The output of `servers.get`. */
export interface ServerDetailDto extends ServerDto {
  /** JSON of the template and its special tokens. Null if none was registered. */
  chatTemplate: string | null
  /** The last 200 events, newest first. */
  events: ServerEventDto[]
  /** True if there are more events than are listed. */
  hasMoreEvents: boolean
  /** The minutes with requests among the last 61 minutes, oldest first. */
  minutes: ServerMinuteDto[]
  /** All servers of the server's model. */
  pool: PoolShareDto[]
  /**
   * The highest ratio of request share to capacity share in the pool. It is 1 if traffic follows capacity exactly, and
   * null without traffic.
   */
  imbalance: number | null
  workers: ServerWorkerDto[]
  monitors: ServerMonitorDto[]
}

/** The output of `servers.log`: the end of a launched server's output. */
export interface ServerLogDto {
  name: string
  /** Oldest first, secrets masked. */
  lines: string[]
}
