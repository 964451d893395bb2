import type { EngineName, FailureClass, ScoreInput } from '../engines/engine.ts'
import type { SampleFailureReason } from '../wire/sample-reason.ts'

export type { EngineName, ScoreInput } from '../engines/engine.ts'

/** Where a server stands in the registry. Only `ready` is sent work; the other words are for people. */
export type RouterServerState =
  | 'registering'
  | 'probing'
  | 'ready'
  | 'suspect'
  | 'unreachable'
  | 'draining'
  | 'sleeping'
  | 'waking'
  | 'dead'

/** A server as the registry has it. Its `url` has passed `checkServerUrl`. */
export interface RouterServer {
  id: number
  name: string
  url: string
  engine: EngineName
  /** The pool it belongs to, and the name the server is asked for. */
  model: string
  version: string | null
  /** Share of its pool's calls relative to the other servers'. */
  weight: number
  /** Most calls in flight over all processes; null: no limit of its own. */
  maxInFlight: number | null
  apiKey: string | null
  state: RouterServerState
}

/** One sample to score by a model. */
export interface ScoreRequest {
  model: string
  input: ScoreInput
  /**
   * In ms, from the first dispatch: calls, retries and back-off included. Waiting for a slot of a healthy server does
   * not count; without a healthy server a sample waits this long, and ends as `no_server`.
   */
  timeoutMs: number
  /** In ms from now, waiting included: what is not scored by then ends as `deadline`. */
  deadlineMs?: number
  /** Most calls that may fail transiently, the first included; at least 1. */
  maxAttempts: number
  /** Aborting it ends the sample as `cancelled` and the call upstream with it. One signal may serve many samples. */
  signal?: AbortSignal
  /** Somebody waits for this very sample: it goes before those of a batch. */
  urgent?: boolean
  /** For policies that keep related samples together; unused by round robin. */
  key?: string
}

/** One call to one server. */
export interface AttemptRecord {
  serverId: number
  serverName: string
  /** From 1; a call repeated after `conn_race` has the number of the first. */
  attempt: number
  startedAtMs: number
  /** Waited for a free slot. */
  queueMs: number
  /** Waited on purpose before that: back-off, or the server's Retry-After. */
  backoffMs: number
  serviceMs: number
  outcome: 'ok' | FailureClass
  reason: SampleFailureReason | null
  /** HTTP status; null where no answer came. */
  status: number | null
  detail: string | null
}

/** A sample's end: a finite score, or the reason there is none. */
export type RouterResult =
  | {
      ok: true
      score: number
      serverId: number
      /** Tokens of the scored text, where the server counts them. */
      promptTokens: number | null
      attempts: AttemptRecord[]
    }
  | { ok: false; reason: SampleFailureReason; detail: string; attempts: AttemptRecord[] }

/** `ok` takes work · `out` takes none until `outUntilMs` · `half_open` one call at a time until one succeeds. */
export type HealthState = 'ok' | 'out' | 'half_open'

/** One server as this process sees it. Counts are since the router was made. */
export interface RouterServerStats {
  serverId: number
  name: string
  model: string
  /** `removed`: gone from the registry, its last calls still in flight. */
  state: RouterServerState | 'removed'
  health: HealthState
  /** Epoch ms; null unless out. */
  outUntilMs: number | null
  consecutiveFaults: number
  /** Calls in flight from this process; never negative, 0 at idle. */
  inFlight: number
  slots: number
  /** Samples of its model waiting for a slot, on any of the model's servers. */
  waiting: number
  /** Calls sent. */
  requests: number
  /** Calls that ended in a failure; not those cancelled or repeated after a connection race. */
  errors: number
  /** Calls sent for a sample that had failed before. */
  retries: number
  /** Counts by the class of failure. */
  failures: Record<FailureClass, number>
  /** Durations of calls that gave a score, as `LatencyHistogram.toJSON` writes them. */
  latency: number[]
}

/** A change of a server's passive health, for others to store and show. */
export interface RouterEvent {
  serverId: number
  serverName: string
  from: HealthState
  to: HealthState
  /** Why, in words. */
  cause: string
  atMs: number
}

/** Settings of a router; every one has a default that fits. */
export interface RouterOptions {
  /** How long a server that keeps failing is out the first time, in ms; n times as long the n-th time. Default 5,000. */
  outStepMs?: number
  /**
   * How long a sample that failed on one server waits for a slot of a server not tried yet, in ms, before it takes
   * any that is free. Default 2,000: long against a model's call, short against a judge's.
   */
  patienceMs?: number
}

/** Picks servers for samples inside one process: late binding, retries, passive health. */
export interface RewardRouter {
  /** Takes over the registry's servers. Calls in flight on removed ones finish; new ones go elsewhere. */
  setServers(servers: readonly RouterServer[]): void
  /** How many calls may be in flight to a server from this process: a lease. 0 until told; 0 stops dispatch. */
  setSlots(serverId: number, slots: number): void
  /** Slots this process could use now: calls in flight and waiting samples of the server's model. */
  demand(serverId: number): number
  /** Called, coalesced, when samples wait that more slots would let go. Returns the way to stop it. */
  onDemand(listener: (serverId: number) => void): () => void
  /** Called at every change of a server's passive health. Returns the way to stop it. */
  onEvent(listener: (event: RouterEvent) => void): () => void
  /** Scores one sample. Never rejects for a server's failings. */
  score(request: ScoreRequest): Promise<RouterResult>
  snapshot(): RouterServerStats[]
  /** Ends every sample as `cancelled` and closes the connections. */
  close(): Promise<void>
}
