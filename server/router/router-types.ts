import type { SampleFailureReason } from '../contract/sample-reason.ts'
import type { ServerState } from '../contract/servers.ts'
import type {
  ChatReply,
  ChatRequest,
  EngineName,
  FailureClass,
  ScoreInput,
  ScoreRoute,
} from '../engines/engine.ts'
import type { PolicyName } from './policies/policy.ts'

export type { ChatReply, ChatRequest, EngineName, ScoreInput } from '../engines/engine.ts'

/** A server as the registry has it. Its `url` has passed `checkServerUrl`. */
export interface RouterServer {
  id: number
  name: string
  url: string
  engine: EngineName
  /** A generative model's calls are never sent twice and never shared. Default discriminative. */
  kind?: 'discriminative' | 'generative'
  /** The pool it belongs to, and the name the server is asked for. */
  model: string
  version: string | null
  /** How its scores are asked for; null or absent: the engine's usual way. */
  route?: ScoreRoute | null
  /** The label whose score is taken, by index or name; null or absent: the last. */
  label?: string | null
  /** Its model has no chat template: it is sent plain text. */
  plainText?: boolean
  /** By which the text to score is made, as it is stored; null or absent: none. */
  chatTemplate?: string | null
  /** Most inputs at once, where the server itself says so. */
  maxConcurrent?: number | null
  /** Share of its pool's calls relative to the other servers'. */
  weight: number
  /** Most calls in flight over all processes; null: found by measuring. */
  maxInFlight: number | null
  /** Calls go out only as permits come in ({@link RewardRouter.setPermits}). Default: neither is limited. */
  limited?: { requests: boolean; tokens: boolean }
  apiKey: string | null
  /** Only `ready` is sent work; the other words are for people. */
  state: ServerState
}

/** What every call through a router may say of itself. */
export interface RouteRequest {
  model: string
  /**
   * In ms, from the first dispatch: calls, retries and back-off included. Waiting for a slot of a healthy server does
   * not count; without a healthy server a sample waits this long, and ends as `no_server`.
   */
  timeoutMs: number
  /** In ms from now, waiting included: what is not scored by then ends as `deadline`. */
  deadlineMs?: number
  /** Most calls that may fail transiently, the first included; at least 1. Busy answers and refusals that nothing confirmed do not count. */
  maxAttempts: number
  /** Aborting it ends the sample as `cancelled` and the call upstream with it. One signal may serve many samples. */
  signal?: AbortSignal
  /** Somebody waits for this very sample: class `interactive`, four times the share of a step's. */
  urgent?: boolean
  /** Below 0: backfill, a third of a step's share. */
  priority?: number
  /** Fair shares are between runs. */
  run?: string
  /** Samples of one group go to one server where that costs nothing: their prompt is cached there. */
  group?: string
  /** Of what its run has waiting, what has a lower number goes first: its batches in the order they came. Default 0. */
  order?: number
  /** What the `deterministic` policy hangs the choice on; default: the text. */
  key?: string
}

/** One sample to score by a model. */
export interface ScoreRequest extends RouteRequest {
  input: ScoreInput
}

/** A conversation for a judge to go on with. */
export interface RouterChatRequest extends RouteRequest {
  chat: ChatRequest
}

/** Asks for the right to send one call: for those who speak to the server themselves (the router address). */
export interface SlotRequest
  extends Pick<
    RouteRequest,
    'model' | 'deadlineMs' | 'signal' | 'urgent' | 'priority' | 'run' | 'group' | 'key'
  > {
  /** Estimated tokens of the call, what is generated included. */
  tokens: number
  /** Servers not to be given while there are others: they failed this call before. */
  avoid?: readonly number[]
  /** Instead of the pool's. */
  policy?: PolicyName
}

/** What a call through a slot ended in. `cancelled`: the caller went away; it says nothing of the server. */
export interface SlotEnd {
  outcome: 'ok' | 'cancelled' | FailureClass
  /** Tokens, where the answer told. */
  tokens?: number
  retryAfterMs?: number
  detail?: string
}

/** The right to send one call to one server. Must be released, once, whatever happened. */
export interface RouterSlot {
  readonly serverId: number
  readonly serverName: string
  readonly engine: EngineName
  /** Origin and base path. */
  readonly url: string
  readonly apiKey: string | null
  /** Waited for it. */
  readonly queueMs: number
  release(end: SlotEnd): void
}

/** Why there is no slot. */
export type SlotRefusal =
  | { ok: false; reason: 'queue_full'; retryAfterMs: number }
  | { ok: false; reason: 'deadline' | 'cancelled' }
  /** `retryable`: servers of the model exist, none can be used now and no deadline was given to wait until. */
  | { ok: false; reason: 'no_server'; detail: string; retryAfterMs: number }

/** Why a sample is sent a second time while its first call is out: the server went silent · the step's last samples · a slow single. */
export type HedgeKind = 'stall' | 'drain' | 'tail'

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
  /**
   * `superseded`: sent to two servers, and the other answered first. `recalled`: given up because this process had lost its
   * share of the server's limit.
   */
  outcome: 'ok' | 'superseded' | 'recalled' | FailureClass
  /** Why it was sent while another was out for the same sample; absent for the usual call. */
  hedge?: HedgeKind
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
      tokenScores?: number[]
      extra?: Record<string, unknown>
      /** Answered by the call of an identical request: no call of its own. */
      shared?: boolean
      attempts: AttemptRecord[]
    }
  | { ok: false; reason: SampleFailureReason; detail: string; attempts: AttemptRecord[] }

/** A judge's reply, or the reason there is none. */
export type RouterChatResult =
  | { ok: true; reply: ChatReply; serverId: number; attempts: AttemptRecord[] }
  | { ok: false; reason: SampleFailureReason; detail: string; attempts: AttemptRecord[] }

/**
 * `ok` takes work · `suspect` went silent: nothing new, what it has is sent elsewhere too · `ejected` takes none until
 * `ejectedUntilMs` · `half_open` one call at a time until two succeed · `slow_start` a growing share of its slots.
 */
export type HealthState = 'ok' | 'suspect' | 'ejected' | 'half_open' | 'slow_start'

/** One server as this process sees it. Counts are since the router was made. */
export interface RouterServerStats {
  serverId: number
  name: string
  model: string
  /** `removed`: gone from the registry, its last calls still in flight. */
  state: ServerState | 'removed'
  health: HealthState
  /** Epoch ms; null unless out. */
  ejectedUntilMs: number | null
  consecutiveFaults: number
  /** Calls in flight from this process; never negative, 0 at idle. */
  inFlight: number
  slots: number
  /** What this process lets itself have in flight, found by measuring or given. */
  limit: number
  /** Tokens of what is in flight. */
  workTokens: number
  /** Tokens a second it was seen to score; null: not seen yet. */
  tokensPerSecond: number | null
  /** Samples of its model waiting for a slot, on any of the model's servers. */
  waiting: number
  /** Calls sent. */
  requests: number
  /** Calls that ended in a failure; not those cancelled or repeated after a connection race. */
  errors: number
  /** Calls sent for a sample that had failed before. */
  retries: number
  /** Calls sent while another was out for the same sample. */
  hedges: number
  /** Texts of nobody's sent to see whether it works; among the calls sent. */
  canaries: number
  /** Tokens scored. */
  tokens: number
  /** Times it was put out. */
  ejections: number
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
  /** What was seen, in numbers. */
  evidence?: Record<string, number | string | null>
  atMs: number
}

/** Settings of a router; every one has a default that fits. */
export interface RouterOptions {
  /** How long a server that keeps failing is out the first time, in ms, ±20 %; n times as long the n-th time, at most 12 times. Default 5,000. */
  ejectionStepMs?: number
  /**
   * How long a sample that failed on one server waits for a slot of a server not tried yet, in ms, before it takes
   * any that is free. Default 2,000: long against a model's call, short against a judge's.
   */
  patienceMs?: number
  /** Default policy of every pool. Default `least_work`. */
  policy?: PolicyName
  /** Of the policies that draw lots, and of `deterministic`. */
  seed?: number
  /** Samples that may wait for a model, beyond which slots are refused (`queue_full`). Default 10,000. Samples are never refused. */
  queueSamples?: number
  /** Hedges of calls that are out. Default true. */
  hedges?: boolean
  /** Several samples in one call. */
  microBatching?: Partial<MicroBatchOptions>
  /** Processes that share the servers with this one: what is learned of a limit is this process's part. Default 1. */
  processes?: number
}

/** When samples of a step go to a server in one call, where its engine takes several. */
export interface MicroBatchOptions {
  /** Samples of a call at most; 1: never several. Default 8. */
  samplesPerRequest: number
  /** Whether this process is short of time, so that it is worth their waiting for each other. Default: by its event loop. */
  isBusy: (nowMs: number) => boolean
  /**
   * What one call may bring its server to do, in ms of its pace: a sample waits for those it goes with, so only where that is
   * next to nothing may it have company. At 400 samples/s the default of 20 is eight samples; at 50 one, and calls cost nothing.
   */
  workMs: number
  /** After a sample that took longer, its server gets samples one by one for 5 s. Default 250. */
  slowMs: number
  /** A call out for so many looks of the watch, a tenth of a second each, is split. Default 2. */
  splitLooks: number
}

/** Picks servers for samples inside one process: late binding, retries, passive health, hedges. */
export interface RewardRouter {
  /** Takes over the registry's servers. Calls in flight on removed ones finish; new ones go elsewhere. */
  setServers(servers: readonly RouterServer[]): void
  /** The balancing policy of a model's pool; null: the default. */
  setPolicy(model: string, policy: PolicyName | null): void
  /** See {@link RouterOptions.processes}. */
  setProcesses(processes: number): void
  /** Whether the server itself reports that calls wait in it; null: it does not tell. Stops growth, and counts as its queue. */
  setLoad(serverId: number, load: { running: number; waiting: number } | null): void
  /**
   * How many calls may be in flight to a server from this process: a lease. 0 until told; 0 stops dispatch. Over at
   * `untilMs` on the clock of `performance.now()`; default: never. `others`: what the other processes hold.
   */
  setSlots(serverId: number, slots: number, untilMs?: number, others?: number): void
  /** Gives up the calls in flight to a server: their samples wait for a slot again, and no attempt is charged. */
  recall(serverId: number): void
  /** Adds to what may still be sent of a server with a limit a minute, until `untilMs`. */
  setPermits(serverId: number, permits: RatePermits): void
  /** Calls a server with a limit a minute would get now, and their tokens; and what was used beyond the permits. */
  permitDemand(serverId: number): { requests: number; tokens: number; tokensOverspent: number }
  /** Takes back the permits that were not used, to give them to others. */
  reclaimPermits(serverId: number): { requests: number; tokens: number }
  /** Calls in flight to a server from this process. */
  inFlight(serverId: number): number
  /** Slots this process could use now: calls in flight and waiting samples of the server's model. */
  demand(serverId: number): number
  /** Called, coalesced, when samples wait that more slots or permits would let go. Returns the way to stop it. */
  onDemand(listener: (serverId: number) => void): () => void
  /** Called at every change of a server's passive health. Returns the way to stop it. */
  onEvent(listener: (event: RouterEvent) => void): () => void
  /** Scores one sample. Never rejects for a server's failings. */
  score(request: ScoreRequest): Promise<RouterResult>
  /** Asks a judge. Never rejects for a server's failings. */
  chat(request: RouterChatRequest): Promise<RouterChatResult>
  /** The right to send one call. Never rejects. */
  acquire(request: SlotRequest): Promise<{ ok: true; slot: RouterSlot } | SlotRefusal>
  /** Which server a call would be offered first is nobody's business; which models there are is. */
  models(): { model: string; kind: 'discriminative' | 'generative'; servers: number }[]
  /** The chat template that a server of the model was registered with, as it is stored; null: none has one. */
  chatTemplate(model: string): string | null
  snapshot(): RouterServerStats[]
  /** The POST that a server is sent for a sample, as it would be sent now; null: no such server. */
  requestFor(
    serverId: number,
    input: ScoreInput,
  ): { engine: EngineName; path: string; body: string } | null
  /** Ends every sample as `cancelled` and closes the connections. */
  close(): Promise<void>
}

/** What may be sent of a server with a limit a minute. */
export interface RatePermits {
  requests: number
  tokens: number
  /** On the clock of `performance.now()`; what is not used by then is void. */
  untilMs: number
}
