import type { ServerDto, ServerState } from './servers.ts'
import type { WorkerServerStats } from './worker-stats.ts'

/** What happened to a server: a change of its state, of one process's view of it, or of the process we run for it. */
export interface ServerEventDto {
  id: number
  /** `state`: the registry's · `health`: as one process saw it · `process`: the one we launched. */
  kind: 'state' | 'health' | 'process'
  /** Null at the first registration. */
  from: string | null
  to: string
  /** Why, in words. */
  cause: string
  /** What was seen, in numbers and words. */
  evidence: Record<string, unknown> | null
  at: string
}

/** Calls to a server in one minute, over all processes. */
export interface ServerMinuteDto {
  minute: string
  requests: number
  errors: number
  /** Calls for a sample that had failed before. */
  retries: number
  /** Calls sent while another was out for the same sample. */
  hedges: number
  busy: number
  corrupt: number
  /** Refused as the request's own fault (4xx). */
  client: number
  p50Ms: number | null
  p99Ms: number | null
}

/** A server's part in its pool. */
export interface PoolShareDto {
  id: string
  name: string
  state: ServerState
  /** Of the pool's requests over the last 10 minutes, 0–1; null without one. */
  requestShare: number | null
  /** Of what the pool's ready servers can do, 0–1: by tokens a second where all were measured, else by weight × limit. */
  capacityShare: number
}

/** How one worker process sees the server. */
export interface ServerWorkerDto extends WorkerServerStats {
  workerId: string
}

/**
 * What a monitor watches for, over the last ten minutes:
 * - `degraded`: ejected by a process, over 5 % of its calls failed, or its p50 is at least 3 times its peers' median
 * - `black_hole`: twice its capacity's share of the requests, and half of them fail
 * - `tie_collapse`: one gets over 60 % of the requests of at least three servers that are equal in capacity, latency,
 *   errors and health
 * - `sticky_retries`: retries go back to the server that failed, while others are ready
 * - `masked_client_errors`: over 5 % of the calls are refused with a 4xx
 * - `drift`: its scores differ from what they were, or from its pool's
 * - `squashed_scores`: its scores are not raw (or could not be shown to be)
 */
export type MonitorKind =
  | 'degraded'
  | 'black_hole'
  | 'tie_collapse'
  | 'sticky_retries'
  | 'masked_client_errors'
  | 'drift'
  | 'squashed_scores'

/** Something a monitor sees at this moment. */
export interface ServerMonitorDto {
  serverId: string
  serverName: string
  model: string
  kind: MonitorKind
  severity: 'warning' | 'error'
  /** What it sees, with the numbers. */
  text: string
}

/** `servers.get`: everything the server's page shows. */
export interface ServerDetailDto extends ServerDto {
  /** As it is used: JSON of the template and its special tokens. Null: the model's texts are not made here. */
  chatTemplate: string | null
  /** The last 200, the newest first. */
  events: ServerEventDto[]
  /** The last 60 with a call, the oldest first. */
  minutes: ServerMinuteDto[]
  /** This server and the others of its model. */
  pool: PoolShareDto[]
  /** Most over the pool of request share ÷ capacity share: 1 is even. Null without traffic. */
  imbalance: number | null
  workers: ServerWorkerDto[]
  monitors: ServerMonitorDto[]
}

/** `servers.log`: the end of a launched server's output. */
export interface ServerLogDto {
  name: string
  /** Oldest first, secrets masked. */
  lines: string[]
}
