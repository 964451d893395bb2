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
} from '../engines/engine.ts'
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
  /** Calls to a generative model are never hedged and never shared. Default: discriminative. */
  kind?: 'discriminative' | 'generative'
  /** The name of its pool, and the model name sent to the server. */
  model: string
  version: string | null
  /** The scoring route; null or absent: the engine's default. */
  route?: ScoreRoute | null
  /** The label whose score is used, by index or name; null or absent: the last. */
  label?: string | null
  /** Its model has no chat template, so it is sent plain text. */
  plainText?: boolean
  /** The stored template that renders the text to score; null or absent: none. */
  chatTemplate?: string | null
  /** Maximum concurrent inputs, if the server reports it. */
  maxConcurrent?: number | null
  /** Share of its pool's calls relative to the other servers. */
  weight: number
  /** Maximum calls in flight over all processes; null: adaptive. */
  maxInFlight: number | null
  /** Which of its rates are limited; calls then need permits ({@link RewardRouter.setPermits}). Default: neither. */
  limited?: { requests: boolean; tokens: boolean }
  apiKey: string | null
  /** Only `ready` servers are sent samples; the other states are for display. */
  state: ServerState
}

/** The properties that all requests to a router share. */
export interface RouteRequest {
  model: string
  /**
   * Time limit in ms from the first dispatch, including calls, retries and back-off. Waiting for a slot of a healthy
   * server does not count. Without a healthy server the sample waits this long and then ends as `no_server`.
   */
  timeoutMs: number
  /** Time limit in ms from now, including waiting; an unscored sample then ends as `deadline`. */
  deadlineMs?: number
  /**
   * Maximum calls that may fail transiently, the first included; at least 1. Busy answers and unconfirmed refusals do not
   * count.
   */
  maxAttempts: number
  /** Aborting it ends the sample as `cancelled` and cancels its call. One signal may serve many samples. */
  signal?: AbortSignal
  /** A caller waits for this sample: class `interactive`, with a higher share than a step's samples (4 : 3). */
  urgent?: boolean
  /** Below 0: class `backfill`, with a third of a step's share. */
  priority?: number
  /** The run it belongs to; fair shares are between runs. */
  run?: string
  /** Samples of one group are sent to one server where that costs nothing, because their prompt is cached there. */
  group?: string
  /** Waiting samples of a run with a lower number are sent first: its batches in the order they arrived. Default 0. */
  order?: number
  /** The value that the `deterministic` policy hashes; default: the text. */
  key?: string
}

/** A request to score one sample. */
export interface ScoreRequest extends RouteRequest {
  input: ScoreInput
}

/** A chat request to a judge. */
export interface RouterChatRequest extends RouteRequest {
  chat: ChatRequest
}

/** A request for the right to send one call, for callers that send it themselves (the router address). */
export interface SlotRequest
  extends Pick<
    RouteRequest,
    'model' | 'deadlineMs' | 'signal' | 'urgent' | 'priority' | 'run' | 'group' | 'key'
  > {
  /** Estimated tokens of the call, generated ones included. */
  tokens: number
  /** Servers to avoid if others are available, because they failed this call before. */
  avoid?: readonly number[]
  /** Overrides the pool's policy. */
  policy?: PolicyName
}

/** The outcome of a call made through a slot. `cancelled`: the caller left; it implies nothing about the server. */
export interface SlotEnd {
  outcome: 'ok' | 'cancelled' | FailureClass
  /** Tokens counted by the server, if known. */
  tokens?: number
  retryAfterMs?: number
  detail?: string
}

/** The right to send one call to one server. It must be released exactly once, for any outcome. */
export interface RouterSlot {
  readonly serverId: number
  readonly serverName: string
  readonly engine: EngineName
  /** Origin and base path of the server. */
  readonly url: string
  readonly apiKey: string | null
  /** Time waited for the slot. */
  readonly queueMs: number
  release(end: SlotEnd): void
}

/** The reason why no slot was granted. */
export type SlotRefusal =
  | { ok: false; reason: 'queue_full'; retryAfterMs: number }
  | { ok: false; reason: 'deadline' | 'cancelled' }
  /** Servers of the model may exist, but none can be used now. */
  | { ok: false; reason: 'no_server'; detail: string; retryAfterMs: number }

/**
 * Why a sample is hedged: `stall`: its server went silent · `drain`: it is one of the last of its step · `tail`: a slow
 * interactive call.
 */
export type HedgeKind = 'stall' | 'drain' | 'tail'

/** The record of one call to one server. */
export interface AttemptRecord {
  serverId: number
  serverName: string
  /** Counted from 1; a call repeated after `conn_race` keeps its number. */
  attempt: number
  startedAtMs: number
  /** Time waited for a free slot. */
  queueMs: number
  /** Time in back-off before that, or in a pause of the server's Retry-After. */
  backoffMs: number
  serviceMs: number
  /**
   * `superseded`: the sample was sent to two servers and the other answered first. `recalled`: the call was abandoned
   * because this process had lost its share of the server's limit.
   */
  outcome: 'ok' | 'superseded' | 'recalled' | FailureClass
  /** Set if the call is a hedge: the reason for it. */
  hedge?: HedgeKind
  reason: SampleFailureReason | null
  /** HTTP status; null if no answer arrived. */
  status: number | null
  detail: string | null
}

/** A sample's result: a finite score, or the reason why there is none. */
export type RouterResult =
  | {
      ok: true
      score: number
      serverId: number
      /** Tokens of the scored text, if the server counts them. */
      promptTokens: number | null
      tokenScores?: number[]
      extra?: Record<string, unknown>
      /** Answered by the call of an identical request; it had no call of its own. */
      shared?: boolean
      attempts: AttemptRecord[]
    }
  | { ok: false; reason: SampleFailureReason; detail: string; attempts: AttemptRecord[] }

/** A judge's reply, or the reason why there is none. */
export type RouterChatResult =
  | { ok: true; reply: ChatReply; serverId: number; attempts: AttemptRecord[] }
  | { ok: false; reason: SampleFailureReason; detail: string; attempts: AttemptRecord[] }

/**
 * `ok`: takes samples · `suspect`: silent, takes no new samples and those in flight are hedged · `ejected`: takes none
 * until `ejectedUntilMs` · `half_open`: one call at a time until two succeed · `slow_start`: a growing share of its
 * slots.
 */
export type HealthState = 'ok' | 'suspect' | 'ejected' | 'half_open' | 'slow_start'

/** One server's statistics in this process. Counts start at the router's creation. */
export interface RouterServerStats {
  serverId: number
  name: string
  model: string
  /** `removed`: not registered any more, with its last calls still in flight. */
  state: ServerState | 'removed'
  health: HealthState
  /** Epoch ms; null unless ejected. */
  ejectedUntilMs: number | null
  consecutiveFaults: number
  /** Calls in flight from this process; never negative, 0 at idle. */
  inFlight: number
  slots: number
  /** This process's current limit on calls in flight, adaptive or configured. */
  limit: number
  /** Estimated tokens in flight. */
  workTokens: number
  /** Measured tokens per second; null: not measured yet. */
  tokensPerSecond: number | null
  /** Samples of its model waiting for a slot of any of the model's servers. */
  waiting: number
  /** Calls sent. */
  requests: number
  /** Failed calls, without cancelled calls and those repeated after a connection race. */
  errors: number
  /** Calls for samples that had failed before. */
  retries: number
  /** Calls sent as hedges. */
  hedges: number
  /** Calls sent to check whether the server works; included in `requests`. */
  canaries: number
  /** Tokens scored. */
  tokens: number
  /** Number of ejections. */
  ejections: number
  /** Failed calls by class. */
  failures: Record<FailureClass, number>
  /** Durations of calls that returned a score, as written by `LatencyHistogram.toJSON`. */
  latency: number[]
}

/** A change of a server's passive health. */
export interface RouterEvent {
  serverId: number
  serverName: string
  from: HealthState
  to: HealthState
  /** The reason, for display. */
  cause: string
  /** The measurements behind it. */
  evidence?: Record<string, number | string | null>
  atMs: number
}

/** Settings of a router; all have defaults. */
export interface RouterOptions {
  /**
   * Duration of a server's first ejection in ms, ±20 %; n times as long for the n-th ejection, at most 12 times. Default
   * 5,000.
   */
  ejectionStepMs?: number
  /**
   * How long a sample that failed on one server waits for a slot of an untried server, in ms, before it takes any free
   * one. Default 2,000: long compared with a reward model's call, short compared with a judge's.
   */
  patienceMs?: number
  /** Default policy of every pool. Default `least_work`. */
  policy?: PolicyName
  /** Seed of the policies that draw at random or hash. */
  seed?: number
  /**
   * Maximum waiting samples per model; beyond it, requests for slots are refused (`queue_full`). Samples are never
   * refused. Default 10,000.
   */
  queueSamples?: number
  /** Whether calls are hedged. Default true. */
  hedges?: boolean
  /** Settings of micro-batching. */
  microBatching?: Partial<MicroBatchOptions>
  /** Processes that share the servers, this one included; adaptive limits start from this process's part. Default 1. */
  processes?: number
}

/** When samples of a step are combined into micro-batches, for engines that accept several inputs per request. */
export interface MicroBatchOptions {
  /** Maximum samples per request; 1: no micro-batching. Default 8. */
  samplesPerRequest: number
  /**
   * Whether this process is short of CPU time, so that combining samples is worth the wait. Default: by its event loop.
   */
  isBusy: (nowMs: number) => boolean
  /**
   * Maximum work of one request, in ms at the server's pace. A sample waits for the others of its request, so that time
   * must be negligible. With the default of 20, a server of 400 samples/s gets eight samples per request and one of 50
   * samples/s gets one.
   */
  workMs: number
  /** After a sample that took longer than this, its server is sent samples one by one for 5 s. Default 250. */
  slowMs: number
  /** A request is split after this many checks of the watch, 100 ms apart. Default 2. */
  splitLooks: number
}

/** Assigns samples to servers inside one process: late binding, retries, passive health, hedges. */
export interface RewardRouter {
  /** Replaces the registered servers. Calls in flight on removed servers finish; new calls are sent elsewhere. */
  setServers(servers: readonly RouterServer[]): void
  /** Sets the balancing policy of a model's pool; null: the default. */
  setPolicy(model: string, policy: PolicyName | null): void
  /** Updates {@link RouterOptions.processes}. */
  setProcesses(processes: number): void
  /**
   * Sets the server's own load report; null: it reports none. Waiting calls stop the growth of its limit and count as its
   * queue.
   */
  setLoad(serverId: number, load: EngineLoad | null): void
  /**
   * Sets the lease: how many calls this process may have in flight to a server. Initially 0, which stops dispatch. It
   * expires at `untilMs` on the clock of `performance.now()`; default: never. `others`: slots of other processes.
   */
  setSlots(serverId: number, slots: number, untilMs?: number, others?: number): void
  /** Abandons the calls in flight to a server: their samples wait for a slot again, and no attempt is charged. */
  recall(serverId: number): void
  /** Adds permits for a server with a rate limit. */
  setPermits(serverId: number, permits: RatePermits): void
  /** Calls and tokens for which a server with a rate limit lacks permits now, and the tokens used beyond past permits. */
  permitDemand(serverId: number): { requests: number; tokens: number; tokensOverspent: number }
  /** Removes and returns the unused permits, for other processes. */
  reclaimPermits(serverId: number): { requests: number; tokens: number }
  /** Calls in flight to a server from this process. */
  inFlight(serverId: number): number
  /** Slots that this process could use now: calls in flight plus waiting samples of the server's model. */
  demand(serverId: number): number
  /**
   * Registers a listener for samples that wait for slots or permits; notifications are combined. Returns a function that
   * removes it.
   */
  onDemand(listener: (serverId: number) => void): () => void
  /** Registers a listener for changes of a server's passive health. Returns a function that removes it. */
  onEvent(listener: (event: RouterEvent) => void): () => void
  /** Scores one sample. Never rejects because of a server. */
  score(request: ScoreRequest): Promise<RouterResult>
  /** Sends a chat request to a judge. Never rejects because of a server. */
  chat(request: RouterChatRequest): Promise<RouterChatResult>
  /** Waits for the right to send one call. Never rejects. */
  acquire(request: SlotRequest): Promise<{ ok: true; slot: RouterSlot } | SlotRefusal>
  /** The models with registered servers. */
  models(): { model: string; kind: 'discriminative' | 'generative'; servers: number }[]
  /** The stored chat template of the first of the model's servers that has one; null: none has one. */
  chatTemplate(model: string): string | null
  snapshot(): RouterServerStats[]
  /** The POST request that a server would be sent for a sample now; null: no such server. */
  requestFor(
    serverId: number,
    input: ScoreInput,
  ): { engine: EngineName; path: string; body: string } | null
  /** Ends every sample as `cancelled` and closes the connections. */
  close(): Promise<void>
}

/** Permits to send calls to a server with a rate limit. */
export interface RatePermits {
  requests: number
  tokens: number
  /** Expiry of unused permits, on the clock of `performance.now()`. */
  untilMs: number
}
