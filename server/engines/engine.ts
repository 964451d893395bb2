import type { EngineName } from '../contract/engines.ts'
import type { ProxiedPath } from '../contract/proxied-paths.ts'
import type { SampleFailureReason } from '../contract/sample-reason.ts'
import type { SCORE_ROUTES } from '../contract/servers.ts'
import type { ChatTurn, TurnContent } from '../contract/turn-text.ts'

export type { EngineName } from '../contract/engines.ts'

/**
 * Scoring routes of discriminative models, for engines with several such routes. The probe finds the route, and the
 * registry stores it.
 * - `classify`: the whole text, one logit (vLLM /classify, SGLang /v1/embeddings, TEI /predict)
 * - `token`: a logit per token or step, of which the last is the score (vLLM /pooling with `token_classify`)
 * - `pair`: prompt and response as a pair, for a cross-encoder (vLLM /score, TEI and llama.cpp /rerank)
 */
export type ScoreRoute = (typeof SCORE_ROUTES)[number]

export interface ScoreInput {
  /** A turn without content (a tool call) counts as empty. */
  prompt: string | { role: string; content?: TurnContent | null | undefined }[]
  response: string
  /** Only custom scorers (`http`) receive `dataSource`, `groundTruth` and `extraInfo`, as submitted. */
  dataSource?: string
  groundTruth?: unknown
  extraInfo?: Record<string, unknown>
  /** The messages of a response that is not plain text; `response` is their text. Only custom scorers receive them. */
  messages?: ChatTurn[]
}

/** Writes a sample as text for its model. Both methods throw an Error that describes the problem of the sample. */
export interface SampleTemplate {
  renderSample(input: ScoreInput): string
  /** Omits the leading BOS, for servers whose tokenizer adds it. */
  renderSampleWithoutBos(input: ScoreInput): string
}

export interface EngineTarget {
  /** The model's name on the server; null if the server needs no name. */
  model: string | null
  /** The reported version. Null if unknown, which is treated as current. */
  version: string | null
  /** Path of the server's URL, without a trailing slash (`''` for the root). */
  basePath?: string
  /** The scoring route. If null or absent, the engine's default route. */
  route?: ScoreRoute | null
  /** The label whose score is used, by index or name. If null or absent, the last label is used. */
  label?: string | null
  /** Whether the model has no chat template, so that it receives prompt, newline and response. */
  plainText?: boolean
  /** Requests the activated score (sigmoid) instead of the raw one; only for the self-test. */
  activated?: boolean
  /**
   * Renders the text to score. If null or absent, the sample is sent as messages, or as prompt, newline and response.
   */
  chatTemplate?: SampleTemplate | null
}

/** `path` starts at the origin's root. */
export interface EngineRequest {
  path: string
  body: string | Buffer
  headers?: Record<string, string>
}

/** Response headers with lower-case names. */
export type ResponseHeaders = Record<string, string | string[] | undefined>

/**
 * Classes of failed requests, by what they mean for the sample, the server and a retry:
 * - `client`: the request was refused (4xx). It does not affect the server's health, and ends the sample, immediately
 *   or after confirmation ({@link EngineFailure.unconfirmed}).
 * - `busy`: 429 or 503. Retried immediately on another server, or on the same one after `Retry-After`. It does not
 *   affect the server's health.
 * - `fault`: 5xx, connection or TLS errors, and failures that no text can cause, with any status: a missing route, a
 *   refused key, an HTML page, a dead engine. Retried on another server, and counts against the server.
 * - `stall`: no response in time.
 * - `corrupt`: a response without a score (NaN, wrong format). Ends the sample after confirmation.
 * - `conn_race`: a reused connection that closed before the first byte. Retried once on the same server; this retry
 *   does not count as an attempt.
 */
export type FailureClass = 'client' | 'busy' | 'fault' | 'stall' | 'corrupt' | 'conn_race'

export interface EngineFailure {
  ok: false
  class: FailureClass
  reason: SampleFailureReason
  /** The problem in words, at most {@link MAX_DETAIL_CHARS} characters. */
  detail: string
  /** The server's `Retry-After`, without a maximum. */
  retryAfterMs?: number
  /** The refusal may come from a broken server: it fails the sample only after confirmation. */
  unconfirmed?: true
  /**
   * A fault of the server or its configuration that affects every request. The server receives no more samples until it
   * has scored a canary.
   */
  broken?: true
  /** If `maxTokens` did not fit into the context: the number of tokens left for the reply, at least one. */
  fitMaxTokens?: number
}

export interface TokenOffsets {
  /** The index of the first token that contains text of the response. */
  first: number
  /** For each token from `first` on: its start in the response, in Unicode code points. */
  starts: number[]
  /**
   * For each token from `first` on: its end, exclusive. If a character spans several tokens, it belongs to the last of
   * these tokens, and the ranges of the other tokens do not include it.
   */
  ends: number[]
}

/** A finite, raw score (no sigmoid). */
export interface EngineScore {
  ok: true
  score: number
  /** Tokens of the scored text, if reported. */
  promptTokens?: number
  /** Scores of the tokens or steps, if the model returns them; the last is `score`. */
  tokenScores?: number[]
  /**
   * Where the tokens in `tokenScores` are in the response, or the reason why their offsets are unknown; absent if the
   * offsets were not requested.
   */
  tokenOffsets?: TokenOffsets | { problem: string }
  /** Further fields of a custom scorer's answer (`http`). */
  extra?: Record<string, unknown>
}

export interface MicroBatchScores {
  ok: true
  /** One per sample, in request order. A failure of one sample does not affect the others. */
  scores: (EngineScore | EngineFailure)[]
  /** Tokens of all texts together, if reported. */
  promptTokens: number | null
}

/** Micro-batching: several samples share the fixed cost of one request. */
export interface MicroBatchProtocol {
  takes(target: EngineTarget): boolean
  /**
   * Builds the request. Call this only if the target {@link takes} several samples.
   * @throws Error if the target's template rejects a sample
   */
  build(inputs: readonly ScoreInput[], target: EngineTarget): EngineRequest
  /** Reads the response for `count` samples. Never throws. A returned failure concerns the whole request. */
  parse(
    status: number,
    headers: ResponseHeaders,
    bodyText: string,
    count: number,
    target?: EngineTarget,
  ): MicroBatchScores | EngineFailure
}

/** Aligns token scores with the response by a second request, because servers return scores without their tokens. */
export interface TokenProtocol {
  /** Builds the request for the tokens of the same text. @throws Error if the target's template rejects the sample */
  build(input: ScoreInput, target: EngineTarget): EngineRequest
  /**
   * Reads the response. Returns a failure if another request may succeed, and a problem if not. Never throws.
   * @param scores the number of scores
   */
  parse(
    status: number,
    headers: ResponseHeaders,
    bodyText: string,
    scores: number,
    input: ScoreInput,
    target: EngineTarget,
  ): TokenOffsets | { problem: string } | EngineFailure
}

/** A chat request to a judge, in the chat-completion fields that all backends share. */
export interface ChatRequest {
  messages: { role: string; content: string }[]
  /** Default 0. */
  temperature?: number
  topP?: number
  maxTokens?: number
  stop?: string[]
  seed?: number
  /** Requests the log-probabilities of each chosen token and of this many alternatives. */
  topLogprobs?: number
  /** The reply must be JSON of this schema. */
  jsonSchema?: { name: string; schema: Record<string, unknown> }
  /** Passed to the chat template, e.g. `{"enable_thinking": false}`. */
  chatTemplateKwargs?: Record<string, unknown>
}

/** A judge's reply. An aborted or refused reply is a failure instead. */
export interface ChatReply {
  ok: true
  content: string
  reasoning: string | null
  finishReason: string
  /**
   * The reply was cut off at the token limit (`finish_reason: length`). The judge's parser decides whether the cut-off
   * reply holds a verdict.
   */
  truncated: boolean
  promptTokens: number | null
  completionTokens: number | null
  /** The chosen token and its alternatives, for each token of the reply, if requested. */
  logprobs: { token: string; logprob: number; top: { token: string; logprob: number }[] }[] | null
}

/** The load that a server reports, in requests. */
export interface EngineLoad {
  running: number
  waiting: number
}

/** Sleep level: 1 keeps the weights in main memory, 2 drops them. */
export type SleepLevel = 1 | 2

export interface SleepAbilities {
  /** The remedy for a server that was started without support for sleep. */
  readonly hint: string
  /** Whether the engine's servers report that they are asleep. If not, the state in the registry applies. */
  readonly reportsSleep: boolean
  /** Whether level 2 differs from level 1. */
  readonly hasLevels: boolean
}

/** Sleep and wake of one engine. @throws ProbeStop, or an Error with the server's answer */
export interface EngineLifecycle extends SleepAbilities {
  /**
   * Puts the server to sleep. Call this only with nothing in flight, because sleep may abort requests or crash the
   * server. Resolves when the server has confirmed.
   */
  sleep(fetch: EngineFetch, basePath: string, level: SleepLevel): Promise<void>
  wake(fetch: EngineFetch, basePath: string): Promise<void>
  /** Whether the server is asleep; null if it does not report this. */
  isSleeping(fetch: EngineFetch, basePath: string): Promise<boolean | null>
}

/** Maximum length of a failure's `detail`, in characters. The detail is stored with every attempt. */
export const MAX_DETAIL_CHARS = 300

export interface EngineReply {
  status: number
  headers: ResponseHeaders
  bodyText: string
}

/**
 * Sends a request outside the router, for example for a probe. `path` starts at the origin's root. Rejects with a
 * {@link ProbeStop} if the server is unreachable, redirects or refuses the key.
 */
export type EngineFetch = (
  path: string,
  init?: { method: 'GET' | 'POST'; body?: string },
) => Promise<EngineReply>

export type ProbeReason =
  | 'forbidden_url'
  | 'server_unreachable'
  | 'server_redirects'
  | 'server_not_recognized'
  | 'model_not_served'
  | 'key_refused'

export type ProbeCause =
  | 'malformed'
  | 'scheme'
  | 'credentials'
  | 'forbidden_address'
  | 'connection'
  | 'dns'
  | 'tls'
  | 'timeout'
  | 'not_ready'
  | 'key_refused'
  | 'redirect'
  | 'not_json'
  | 'unknown_server'
  | 'other_engine'
  | 'other_kind'
  | 'unknown_model'

export interface ProbeFailure {
  ok: false
  reason: ProbeReason
  cause: ProbeCause
  message: string
  hint: string
}

export interface ProbeFacts {
  ok: true
  engine: EngineName
  /** Ids of the served models; empty if not reported. */
  models: string[]
  /** Whether the server ignores the model name of requests, so that a pool can have any name. */
  ignoresModelName?: boolean
  version: string | null
  /** The max context in tokens of the requested model or, if none was requested, of the first model. */
  maxModelLen: number | null
  /** The kind of model; null if not reported. */
  kind: 'discriminative' | 'generative' | null
  /** The scoring route. If null or absent, the engine's default route. */
  route?: ScoreRoute | null
  /** Whether the model has no chat template, see {@link EngineTarget.plainText}. */
  plainText?: boolean
  /** The label whose score is used, by the server's name for it; absent if the engine does not report labels. */
  label?: string | null
  /** Maximum concurrent inputs, if reported (llama.cpp slots, TEI permits). */
  maxConcurrent?: number | null
  canSleep?: boolean
  sleeping?: boolean
  /**
   * Warnings for the admin, for example that SGLang silently truncates long texts; absent if the probe did not check
   * again, so that stored warnings are kept.
   */
  warnings?: string[]
}

export type ProbeResult = ProbeFacts | ProbeFailure

export interface ProbeContext {
  basePath: string
  /** The requested model; null means any. */
  model: string | null
  /**
   * The intended use; null or absent means any. `generative`: the chat route must exist, and no scoring route is tried.
   * `discriminative`: a server that only generates is refused.
   */
  kind?: 'discriminative' | 'generative' | null
  /** The route named at registration. No other route is tried. */
  route?: ScoreRoute | null
  /** The label named at registration. */
  label?: string | null
  /** Whether the registration has a chat template, so that the server needs none. */
  templated?: boolean
  /**
   * The result of an earlier probe. If `inUse`, the server is scoring samples by this route, so the probe tries no
   * routes. Otherwise the probe tries the routes again, and uses the earlier result if the server does not answer.
   */
  known?: { route: ScoreRoute; plainText: boolean; inUse: boolean } | null
  /** Engines by {@link Engine.modelOwner}. */
  engineOfOwner: ReadonlyMap<string | null, EngineName>
}

/** The protocol of one engine: builds requests, reads scores and classifies failures. It keeps no state. */
export interface Engine {
  readonly name: EngineName
  /** Whether the engine's servers return scores. If not, they are for judges only (`openai`). */
  readonly scores: boolean
  /** Whether its servers support /v1/chat/completions and can be judges. */
  readonly chats: boolean
  /**
   * Whether its servers compute scores with the model's head, so that raw scores exist, and constant or bounded scores
   * are a fault. If not, 0 and 1 are normal scores.
   */
  readonly selfTested: boolean
  /** Routes that a registration can name; empty if there is only one. */
  readonly routes: readonly ScoreRoute[]
  /**
   * The labels that a registration can give. `index`: an index. `name`: a name or an index. `two`: index 0 or 1. Null
   * if a registration can give none.
   */
  readonly labels: 'index' | 'name' | 'two' | null
  /**
   * Whether its servers score one text per sample, so that a chat template can join prompt and response. The route
   * `pair` takes prompt and response separately.
   */
  readonly templated: boolean
  /**
   * Whether the concurrency that its servers report is a number of slots, each for one request. The adaptive limit then
   * starts at this number and may fall to 1.
   */
  readonly hasSlots?: boolean
  /** Paths of the router address that its servers serve. Empty for engines with their own format. */
  readonly paths: ReadonlySet<ProxiedPath>
  readonly lifecycle: EngineLifecycle | null
  /** Builds the request for one sample. @throws Error if the target's template rejects the sample */
  buildScoreRequest(input: ScoreInput, target: EngineTarget): EngineRequest
  /** Reads a complete response. Never throws: anything except a finite score is a failure with a reason. */
  parseScoreResponse(
    status: number,
    headers: ResponseHeaders,
    bodyText: string,
    target?: EngineTarget,
  ): EngineScore | EngineFailure
  /** The protocol for micro-batches; null if a request can have only one sample. */
  readonly microBatch: MicroBatchProtocol | null
  /**
   * The protocol for token offsets; absent if the engine's servers return no token scores, or do not list the tokens.
   */
  readonly tokens?: TokenProtocol
  /** Reads the load that the server reports. Resolves to null if it reports none or an invalid one. */
  readLoad(fetch: EngineFetch, basePath: string): Promise<EngineLoad | null>
  /** Checks whether the server runs this engine, and reads its properties. */
  probe(fetch: EngineFetch, context: ProbeContext): Promise<ProbeResult>
  /** `owned_by` of the models in its servers' /v1/models, used for auto-detection; null if there is none. */
  readonly modelOwner: string | null
  /** The remedy for a server that generates text where scores are required. If absent, the general remedy is used. */
  readonly generatesHint?: string
  /**
   * Auto-detects a server whose models have no known owner. Returns the result of {@link probe}, or null if the server
   * may run another engine.
   * @param listed whether the server lists models in /v1/models
   */
  detect(fetch: EngineFetch, context: ProbeContext, listed: boolean): Promise<ProbeResult | null>
}
