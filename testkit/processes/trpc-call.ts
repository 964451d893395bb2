import { type Dispatcher, request } from 'undici'
import type { ErrorData } from '../../server/contract/error-reasons.ts'

/** An HTTP answer: status, headers, and the body, parsed if it is JSON. */
export interface RawAnswer {
  status: number
  headers: Record<string, string | string[] | undefined>
  text: string
  json: unknown
}

/** A request; the body is sent unchanged. */
export interface RawRequest {
  method?: 'GET' | 'POST' | 'HEAD'
  headers?: Record<string, string>
  body?: string | Buffer
  signal?: AbortSignal
}

/** A refused call, with everything that a trainer sees of it. */
export class CallError extends Error {
  readonly status: number
  readonly data: ErrorData
  readonly retryAfter: string | undefined

  constructor(path: string, answer: RawAnswer, message: string, data: ErrorData) {
    super(`${path}: ${answer.status} ${data.reason}: ${message}`)
    this.name = 'CallError'
    this.status = answer.status
    this.data = data
    this.retryAfter = answer.headers['retry-after'] as string | undefined
  }
}

/** Sends one request and reads the whole answer. */
export async function rawRequest(
  url: string,
  options: RawRequest,
  dispatcher?: Dispatcher,
): Promise<RawAnswer> {
  const answer = await request(url, {
    method: options.method ?? 'GET',
    headers: options.headers ?? {},
    body: options.body ?? null,
    signal: options.signal ?? null,
    ...(dispatcher ? { dispatcher } : {}),
  })
  const text = await answer.body.text()
  let json: unknown = null
  try {
    json = JSON.parse(text)
  } catch {
    // The body is not JSON.
  }
  return { status: answer.statusCode, headers: answer.headers, text, json }
}

/**
 * The data of a tRPC answer.
 * @throws CallError for a refusal; Error for any other answer
 */
export function unwrap<T>(path: string, answer: RawAnswer): T {
  const envelope = answer.json as {
    result?: { data: T }
    error?: { message: string; data: ErrorData }
  } | null
  if (envelope?.error) {
    throw new CallError(path, answer, envelope.error.message, envelope.error.data)
  }
  if (answer.status !== 200 || !envelope?.result) {
    throw new Error(`${path}: answered ${answer.status}: ${answer.text.slice(0, 500)}`)
  }
  return envelope.result.data
}
