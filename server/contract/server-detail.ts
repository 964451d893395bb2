import type { ServerDto, ServerState } from './servers.ts'
import type { WorkerServerStats } from './worker-stats.ts'

/** A change in a server's state, in how one process sees the server, or in the server's launched process. */
export interface ServerEventDto {
  id: number
  /**
   * `state`: the state in the registry · `health`: the health as one process sees it · `process`: the launched process
   */
  kind: 'state' | 'health' | 'process'
  /** Null for the registration. */
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
  /** Hedged requests. */
  hedges: number
  /** Responses with status 429 or 503. */
  busy: number
  /** Invalid responses. */
  corrupt: number
  /** Requests that the server refused: with a 4xx, or with a reply that was withheld or empty. */
  client: number
  p50Ms: number | null
  p99Ms: number | null
}

/** A server's share of its pool's requests and capacity. */
export interface PoolShareDto {
  id: string
  name: string
  state: ServerState
  /** The share of the pool's requests over the last 10 minutes, 0–1; null: no requests. */
  requestShare: number | null
  /**
   * The share of the capacity of the pool's ready servers, 0–1: by tokens per second if all were measured, otherwise by
   * weight × limit.
   */
  capacityShare: number
}

/** The server as one worker process sees it. */
export interface ServerWorkerDto extends WorkerServerStats {
  workerId: string
}

/**
 * Findings over the last ten minutes:
 * - `degraded`: ejected by a process, at least 5 % of its requests failed, or its median latency is at least 3 times that
 *   of its peers
 * - `black_hole`: its share of the requests is at least twice its share of the capacity, and at least half of its
 *   requests fail
 * - `tie_collapse`: it gets over 60 % of the requests to at least three servers that are equal in capacity, latency,
 *   errors and health
 * - `sticky_retries`: retries return to the server that failed, while others are ready
 * - `masked_client_errors`: over 5 % of the requests are refused: with a 4xx, or with a reply that was
 *   withheld or empty
 * - `drift`: its scores differ from earlier ones, or from those of its pool
 * - `squashed_scores`: its scores are not raw, or not provably raw
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

/** The output of `servers.get`. */
export interface ServerDetailDto extends ServerDto {
  /** JSON of the template and its special tokens. Null: none was registered. */
  chatTemplate: string | null
  /** The last 200 events, newest first. */
  events: ServerEventDto[]
  /** The last 60 minutes with requests, oldest first. */
  minutes: ServerMinuteDto[]
  /** All servers of the server's model. */
  pool: PoolShareDto[]
  /**
   * The highest request share ÷ capacity share of the pool; 1: traffic follows capacity exactly. Null without traffic.
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
