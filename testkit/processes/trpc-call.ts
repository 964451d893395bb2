import { createTRPCClient, httpLink, type TRPCClient, TRPCClientError } from '@trpc/client'
import type { inferRouterInputs } from '@trpc/server'
import { type Dispatcher, request } from 'undici'
import type { AppRouter } from '../../server/api/root.ts'
import type { ErrorData } from '../../server/contract/error-reasons.ts'

/** All procedures, typed: `api.batches.next.query({…})`. */
export type Api = TRPCClient<AppRouter>
export type ApiInputs = inferRouterInputs<AppRouter>

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

/** The error of a refused call, with everything that a trainer sees of the refusal. */
export class CallError extends TRPCClientError<AppRouter> {
  readonly status: number
  override readonly data: ErrorData
  readonly retryAfter: string | undefined

  constructor(answer: RawAnswer, message: string, data: ErrorData) {
    super(`${data.path}: ${answer.status} ${data.reason}: ${message}`)
    // The constructor of TRPCClientError sets the prototype to its own, so this constructor sets the prototype again.
    Object.setPrototypeOf(this, CallError.prototype)
    this.name = 'CallError'
    this.status = answer.status
    this.data = data
    this.retryAfter = answer.headers['retry-after'] as string | undefined
  }
}

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
 * A typed client of the API, as trainers use it. `origin` is evaluated at each call, because a restarted service may
 * have another origin. Refused calls throw CallError.
 */
export function createApi(
  origin: () => string,
  headers: Record<string, string> = {},
  dispatcher?: Dispatcher,
): Api {
  return createTRPCClient<AppRouter>({
    links: [
      httpLink({
        url: '/api/trpc',
        headers,
        fetch: async (path, init) => {
          const answer = await rawRequest(`${origin()}${path}`, init as RawRequest, dispatcher)
          const envelope = answer.json as {
            result?: unknown
            error?: { message: string; data: ErrorData }
          } | null
          if (envelope?.error)
            throw new CallError(answer, envelope.error.message, envelope.error.data)
          if (answer.status !== 200 || !envelope?.result) {
            throw new Error(`${path}: answered ${answer.status}: ${answer.text.slice(0, 500)}`)
          }
          return { ok: true, json: async () => envelope }
        },
      }),
    ],
  })
}
