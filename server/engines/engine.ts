import type { SampleFailureReason } from '../contract/sample-reason.ts'
import type { ENGINES } from '../contract/servers.ts'

/** A supported engine. */
export type EngineName = (typeof ENGINES)[number]

/**
 * Routes of discriminative models on engines that have several. The probe finds the route, and the registry stores it.
 * - `classify`: the whole text, one logit (vLLM /classify, SGLang /classify and /v1/embeddings, TEI /predict)
 * - `token`: a logit per token or step, the last of which is the score (vLLM /pooling with `token_classify`)
 * - `pair`: prompt and response apart, for a cross-encoder (vLLM /score, TEI and llama.cpp /rerank)
 */
export type ScoreRoute = 'classify' | 'token' | 'pair'

/** A sample to score. */
export interface ScoreInput {
  /** A turn without content (a tool call) counts as empty. */
  prompt: string | { role: string; content?: string | null | undefined }[]
  response: string
  /** For engines that score by more than the text (`http`): as submitted. */
  dataSource?: string
  groundTruth?: unknown
  extraInfo?: Record<string, unknown>
}

/** Writes a sample as text for its model. Both methods throw an Error that describes the problem of the sample. */
export interface SampleTemplate {
  renderSample(input: ScoreInput): string
  /** Omits a leading BOS, for servers whose tokenizer adds it. */
  renderSampleWithoutBos(input: ScoreInput): string
}

/** The server and model that a request is built for. */
export interface EngineTarget {
  /** The model's name on the server; null: the server needs no name. */
  model: string | null
  /** The reported version; null: unknown, treated as current. */
  version: string | null
  /** Path of the server's address, without a trailing slash (`''` for the root). */
  basePath?: string
  /** Null or absent: the engine's default route. */
  route?: ScoreRoute | null
  /** The label that is the score, by index or name; null or absent: the last. */
  label?: string | null
  /** The model has no chat template: it gets prompt, newline, response. */
  plainText?: boolean
  /** Requests the activated score (sigmoid) instead of the raw one. Only the self-test does. */
  activated?: boolean
  /** Renders the text to score; null or absent: the sample is sent as messages, or as prompt, newline, response. */
  chatTemplate?: SampleTemplate | null
}

/** A POST to the server. `path` starts at the origin's root. */
export interface EngineRequest {
  path: string
  body: string | Buffer
  headers?: Record<string, string>
}

/** Response headers with lower-case names. */
export type ResponseHeaders = Record<string, string | string[] | undefined>

/**
 * Classes of failed requests, by what they mean for the sample, the server and a retry:
 * - `client`: the request was refused (4xx). It does not affect the server's health, and ends the sample, at once or after
 *   confirmation ({@link EngineFailure.unconfirmed}).
 * - `busy`: 429 or 503. Retried at once on another server, on the same one after `Retry-After`; neutral for health.
 * - `fault`: 5xx, connection or TLS errors, and failures that no text can cause, with any status: a missing route, a
 *   refused key, an HTML page, a dead engine. Retried on another server; counts against the server.
 * - `stall`: no response in time.
 * - `corrupt`: a response without a score (NaN, wrong format). Ends the sample after confirmation.
 * - `conn_race`: a reused connection closed before the first byte. Retried once on the same server, without counting.
 */
export type FailureClass = 'client' | 'busy' | 'fault' | 'stall' | 'corrupt' | 'conn_race'

/** A request without a score. */
export interface EngineFailure {
  ok: false
  class: FailureClass
  reason: SampleFailureReason
  /** The problem in words, at most {@link MAX_DETAIL_CHARS} characters. */
  detail: string
  /** The server's `Retry-After`, uncapped. */
  retryAfterMs?: number
  /** The refusal may come from a broken server: it ends a sample only after confirmation. */
  unconfirmed?: true
  /**
   * A fault of the server or its configuration that affects every request, so no more samples are sent to it without a
   * probe.
   */
  broken?: true
  /** The tokens left for the reply, at least one, if the requested length did not fit. */
  fitMaxTokens?: number
}

/** A finite, raw score (no sigmoid). */
export interface EngineScore {
  ok: true
  score: number
  /** Tokens of the scored text, if reported. */
  promptTokens?: number
  /** Scores of the tokens or steps, if the model returns them; the last is `score`. */
  tokenScores?: number[]
  /** Further fields returned by a custom scorer (`http`). */
  extra?: Record<string, unknown>
}

/** Scores of a micro-batch. */
export interface MicroBatchScores {
  ok: true
  /** One per sample, in request order. A failure of one sample does not affect the others. */
  scores: (EngineScore | EngineFailure)[]
  /** Tokens of all texts together, if reported. */
  promptTokens: number | null
}

/** Micro-batching: several samples share the fixed cost of one request. */
export interface MicroBatchProtocol {
  /** Whether the target accepts several samples per request. */
  takes(target: EngineTarget): boolean
  /**
   * Builds the request, if the target {@link takes} several. @throws Error if the target's template rejects a sample
   */
  build(inputs: readonly ScoreInput[], target: EngineTarget): EngineRequest
  /** Reads the response for `count` samples. Never throws. A failure is of the request, and not of one sample. */
  parse(
    status: number,
    headers: ResponseHeaders,
    bodyText: string,
    count: number,
    target?: EngineTarget,
  ): MicroBatchScores | EngineFailure
}

/** A conversation for a judge to continue, in the chat-completion fields that all backends share. */
export interface ChatRequest {
  messages: { role: string; content: string }[]
  /** Default 0. */
  temperature?: number
  topP?: number
  maxTokens?: number
  stop?: string[]
  seed?: number
  /** Returns log-probabilities of the chosen token and of so many alternatives. */
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
   * The reply was cut off at the token limit (`finish_reason: length`). The parser decides whether it already holds a
   * verdict.
   */
  truncated: boolean
  promptTokens: number | null
  completionTokens: number | null
  /** The chosen token and its alternatives, for each token of the reply, if requested. */
  logprobs: { token: string; logprob: number; top: { token: string; logprob: number }[] }[] | null
}

/** The load that an engine reports, in requests. */
export interface EngineLoad {
  running: number
  waiting: number
}

/** Sleep level: 1 keeps the weights in memory, 2 drops them. */
export type SleepLevel = 1 | 2

/** Sleep and wake of one engine. @throws ProbeStop, or an Error with the server's answer */
export interface EngineLifecycle {
  /**
   * Called only with nothing in flight, because sleep may abort requests or crash the server. Resolves when the server
   * has confirmed.
   */
  sleep(fetch: EngineFetch, basePath: string, level: SleepLevel): Promise<void>
  wake(fetch: EngineFetch, basePath: string): Promise<void>
  /** Null: the server does not report it (SGLang), and the registry's state decides. */
  isSleeping(fetch: EngineFetch, basePath: string): Promise<boolean | null>
}

/** Longest `detail` of a failure, in characters. It is stored with every attempt. */
export const MAX_DETAIL_CHARS = 300

/** The response to a request of a probe. */
export interface EngineReply {
  status: number
  headers: ResponseHeaders
  bodyText: string
}

/**
 * Sends a request of a probe; paths start at the origin's root. Rejects with a {@link ProbeStop} for anything that ends
 * the probe (unreachable, a redirect, a refused key).
 */
export type EngineFetch = (
  path: string,
  init?: { method: 'GET' | 'POST'; body?: string },
) => Promise<EngineReply>

/** Reasons why a server cannot be used, as in the service's error table. */
export type ProbeReason =
  | 'forbidden_url'
  | 'server_unreachable'
  | 'server_redirects'
  | 'server_not_recognised'
  | 'model_not_served'
  | 'key_refused'

/** The cause within a {@link ProbeReason}. */
export type ProbeCause =
  | 'malformed'
  | 'scheme'
  | 'credentials'
  | 'link_local'
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

/** A server that cannot be used, with the remedy. */
export interface ProbeFailure {
  ok: false
  reason: ProbeReason
  cause: ProbeCause
  message: string
  hint: string
}

/** What a server reports about itself. */
export interface ProbeFacts {
  ok: true
  engine: EngineName
  /** Ids of the served models; empty: not reported. */
  models: string[]
  version: string | null
  /** The max context in tokens, of the first or the requested model. */
  maxModelLen: number | null
  /** Null: not reported. */
  kind: 'discriminative' | 'generative' | null
  /** The scoring route; null or absent: the engine's default. */
  route?: ScoreRoute | null
  /** The model has no chat template, see {@link EngineTarget.plainText}. */
  plainText?: boolean
  /** The label that is the score, as the server names it; absent: the engine does not report labels. */
  label?: string | null
  /** The most simultaneous inputs, if reported (llama.cpp slots, TEI permits). */
  maxConcurrent?: number | null
  /** The server has the routes for sleep. */
  canSleep?: boolean
  /** The server sleeps. */
  sleeping?: boolean
  /** Warnings for the admin, for example an SGLang that truncates long texts silently; absent: not checked again. */
  warnings?: string[]
}

/** Outcome of a probe. */
export type ProbeResult = ProbeFacts | ProbeFailure

/** Input of a probe. */
export interface ProbeContext {
  basePath: string
  /** The requested model; null: any. */
  model: string | null
  /**
   * The intended use; null or absent: any. `generative`: no scoring route is tried, and the chat route must exist.
   * `discriminative`: a server that only generates is refused.
   */
  kind?: 'discriminative' | 'generative' | null
  /** The route named at registration: no other is tried. */
  route?: ScoreRoute | null
  /** The label named at registration. */
  label?: string | null
  /** The registration has a chat template, so the server needs none. */
  templated?: boolean
  /**
   * The result of an earlier probe. `inUse`: the server scores samples by this route, so it is not tried again;
   * otherwise it remains valid while the server does not answer.
   */
  known?: { route: ScoreRoute; plainText: boolean; inUse: boolean } | null
}

/** The protocol of one backend: builds requests, reads scores and classifies failures. Stateless. */
export interface Engine {
  readonly name: EngineName
  /** False: judges only (`openai`). Such a server cannot be registered as discriminative. */
  readonly scores: boolean
  /** Supports /v1/chat/completions and can be registered as generative. */
  readonly chats: boolean
  /**
   * The server runs the model's head itself: raw scores exist, and constant or bounded scores are a fault. False: 0 and
   * 1 are normal scores.
   */
  readonly selfTested: boolean
  /** Routes that a registration can name; empty: there is only one. */
  readonly routes: readonly ScoreRoute[]
  /** The way to name a label: any by `index`; by `name` or index; or `two`: the first or the second of two. */
  readonly labels: 'index' | 'name' | 'two' | null
  /** Scores whole texts, which a chat template renders (the route `pair` keeps prompt and response apart). */
  readonly templated: boolean
  readonly lifecycle: EngineLifecycle | null
  /** Builds the request for one sample. @throws Error if the target's template rejects the sample */
  buildScoreRequest(input: ScoreInput, target: EngineTarget): EngineRequest
  /** Reads a complete response. Never throws: anything but a finite score is a failure with a reason. */
  parseScoreResponse(
    status: number,
    headers: ResponseHeaders,
    bodyText: string,
    target?: EngineTarget,
  ): EngineScore | EngineFailure
  /** Null: one sample per request. */
  readonly microBatch: MicroBatchProtocol | null
  /** Reads the reported load; null: not reported, or invalid. */
  readLoad(fetch: EngineFetch, basePath: string): Promise<EngineLoad | null>
  /** Identifies the server. */
  probe(fetch: EngineFetch, context: ProbeContext): Promise<ProbeResult>
}
