import type { SampleFailureReason } from '../contract/sample-reason.ts'
import type { ServerState } from '../contract/servers.ts'
import type {
  ChatReply,
  ChatRequest,
  EngineLoad,
  EngineName,
  FailureClass,
  ScoreInput,
  ScoreRoute,
  TokenOffsets,
} from '../engines/engine.ts'
import type { SampleTrace } from '../trace-context.ts'
import type { PolicyName } from './policies/policy.ts'

export type {
  ChatReply,
  ChatRequest,
  EngineLoad,
  EngineName,
  ScoreInput,
} from '../engines/engine.ts'

/** A registered server. `checkServerUrl` has checked its `url`. */
export interface RouterServer {
  id: number
  name: string
  url: string
  engine: EngineName
  /** Calls to generative models are never hedged, and identical calls are not combined. Default: discriminative. */
  kind?: 'discriminative' | 'generative'
  /** The name of the server's pool, and the model name sent to the server. */
  model: string
  version: string | null
  /** The scoring route. If null or absent, the engine's default. */
  route?: ScoreRoute | null
  /** The label whose score is used, by index or name. If null or absent, the last label. */
  label?: string | null
  /** Whether the server's model has no chat template. Samples are then sent as plain text. */
  plainText?: boolean
  chatTemplate?: string | null
  /** Maximum number of concurrent inputs, if the server reports it. */
  maxConcurrent?: number | null
  weight: number
  /** Maximum number of samples in flight from all processes, or null for an adaptive limit. */
  maxInFlight: number | null
  /**
   * Which of the two rates are limited. Calls to a limited server need permits ({@link RewardRouter.setPermits}).
   * Default: neither.
   */
  limited?: { requests: boolean; tokens: boolean }
  apiKey: string | null
  /** Only `ready` servers are sent samples; the other states are for display. */
  state: ServerState
}

export interface RouteRequest {
  model: string
  /**
   * Time limit in ms. It starts at the first dispatch and includes all calls, back-off and waits for a retry. Before
   * the first dispatch it limits only the time without a healthy server, after which the sample fails as `no_server`.
   */
  timeoutMs: number
  /**
   * Time limit in ms, counted from the request and including all waiting. A sample that exceeds it fails as `deadline`.
   */
  deadlineMs?: number
  /**
   * Maximum number of calls, the first included; at least 1. Hedges, busy answers and unconfirmed refusals do not
   * count.
   */
  maxAttempts: number
  /** Aborting the signal fails the sample as `cancelled` and cancels its call. Many samples may share one signal. */
  signal?: AbortSignal
  /**
   * Whether a caller waits for this sample. Its priority class is then `interactive`. This class and a step's samples
   * share capacity 4 : 3.
   */
  urgent?: boolean
  /** If negative, the sample's priority class is `backfill`, which gets a third of the capacity of a step's samples. */
  priority?: number
  /** The sample's run. Runs share capacity equally. */
  run?: string
  /** Samples of one group prefer one server, whose prefix cache then holds their prompt. */
  group?: string
  /**
   * Waiting samples with lower numbers are sent first within a run. All samples of a batch have the same number, and
   * earlier batches have lower ones. Default 0.
   */
  order?: number
  /** The value that the `deterministic` policy hashes. Default: the text. */
  key?: string
  /** The sample's trace. Absent if the sample is not traced. */
  trace?: SampleTrace
}

export interface ScoreRequest extends RouteRequest {
  input: ScoreInput
  /** Whether to also request the text offsets of the token scores. This takes a second request in the same slot. */
  needsTokenOffsets?: boolean
}

export interface RouterChatRequest extends RouteRequest {
  chat: ChatRequest
}

/**
 * A request for a slot, the right to send one call. The caller, for example the router address, then sends the call
 * itself.
 */
export interface SlotRequest
  extends Pick<
    RouteRequest,
    'model' | 'deadlineMs' | 'signal' | 'urgent' | 'priority' | 'run' | 'group' | 'key'
  > {
  /** Estimated tokens of the call, generated ones included. */
  tokens: number
  /** Ids of servers that failed this call before. Other servers are preferred. */
  avoid?: readonly number[]
  /** Ids of servers that cannot take this call. They are never used. */
  exclude?: readonly number[]
  /** Overrides the pool's policy. */
  policy?: PolicyName
  /**
   * Called when other processes may use the granted slot, because this process's share of the limit has expired. The
   * owner then cancels the call, releases the slot and may acquire another one.
   */
  onRecall?: () => void
}

/**
 * The outcome of a call sent through a slot. `cancelled` means that the client disconnected, which implies nothing
 * about the server.
 */
export interface SlotEnd {
  outcome: 'ok' | 'cancelled' | FailureClass
  tokens?: number
  retryAfterMs?: number
  detail?: string
}

/** The right to send one call to one server. It must be released exactly once, after a failure as well. */
export interface RouterSlot {
  readonly serverId: number
  readonly serverName: string
  readonly engine: EngineName
  /** Origin and base path of the server. */
  readonly url: string
  readonly apiKey: string | null
  readonly queueMs: number
  /** Whether this process's share of the server's limit is still valid, so that the call may be sent. */
  hasShare(): boolean
  release(end: SlotEnd): void
}

/** The reason why no slot was granted. */
export type SlotRefusal =
  | { ok: false; reason: 'queue_full'; retryAfterMs: number }
  | { ok: false; reason: 'deadline' | 'cancelled' }
  /** The model has no usable server at the moment. */
  | { ok: false; reason: 'no_server'; detail: string; retryAfterMs: number }

/**
 * The reason for a hedge. `stall`: the server went silent · `drain`: the sample is one of the last of its step ·
 * `tail`: an interactive call is slow.
 */
export type HedgeKind = 'stall' | 'drain' | 'tail'

export interface AttemptRecord {
  serverId: number
  serverName: string
  /** Number of the attempt, from 1. An uncharged repeat keeps the number, for example after `conn_race`. */
  attempt: number
  /** Epoch ms. */
  startedAtMs: number
  /** Time waited for a slot, after any back-off, ms. */
  queueMs: number
  /** Time in back-off, or in a pause requested by Retry-After, ms. */
  backoffMs: number
  serviceMs: number
  /**
   * `superseded`: the sample's other call answered first. `recalled`: the call was abandoned because this process had
   * lost its share of the server's limit. `client` also stands for a cancelled call.
   */
  outcome: 'ok' | 'superseded' | 'recalled' | FailureClass
  /** Id of the server whose call this one hedges. Absent if the call is not a hedge. */
  hedgeOf?: number
  /**
   * Position of this call among the calls of a traced sample. Absent if the sample is not traced, or shared the request
   * of an identical sample.
   */
  callNo?: number
  reason: SampleFailureReason | null
  /** HTTP status; null if no answer arrived. */
  status: number | null
  detail: string | null
}

export type RouterResult =
  | {
      ok: true
      score: number
      serverId: number
      /** Tokens of the scored text, if the server counts them. */
      promptTokens: number | null
      tokenScores?: number[]
      /** See `EngineScore.tokenOffsets`. */
      tokenOffsets?: TokenOffsets | { problem: string }
      extra?: Record<string, unknown>
      /** True if the score comes from a request shared with an identical sample. */
      shared?: boolean
      attempts: AttemptRecord[]
    }
  | { ok: false; reason: SampleFailureReason; detail: string; attempts: AttemptRecord[] }

export type RouterChatResult =
  | { ok: true; reply: ChatReply; serverId: number; attempts: AttemptRecord[] }
  | { ok: false; reason: SampleFailureReason; detail: string; attempts: AttemptRecord[] }

/**
 * State of a server's passive health. `ok`: takes samples · `suspect`: is silent, takes no new samples, and its calls
 * are hedged · `ejected`: takes no samples until `ejectedUntilMs` · `half_open`: takes one call at a time until two
 * succeed · `slow_start`: takes a growing share of its slots.
 */
export type HealthState = 'ok' | 'suspect' | 'ejected' | 'half_open' | 'slow_start'

/**
 * Statistics of one server in this process, counted from its registration on. A sample sent to a server is one call,
 * even within a micro-batch.
 */
export interface RouterServerStats {
  serverId: number
  name: string
  model: string
  /** `removed`: no longer registered, but with calls still in flight. */
  state: ServerState | 'removed'
  health: HealthState
  /** Epoch ms; null unless ejected. */
  ejectedUntilMs: number | null
  consecutiveFaults: number
  /** Samples in flight from this process; a hedge counts as a further sample. Never negative, 0 at idle. */
  inFlight: number
  slots: number
  /** Maximum number of samples in flight from this process, adaptive or configured. */
  limit: number
  /** This process's share of the limit of all processes: its slots or an equal share, whichever is more. */
  capacity: number
  workTokens: number
  tokensPerSecond: number | null
  /** Samples of the server's model that wait for a slot of any of the model's servers. */
  waiting: number
  requests: number
  /** Failed calls. Cancelled calls, and calls repeated after a connection race, do not count. */
  errors: number
  retries: number
  hedges: number
  /** Calls sent to check whether the server works; included in `requests`. */
  canaries: number
  /** Tokens of scored samples. */
  tokens: number
  ejections: number
  failures: Record<FailureClass, number>
  /** Durations of calls that returned a score, as written by `LatencyHistogram.toJSON`. */
  latency: number[]
}

export interface RouterEvent {
  serverId: number
  serverName: string
  from: HealthState
  to: HealthState
  cause: string
  evidence?: Record<string, number | string | null>
  /** Epoch ms. */
  atMs: number
}

export interface RouterOptions {
  /**
   * Duration of a server's first ejection in ms, ±20 %. The n-th ejection lasts n times as long, at most 12 times.
   * Default 5,000.
   */
  ejectionStepMs?: number
  /**
   * How long a sample that failed on one server waits for a slot of an untried server, in ms, before it takes any free
   * slot. Default 2,000, which is longer than most calls to a reward model and shorter than most calls to a judge.
   */
  patienceMs?: number
  /** Policy of pools without one of their own. Default `least_work`. */
  policy?: PolicyName
  /** Seed of the policies that use random numbers or hashes. */
  seed?: number
  /**
   * Maximum number of waiting samples per model. Beyond it, requests for slots are refused (`queue_full`). Requests to
   * score or chat are never refused. Default 10,000.
   */
  queueSamples?: number
  /** Whether calls are hedged. Default true. */
  hedges?: boolean
  microBatching?: Partial<MicroBatchOptions>
  /**
   * Number of processes that share the servers, this one included. Adaptive limits start from this process's share.
   * Default 1.
   */
  processes?: number
}

/** Settings of micro-batching, for engines that accept several samples per request. */
export interface MicroBatchOptions {
  /** Maximum number of samples per request. 1 turns micro-batching off. Default 8. */
  samplesPerRequest: number
  /**
   * Whether this process is so short of CPU time that sending fewer requests is worth delaying samples. Default:
   * decided by the utilization of its event loop.
   */
  isBusy: (nowMs: number) => boolean
  /**
   * Maximum time that the server needs for one request at its measured speed, in ms. It must be short, because each
   * sample waits for the others of its request. With the default of 20, a server of 400 samples/s gets eight samples
   * per request, and one of 50 samples/s gets one.
   */
  workMs: number
  /**
   * After a sample that took longer than this, in ms, its server receives one sample per request for 5 s. Default 250.
   */
  slowMs: number
  /** A request without an answer is split after this many checks, which are 100 ms apart. Default 2. */
  splitChecks: number
}

/** Assigns samples to servers within one process, with late binding, retries, passive health and hedges. */
export interface RewardRouter {
  /** Replaces the registered servers. Calls in flight to removed servers finish. */
  setServers(servers: readonly RouterServer[]): void
  setPolicy(model: string, policy: PolicyName | null): void
  /** Updates {@link RouterOptions.processes}. */
  setProcesses(processes: number): void
  /**
   * Sets the load that a server reports, or null if it reports none. Requests waiting inside the server stop the growth
   * of its limit, and policies take the requests of other clients into account.
   */
  setLoad(serverId: number, load: EngineLoad | null): void
  /**
   * Sets this process's slots for a server: the maximum number of samples in flight. Until this is called, the process
   * has no slots. They expire at `untilMs` on the clock of `performance.now()`, by default never. `others` is the
   * number of slots of other processes.
   */
  setSlots(serverId: number, slots: number, untilMs?: number, others?: number): void
  /**
   * Abandons the calls in flight to a server. The samples wait for a slot again, and no attempt is charged. Slots are
   * recalled from their owners, see {@link SlotRequest.onRecall}.
   */
  recall(serverId: number): void
  setPermits(serverId: number, permits: RatePermits): void
  /**
   * Returns the requests and tokens for which this process lacks permits at a server with a rate limit, and the tokens
   * used beyond granted permits since this method was last called.
   */
  permitDemand(serverId: number): { requests: number; tokens: number; tokensOverspent: number }
  /** Removes and returns the unused permits, for other processes. */
  reclaimPermits(serverId: number): { requests: number; tokens: number }
  inFlight(serverId: number): number
  /** Slots of a server that this process could use now, for samples in flight and waiting. */
  demand(serverId: number): number
  /**
   * Registers a listener that receives the id of a server when samples wait for its slots or permits. Returns a
   * function that removes the listener.
   */
  onDemand(listener: (serverId: number) => void): () => void
  /** Registers a listener for changes in a server's passive health. Returns a function that removes the listener. */
  onEvent(listener: (event: RouterEvent) => void): () => void
  /** Scores one sample. A server's failure is returned as a result and never rejects the promise. */
  score(request: ScoreRequest): Promise<RouterResult>
  /** Sends a chat request to a judge. A server's failure is returned, as by {@link score}. */
  chat(request: RouterChatRequest): Promise<RouterChatResult>
  /** Waits for a slot of a server. Never rejects. */
  acquire(request: SlotRequest): Promise<{ ok: true; slot: RouterSlot } | SlotRefusal>
  models(): { model: string; kind: 'discriminative' | 'generative'; servers: number }[]
  /** The stored chat template of the first server of the model that has one, or null if none has. */
  chatTemplate(model: string): string | null
  snapshot(): RouterServerStats[]
  /**
   * The POST request that would be sent to a server for a sample, or null if there is no such server or the request
   * cannot be built.
   */
  requestFor(
    serverId: number,
    input: ScoreInput,
  ): { engine: EngineName; path: string; body: string } | null
  /** Ends every sample as `cancelled` and closes the connections. */
  close(): Promise<void>
}

export interface RatePermits {
  requests: number
  tokens: number
  /** Expiry of unused permits, on the clock of `performance.now()`. */
  untilMs: number
}
