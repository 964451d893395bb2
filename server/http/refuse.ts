import type { ServerResponse } from 'node:http'
import { describeError } from '../api/trpc.ts'
import { discardRest } from './body.ts'
import { setAnswerHeaders } from './security-headers.ts'

/** The JSON-RPC code of each tRPC error code; tRPC clients read it. */
const RPC_CODES: Record<string, number> = {
  PARSE_ERROR: -32700,
  BAD_REQUEST: -32600,
  UNAUTHORIZED: -32001,
  FORBIDDEN: -32003,
  NOT_FOUND: -32004,
  METHOD_NOT_SUPPORTED: -32005,
  CONFLICT: -32009,
  PAYLOAD_TOO_LARGE: -32013,
  UNSUPPORTED_MEDIA_TYPE: -32015,
  UNPROCESSABLE_CONTENT: -32022,
  TOO_MANY_REQUESTS: -32029,
  INTERNAL_SERVER_ERROR: -32603,
  SERVICE_UNAVAILABLE: -32603,
}

/**
 * Returns a signal that aborts when the caller disconnects before the answer is complete. If the caller has already
 * disconnected, the signal is already aborted.
 */
export function callerGone(res: ServerResponse): AbortSignal {
  // The response of a client that has left emits no further `close`.
  if (res.destroyed) return AbortSignal.abort()
  const gone = new AbortController()
  res.once('close', () => {
    if (!res.writableFinished) gone.abort()
  })
  return gone.signal
}

export function isCallerGone(res: ServerResponse, error: unknown): boolean {
  return res.destroyed && (error as Error | undefined)?.name === 'AbortError'
}

export function refuse(
  res: ServerResponse,
  error: unknown,
  requestId: string,
  path: string | null,
): void {
  const { message, data } = describeError(error, requestId, path)
  const body = JSON.stringify({ error: { message, code: RPC_CODES[data.code] ?? -32603, data } })
  sendRefusal(res, data.httpStatus, body, data.retryAfterMs)
}

export function sendRefusal(
  res: ServerResponse,
  status: number,
  body: string,
  retryAfterMs: number | undefined,
): void {
  if (res.headersSent) {
    res.destroy()
    return
  }
  if (retryAfterMs !== undefined) {
    res.setHeader('retry-after', Math.max(1, Math.ceil(retryAfterMs / 1_000)))
  }
  setAnswerHeaders(res)
  res.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  })
  // The rest of the body is read before the connection closes. Python's client sends its whole body before it reads, so
  // closing the connection now would give it a broken pipe instead of the answer.
  res.write(body)
  void discardRest(res.req).then(() => res.end())
}
