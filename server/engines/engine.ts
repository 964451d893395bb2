import type { SampleFailureReason } from '../contract/sample-reason.ts'

/** Backends whose protocol is spoken. */
export type EngineName = 'vllm' | 'sglang' | 'tei' | 'llamacpp' | 'openai' | 'openrlhf' | 'http'

/**
 * How a discriminative model is asked on engines that have several ways; found by the probe and kept with the server:
 * - `classify`: the whole text, one logit (vLLM /classify, SGLang /classify and /v1/embeddings, TEI /predict)
 * - `token`: a logit for each token or step, the last one is the score (vLLM /pooling with `token_classify`)
 * - `pair`: prompt and response apart, a cross-encoder (vLLM /score, TEI and llama.cpp /rerank)
 */
export type ScoreRoute = 'classify' | 'token' | 'pair'

/** What a model is asked to score: a prompt, as text or as a conversation, and the answer to it. */
export interface ScoreInput {
  /** A turn without content (a tool call) counts as an empty one. */
  prompt: string | { role: string; content?: string | null | undefined }[]
  response: string
  /** For engines that score by more than the text (`http`): as the trainer gave them. */
  dataSource?: string
  groundTruth?: unknown
  extraInfo?: Record<string, unknown>
}

/** Writes a sample out as its model reads it. Both throw an Error with what is wrong with the sample. */
export interface SampleTemplate {
  renderSample(input: ScoreInput): string
  /** Without one leading BOS, for servers whose tokenizer puts it there. */
  renderSampleWithoutBos(input: ScoreInput): string
}

/** What a request is built for. */
export interface EngineTarget {
  /** The model's name on the server; null: the server has one and needs no name. */
  model: string | null
  /** What the server said its version is; null: unknown, taken as current. */
  version: string | null
  /** Path part of the server's address, without a trailing slash (`''` for the root). */
  basePath?: string
  /** Null or absent: the engine's usual way. */
  route?: ScoreRoute | null
  /** The label whose score is taken, by index or name; null or absent: the last. */
  label?: string | null
  /** The model has no chat template of its own: it is sent prompt, newline, response. */
  plainText?: boolean
  /** Ask for the activated score (sigmoid), not the raw one: only the self-test does. */
  activated?: boolean
  /** The text to score is made with it; null or absent: sent as messages, or as prompt, newline, response. */
  chatTemplate?: SampleTemplate | null
}

/** A POST to the server. `path` is complete, from the origin's root. */
export interface EngineRequest {
  path: string
  body: string | Buffer
  headers?: Record<string, string>
}

/** Response headers, names in lower case. */
export type ResponseHeaders = Record<string, string | string[] | undefined>

/**
 * What a failed call says about the sample, the server and a retry:
 * - `client`: the request itself was refused (4xx). Says nothing about the server's health; the sample's end, at once or
 *   once it is confirmed ({@link EngineFailure.unconfirmed}).
 * - `busy`: 429 or 503. Another server at once, the same after `Retry-After`; neutral for health.
 * - `fault`: 5xx, connection or TLS errors, and what no text can be to blame for: a missing route, a refused key, a page, a
 *   dead engine, whatever the status. Retried on another server; counts against the server.
 * - `stall`: no answer in time.
 * - `corrupt`: an answer that is not a score (NaN, wrong shape). The sample's end once it is confirmed.
 * - `conn_race`: a reused connection closed before the first byte. Same server at once, free, once.
 */
export type FailureClass = 'client' | 'busy' | 'fault' | 'stall' | 'corrupt' | 'conn_race'

/** A call that gave no score. */
export interface EngineFailure {
  ok: false
  class: FailureClass
  reason: SampleFailureReason
  /** What was wrong, in words, at most {@link MAX_DETAIL_CHARS} characters. */
  detail: string
  /** When the server asked to come back, if it did. Not capped here. */
  retryAfterMs?: number
  /** A refusal that a broken server gives as well: it ends a sample only where something else confirms it. */
  unconfirmed?: true
  /** A fault of the server or its set-up that every request would meet: no more samples are spent on it unasked. */
  broken?: true
  /** The reply asked for is too long by what the conversation takes: so many tokens are left for it, at least one. */
  fitMaxTokens?: number
}

/** A finite score, raw as the model gives it (no sigmoid). */
export interface EngineScore {
  ok: true
  score: number
  /** Tokens of the scored text, where the server counts them. */
  promptTokens?: number
  /** Scores of the tokens or steps, in order, where the model gives them; `score` is then the last. */
  tokenScores?: number[]
  /** What a scorer of one's own (`http`) gave beside the score. */
  extra?: Record<string, unknown>
}

/** Scores of several samples asked for by one call. */
export interface MicroBatchScores {
  ok: true
  /** One a sample, in the order they were sent in: one that is no score says nothing of the others. */
  scores: (EngineScore | EngineFailure)[]
  /** Tokens of all the texts together, where the server counts them: it does not tell them apart. */
  promptTokens: number | null
}

/** Several samples in one POST: what a call costs beside the model's work is paid once for all of them. */
export interface MicroBatchProtocol {
  /** False: this server takes one sample a call, by the way it is asked. */
  takes(target: EngineTarget): boolean
  /** The POST that scores them all. Only where {@link takes}. @throws Error where the target's template does not take one */
  build(inputs: readonly ScoreInput[], target: EngineTarget): EngineRequest
  /** Reads the answer to `count` samples. Never throws. A failure is of the call, and so of no sample in particular. */
  parse(
    status: number,
    headers: ResponseHeaders,
    bodyText: string,
    count: number,
    target?: EngineTarget,
  ): MicroBatchScores | EngineFailure
}

/** A conversation for a judge to go on with: what chat completions take, in the fields all backends share. */
export interface ChatRequest {
  messages: { role: string; content: string }[]
  /** Default 0. */
  temperature?: number
  topP?: number
  maxTokens?: number
  stop?: string[]
  seed?: number
  /** Log-probabilities of the chosen token and of this many others. */
  topLogprobs?: number
  /** The reply must be JSON of this schema. */
  jsonSchema?: { name: string; schema: Record<string, unknown> }
  /** Passed to the chat template, e.g. `{"enable_thinking": false}`. */
  chatTemplateKwargs?: Record<string, unknown>
}

/** A judge's reply. One that the server aborted or the model refused is a failure, never a reply. */
export interface ChatReply {
  ok: true
  content: string
  reasoning: string | null
  finishReason: string
  /** The reply was cut off at the token limit (`finish_reason: length`): whether it already holds a verdict is the parser's to say. */
  truncated: boolean
  promptTokens: number | null
  completionTokens: number | null
  /** Of each token of the reply, where asked for: the chosen one and the others by probability. */
  logprobs: { token: string; logprob: number; top: { token: string; logprob: number }[] }[] | null
}

/** What an engine says it has to do at this moment, in requests. */
export interface EngineLoad {
  running: number
  waiting: number
}

/** How far a server that can sleep goes down: 1 keeps the weights in memory, 2 drops them. */
export type SleepLevel = 1 | 2

/** Sleep and wake of one engine. Each rejects with a {@link ProbeStop} or an Error whose message says what the server answered. */
export interface EngineLifecycle {
  /** Sent only when nothing is in flight: it may abort or crash what is. Returns when the server said yes. */
  sleep(fetch: EngineFetch, basePath: string, level: SleepLevel): Promise<void>
  wake(fetch: EngineFetch, basePath: string): Promise<void>
  /** null: the server does not tell (SGLang); then the registry's memory decides. */
  isSleeping(fetch: EngineFetch, basePath: string): Promise<boolean | null>
}

/** Longest `detail` of a failure, in characters: it is stored with every attempt. */
export const MAX_DETAIL_CHARS = 300

/** Answer to one request of a probe. */
export interface EngineReply {
  status: number
  headers: ResponseHeaders
  bodyText: string
}

/**
 * How an engine's probe asks: paths from the origin's root. Rejects with a {@link ProbeStop} for anything
 * that ends the probe (unreachable, a redirect, a refused key).
 */
export type EngineFetch = (
  path: string,
  init?: { method: 'GET' | 'POST'; body?: string },
) => Promise<EngineReply>

/** Why a server cannot be used; words of the service's error table. */
export type ProbeReason =
  | 'forbidden_url'
  | 'server_unreachable'
  | 'server_redirects'
  | 'server_not_recognised'
  | 'model_not_served'
  | 'key_refused'

/** The finer cause under a {@link ProbeReason}, one stable word. */
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

/** A server that cannot be used, with what to do about it. */
export interface ProbeFailure {
  ok: false
  reason: ProbeReason
  cause: ProbeCause
  message: string
  hint: string
}

/** What a server says of itself. */
export interface ProbeFacts {
  ok: true
  engine: EngineName
  /** Model ids served; empty where the server does not tell. */
  models: string[]
  version: string | null
  /** Longest text in tokens, of the first or the asked-for model. */
  maxModelLen: number | null
  /** null: the server does not tell. */
  kind: 'discriminative' | 'generative' | null
  /** How its scores are asked for; null or absent: the engine's usual way. */
  route?: ScoreRoute | null
  /** Its model has no chat template: see {@link EngineTarget.plainText}. */
  plainText?: boolean
  /** The label that is scored, as its server names it; absent: the engine does not tell its labels. */
  label?: string | null
  /** Most inputs it takes at once, where it says so (llama.cpp slots, TEI permits). */
  maxConcurrent?: number | null
  /** It can be put to sleep: the routes for it are there. */
  canSleep?: boolean
  /** It was found asleep. */
  sleeping?: boolean
  /** What should worry whoever registers it, e.g. an SGLang that cuts long texts silently; absent: not looked at again. */
  warnings?: string[]
}

/** Outcome of a probe. */
export type ProbeResult = ProbeFacts | ProbeFailure

/** What an engine's probe is told. */
export interface ProbeContext {
  basePath: string
  /** The model one wants, if one is named. */
  model: string | null
  /**
   * What it is wanted for, if that is known. `generative`: no scoring route is asked for, but the chat route must be
   * there. `discriminative`: a server that only generates is refused.
   */
  kind?: 'discriminative' | 'generative' | null
  /** The route named at registration: no other is asked. */
  route?: ScoreRoute | null
  /** The label named at registration. */
  label?: string | null
  /** A chat template was given at registration, so the server's own is not needed. */
  templated?: boolean
  /**
   * What an earlier probe found. `inUse`: the server scores samples by it, so its routes are not asked again; else it stands
   * where the server fails to answer now.
   */
  known?: { route: ScoreRoute; plainText: boolean; inUse: boolean } | null
}

/** One backend dialect: builds the call, reads the score, names every failure. Holds no state. */
export interface Engine {
  readonly name: EngineName
  /** False: for judges only (`openai`); such a server cannot be registered as discriminative. */
  readonly scores: boolean
  /** True: it speaks /v1/chat/completions and may be registered as generative. */
  readonly chats: boolean
  /**
   * It serves a model's own head: raw scores can be had, and a constant or bounded score is a fault. False where 0 and 1 are
   * normal scores.
   */
  readonly selfTested: boolean
  /** The routes that a registration may name; empty: there is one way to ask. */
  readonly routes: readonly ScoreRoute[]
  /** How a registration may name a label: any by `index`, by `name` too, or `two`: the first or the second of two. */
  readonly labels: 'index' | 'name' | 'two' | null
  /** It scores whole texts, so a chat template makes them (on its route `pair` prompt and response stay apart). */
  readonly templated: boolean
  readonly lifecycle: EngineLifecycle | null
  /** The POST that scores one sample. @throws Error where the target's template does not take it */
  buildScoreRequest(input: ScoreInput, target: EngineTarget): EngineRequest
  /** Reads a complete answer. Never throws: whatever is not a finite score is a failure with a reason. */
  parseScoreResponse(
    status: number,
    headers: ResponseHeaders,
    bodyText: string,
    target?: EngineTarget,
  ): EngineScore | EngineFailure
  /** Null: one sample a call. */
  readonly microBatch: MicroBatchProtocol | null
  /** The load it tells of, null where it does not or answers nonsense. */
  readLoad(fetch: EngineFetch, basePath: string): Promise<EngineLoad | null>
  /** Asks the server what it is. */
  probe(fetch: EngineFetch, context: ProbeContext): Promise<ProbeResult>
}
