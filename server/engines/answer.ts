import type { SampleFailureReason } from '../contract/sample-reason.ts'
import {
  type EngineFailure,
  type EngineScore,
  type FailureClass,
  MAX_DETAIL_CHARS,
  type MicroBatchScores,
  type ResponseHeaders,
} from './engine.ts'

export function failure(
  failureClass: FailureClass,
  reason: SampleFailureReason,
  detail: string,
): EngineFailure {
  return { ok: false, class: failureClass, reason, detail: clip(detail) }
}

export function clip(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim()
  return line.length <= MAX_DETAIL_CHARS ? line : `${line.slice(0, MAX_DETAIL_CHARS - 1)}…`
}

/**
 * Messages of the backends about texts that are too long: vLLM "This model's maximum context length is …", SGLang "The
 * input (n tokens) is longer than the model's context length", llama.cpp `exceed_context_size_error`, TEI "must have
 * less than n tokens" (or characters, which it counts first), OpenAI's code `context_length_exceeded`.
 */
const CONTEXT_EXCEEDED =
  /context[ _]length|context size|exceed_context_size|max(?:imum)?[ _]model[ _]len|longer than the (?:maximum )?model|token count exceeds|must have less than \d+ (?:tokens|characters)/i

/**
 * llama.cpp answers 500 to a text longer than its physical batch (`-ub`, 512 by default). Another replica would fail
 * too, so the sample is not retried.
 */
const BATCH_EXCEEDED = /too large to process\. increase the physical batch/i

/** vLLM answers 400 when a score is NaN, because its JSON encoder refuses the number. TEI answers "score is NaN". */
const NON_FINITE_REFUSAL = /out of range float values|score is nan/i

/** vLLM's message with status 400 for a failure of the engine, not of the request. */
const ENGINE_FAILED = /failed to generate results for all prompts/i

/** vLLM reports a dead engine process with 400 (0.11), 500, or 200 (0.14). */
export const ENGINE_DEAD = /EngineCore encountered|EngineDeadError|background loop has errored/i

/** If the model does not support a task, vLLM answers 200 with an error code in the body (0.11, 0.14), or 501. */
const NO_ROUTE = /does not support [\w ]{1,40} API\b/i

/**
 * Statuses that concern the server, its URL or its key, regardless of the message: missing route or model, refused key,
 * exhausted quota, wrong protocol. 413 and 422 are not among them, because they concern one request.
 */
const OF_THE_SERVER = new Set([401, 402, 403, 404, 405, 406, 407, 410, 411, 415, 421, 426, 501])

export function classifyStatus(
  status: number,
  headers: ResponseHeaders,
  bodyText: string,
): EngineFailure {
  return classify(status, headers, bodyText, `answered ${status}`)
}

/** Classifies an error response. `status` is the HTTP status, or the code in the error of a 200 response. */
function classify(
  status: number,
  headers: ResponseHeaders,
  bodyText: string,
  prefix: string,
): EngineFailure {
  if (status >= 300 && status < 400) {
    const location = headers.location
    const target = typeof location === 'string' ? `to ${location}` : 'without a Location'
    return broken('transport', `${prefix}, a redirect ${target}; redirects are never followed`)
  }
  const message = errorMessage(bodyText)
  const detail = message === '' ? prefix : `${prefix}: ${message}`
  // A validation error repeats the input, so its wording may come from the sample and is not searched.
  const words = /^\d+ validation errors?:/.test(message) ? '' : message
  if (ENGINE_DEAD.test(words)) return broken('transport', detail)
  if (status === 429 || status === 503) {
    const busy = failure('busy', status === 429 ? 'rejected' : 'transport', detail)
    const after = retryAfterMs(headers, Date.now())
    if (after !== null) busy.retryAfterMs = after
    return busy
  }
  if (NON_FINITE_REFUSAL.test(words)) return failure('corrupt', 'non_finite', detail)
  if (BATCH_EXCEEDED.test(words)) return failure('client', 'context_exceeded', detail)
  // A proxy's HTML page with status 413 refuses only this one large request.
  const isPage = status < 500 && status !== 413 && looksLikeHtml(bodyText)
  if (isPage || OF_THE_SERVER.has(status) || NO_ROUTE.test(words)) {
    return broken('transport', detail)
  }
  if (status === 408 || status === 424 || status >= 500 || ENGINE_FAILED.test(words)) {
    return failure('fault', 'transport', detail)
  }
  const left = tokensLeft(words)
  if (left !== null) return replyTooLong(left, detail)
  if (CONTEXT_EXCEEDED.test(words) || CONTEXT_EXCEEDED.test(errorCode(bodyText))) {
    return failure('client', 'context_exceeded', detail)
  }
  return { ...failure('client', 'rejected', detail), unconfirmed: true }
}

/** Returns a fault of the server that affects every request. */
export function broken(reason: SampleFailureReason, detail: string): EngineFailure {
  return { ...failure('fault', reason, detail), broken: true }
}

/**
 * Messages of chat servers about a `max_tokens` that does not fit after the conversation: vLLM "'max_tokens' … is too
 * large: 1024. This model's maximum context length is 1024 tokens and your request has 115 input tokens"; older vLLM
 * and OpenAI "maximum context length is 4096 tokens. However, you requested 5000 tokens (3000 in the messages, 2000 in
 * the completion)"; SGLang "exceeds the model's maximum context length of 4096 tokens. You requested a total of 5000
 * tokens: 3000 tokens from the input messages and 2000 tokens for the completion".
 */
const REPLY_TOO_LONG = [
  /max_(?:completion_)?tokens\W.*too large.*context length is (\d+) tokens and your request has (\d+) input tokens/i,
  /context length is (\d+) tokens\. However, you requested \d+ tokens \((\d+) in the messages, [1-9]\d* in the completion\)/i,
  /context length of (\d+) tokens\. You requested a total of \d+ tokens: (\d+) tokens from the input messages/i,
]

/**
 * Returns the number of tokens left for the reply, or null if none are left or the server refused for another reason.
 */
function tokensLeft(message: string): number | null {
  for (const pattern of REPLY_TOO_LONG) {
    const found = pattern.exec(message)
    if (found === null) continue
    const left = Number(found[1]) - Number(found[2])
    return left > 0 ? left : null
  }
  return null
}

function replyTooLong(left: number, detail: string): EngineFailure {
  const explained = `maxTokens is too large, ${left} tokens are left for the reply: ${detail}`
  return { ...failure('client', 'rejected', explained), fitMaxTokens: left }
}

/**
 * Returns the message of an error body in any format: `{"error":{"message"}}`, `{"error":"…"}`, `{"message"}`,
 * FastAPI's `{"detail"}`, plain text, or an HTML page.
 */
export function errorMessage(bodyText: string): string {
  const text = bodyText.slice(0, 8192)
  if (looksLikeHtml(text)) return clip(htmlText(text))
  let value: unknown
  try {
    value = JSON.parse(bodyText)
  } catch {
    return clip(text)
  }
  return clip(messageOf(value) ?? text)
}

function messageOf(value: unknown): string | null {
  if (typeof value === 'string') return value
  if (typeof value !== 'object' || value === null) return null
  const { error, message, detail } = value as Record<string, unknown>
  if (typeof error === 'string') return error
  if (typeof error === 'object' && error !== null) {
    const inner = error as Record<string, unknown>
    const type = typeof inner.type === 'string' ? inner.type : null
    if (typeof inner.message === 'string') {
      // llama.cpp and vLLM name the kind of error in `type`.
      return type === null ? inner.message : `${inner.message} (${type})`
    }
  }
  if (typeof message === 'string') return message
  if (typeof detail === 'string') return detail
  if (Array.isArray(detail)) return validationMessage(detail)
  return detail === undefined ? null : JSON.stringify(detail)
}

/** Joins FastAPI's validation errors, without the input that they repeat. */
function validationMessage(detail: unknown[]): string {
  return detail
    .map((entry) => {
      const where = field(entry, 'loc')
      const what = field(entry, 'msg')
      if (typeof what !== 'string') return JSON.stringify(entry)
      return Array.isArray(where) ? `${where.join('.')}: ${what}` : what
    })
    .join('; ')
}

function errorCode(bodyText: string): string {
  try {
    const code = field(field(JSON.parse(bodyText), 'error'), 'code')
    return typeof code === 'string' ? code : ''
  } catch {
    return ''
  }
}

export function looksLikeHtml(text: string): boolean {
  return /^\s*<(?:!doctype html|html|head|body)\b/i.test(text)
}

function htmlText(html: string): string {
  const title = /<title[^>]*>([^<]*)<\/title>/i.exec(html)?.[1]
  if (title) return `HTML page "${title.trim()}"`
  return `HTML page: ${html.replace(/<[^>]*>/g, ' ')}`
}

export type JsonAnswer = { ok: true; value: unknown } | EngineFailure

export function readJsonAnswer(
  status: number,
  headers: ResponseHeaders,
  bodyText: string,
): JsonAnswer {
  if (status < 200 || status >= 300) return classifyStatus(status, headers, bodyText)
  let value: unknown
  try {
    value = JSON.parse(bodyText)
  } catch {
    return unparsed(bodyText)
  }
  return errorInside(status, headers, bodyText, value) ?? { ok: true, value }
}

/** Fields that hold scores and replies. An `error` next to one of them is ignored. */
const ANSWERS = ['data', 'results', 'rewards', 'choices']

/**
 * Classifies a 2xx response that has an error instead of a score. Returns null if it has no error. vLLM answers like
 * this on /pooling and /score, with the status of the error as `code`.
 */
function errorInside(
  status: number,
  headers: ResponseHeaders,
  bodyText: string,
  value: unknown,
): EngineFailure | null {
  const error = field(value, 'object') === 'error' ? value : field(value, 'error')
  if (error === undefined || error === null || error === false || error === '') return null
  if (ANSWERS.some((name) => Array.isArray(field(value, name)))) return null
  const code = Number(field(error, 'code') ?? field(value, 'code'))
  if (Number.isInteger(code) && code >= 400 && code < 600) {
    return classify(code, headers, bodyText, `answered ${status} with error code ${code}`)
  }
  // An error without a status is most likely the server's failure.
  return classify(500, headers, bodyText, `answered ${status} with an error`)
}

function unparsed(bodyText: string): EngineFailure {
  if (hasBareNonFinite(bodyText)) {
    return failure('corrupt', 'non_finite', `answered NaN or an infinity: ${bodyText}`)
  }
  if (bodyText.trim() === '')
    return failure('corrupt', 'unparseable', 'answered with an empty body')
  if (looksLikeHtml(bodyText)) {
    return broken('unparseable', `answered with an ${htmlText(bodyText.slice(0, 8192))}`)
  }
  return failure('corrupt', 'unparseable', `answered with something that is not JSON: ${bodyText}`)
}

/**
 * Whether a body is JSON except for bare NaN or Infinity tokens, which Python's encoder writes and JSON forbids.
 * Strings are skipped, so a label "NaN" does not count.
 */
function hasBareNonFinite(bodyText: string): boolean {
  let found = false
  const patched = bodyText.replace(/"(?:[^"\\]|\\.)*"|-?\b(?:NaN|Infinity|nan|inf)\b/g, (token) => {
    if (token.startsWith('"')) return token
    found = true
    return 'null'
  })
  if (!found) return false
  try {
    JSON.parse(patched)
    return true
  } catch {
    return false
  }
}

/**
 * Checks that a value is a finite number; `where` names the value in failures. `null` counts as non-finite and not as
 * missing, because encoders that cannot write NaN, such as orjson, write null instead.
 */
export function finiteScore(value: unknown, where: string): number | EngineFailure {
  if (typeof value === 'number') {
    // JSON has no Infinity, but 1e999 parses to it.
    return Number.isFinite(value) ? value : failure('corrupt', 'non_finite', `${where} is ${value}`)
  }
  if (value === null) return failure('corrupt', 'non_finite', `${where} is null`)
  if (typeof value === 'string' && /^\s*[+-]?(?:nan|inf(?:inity)?)\s*$/i.test(value)) {
    return failure('corrupt', 'non_finite', `${where} is "${value.trim()}"`)
  }
  if (value === undefined) return failure('corrupt', 'unparseable', `${where} is missing`)
  return failure('corrupt', 'unparseable', `${where} is ${typeof value}, not a number`)
}

export function onlyElement(value: unknown, where: string): { item: unknown } | EngineFailure {
  const found = elementsOf(value, where, 1)
  return 'items' in found ? { item: found.items[0] } : found
}

export function lastNumber(list: unknown, where: string): number | EngineFailure {
  if (!Array.isArray(list) || list.length === 0) {
    return failure('corrupt', 'unparseable', `${where} is not a list of numbers`)
  }
  return finiteScore(list[list.length - 1], `${where}[-1]`)
}

export function elementsOf(
  value: unknown,
  where: string,
  count: number,
): { items: unknown[] } | EngineFailure {
  if (!Array.isArray(value)) return failure('corrupt', 'unparseable', `${where} is not a list`)
  if (value.length !== count) {
    const texts = count === 1 ? 'one text' : `${count} texts`
    return failure('corrupt', 'unparseable', `${where} has ${value.length} entries for ${texts}`)
  }
  return { items: value }
}

/** Returns the entries of `data` in request order. vLLM and SGLang number the entries by `index`. */
function dataOf(answer: unknown, count: number): { items: unknown[] } | EngineFailure {
  const found = elementsOf(field(answer, 'data'), 'data', count)
  if (!('items' in found)) return found
  const items = new Array<unknown>(count)
  const seen = new Set<unknown>()
  for (const item of found.items) {
    const index = field(item, 'index')
    if (!Number.isInteger(index) || (index as number) < 0 || (index as number) >= count) {
      return failure('corrupt', 'unparseable', `data has an entry of index ${String(index)}`)
    }
    seen.add(index)
    items[index as number] = item
  }
  return seen.size === count
    ? { items }
    : failure('corrupt', 'unparseable', `data has entries for ${seen.size} of ${count} texts`)
}

/** Reads a response for several texts: `data` has a numbered entry per text, and `usage` counts the tokens of all. */
export function readMicroBatchData(
  status: number,
  headers: ResponseHeaders,
  bodyText: string,
  count: number,
  scoreOf: (entry: unknown, at: number) => EngineScore | EngineFailure,
): MicroBatchScores | EngineFailure {
  const answer = readJsonAnswer(status, headers, bodyText)
  if (!answer.ok) return answer
  const data = dataOf(answer.value, count)
  if (!('items' in data)) return data
  return {
    ok: true,
    scores: data.items.map(scoreOf),
    promptTokens: promptTokensOf(answer.value) ?? null,
  }
}

export function onlyDatum(answer: unknown): { item: unknown } | EngineFailure {
  return onlyElement(field(answer, 'data'), 'data')
}

export function scored(
  score: number | EngineFailure,
  answer: unknown,
): EngineScore | EngineFailure {
  if (typeof score !== 'number') return score
  const promptTokens = promptTokensOf(answer)
  return promptTokens === undefined ? { ok: true, score } : { ok: true, score, promptTokens }
}

export function field(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null
    ? (value as Record<string, unknown>)[key]
    : undefined
}

function promptTokensOf(answer: unknown): number | undefined {
  const tokens = field(field(answer, 'usage'), 'prompt_tokens')
  return typeof tokens === 'number' && Number.isFinite(tokens) ? tokens : undefined
}

/** All three formats of an HTTP date start with the day's name. */
const HTTP_DATE = /^\s*(?:mon|tue|wed|thu|fri|sat|sun)/i

/**
 * Returns the delay that a server requests, in ms, or null if it requests none. Reads `retry-after-ms`,
 * `x-ms-retry-after-ms` and `retry-after` (seconds, or an HTTP date relative to `nowEpochMs`).
 */
export function retryAfterMs(headers: ResponseHeaders, nowEpochMs: number): number | null {
  const exact = first(headers['retry-after-ms']) ?? first(headers['x-ms-retry-after-ms'])
  if (exact !== undefined) {
    const ms = Number(exact)
    if (exact.trim() !== '' && Number.isFinite(ms) && ms >= 0) return ms
  }
  const after = first(headers['retry-after'])
  if (after === undefined || after.trim() === '') return null
  const seconds = Number(after)
  if (Number.isFinite(seconds)) return seconds >= 0 ? seconds * 1000 : null
  // Date.parse would read "2 s" as a date in 2001.
  const date = HTTP_DATE.test(after) ? Date.parse(after) : Number.NaN
  return Number.isNaN(date) ? null : Math.max(0, date - nowEpochMs)
}

function first(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value
}
