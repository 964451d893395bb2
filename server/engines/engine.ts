import type { SampleFailureReason } from '../wire/sample-reason.ts'

/** Backends whose protocol is spoken. */
export type EngineName = 'vllm' | 'sglang' | 'openrlhf'

/** What a model is asked to score: a prompt, as text or as a conversation, and the answer to it. */
export interface ScoreInput {
  /** A turn without content (a tool call) counts as an empty one. */
  prompt: string | { role: string; content?: string | null | undefined }[]
  response: string
}

/** What a request is built for. */
export interface EngineTarget {
  /** The model's name on the server; null: the server has one and needs no name. */
  model: string | null
  /** What the server said its version is; null: unknown, taken as current. */
  version: string | null
  /** Path part of the server's address, without a trailing slash (`''` for the root). */
  basePath?: string
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
 * - `client`: the request itself was refused (4xx). Not retried; says nothing about the server's health.
 * - `busy`: 429 or 503. Another server at once, the same after `Retry-After`; neutral for health.
 * - `fault`: 5xx, connection or TLS errors. Retried on another server; counts against the server.
 * - `stall`: no answer in time.
 * - `corrupt`: an answer that is not a score (NaN, wrong shape, HTML, a redirect). Once more on another server.
 * - `conn_race`: a reused connection closed before the first byte. Same server at once, free, once.
 */
export type FailureClass = 'client' | 'busy' | 'fault' | 'stall' | 'corrupt' | 'conn_race'

/** A call that gave no score. */
export interface EngineFailure {
  ok: false
  class: FailureClass
  reason: SampleFailureReason
  /** What was wrong, in words, at most {@link DETAIL_LIMIT} characters. */
  detail: string
  /** When the server asked to come back, if it did. Not capped here. */
  retryAfterMs?: number
}

/** A finite score, raw as the model gives it (no sigmoid). */
export interface EngineScore {
  ok: true
  score: number
  /** Tokens of the scored text, where the server counts them. */
  promptTokens?: number
}

/** Longest `detail` of a failure, in characters: it is stored with every attempt. */
export const DETAIL_LIMIT = 300

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
}

/** Outcome of a probe. */
export type ProbeResult = ProbeFacts | ProbeFailure

/** What an engine's probe is told. */
export interface ProbeContext {
  basePath: string
  /** The model one wants, if one is named. */
  model: string | null
}

/** One backend dialect: builds the call, reads the score, names every failure. Holds no state. */
export interface Engine {
  readonly name: EngineName
  /** The POST that scores one sample. */
  buildScoreRequest(input: ScoreInput, target: EngineTarget): EngineRequest
  /** Reads a complete answer. Never throws: whatever is not a finite score is a failure with a reason. */
  parseScoreResponse(
    status: number,
    headers: ResponseHeaders,
    bodyText: string,
  ): EngineScore | EngineFailure
  /** Asks the server what it is. */
  probe(fetch: EngineFetch, context: ProbeContext): Promise<ProbeResult>
}
