import {
  type IncomingHttpHeaders,
  type IncomingMessage,
  validateHeaderName,
  validateHeaderValue,
} from 'node:http'

/** Of one connection, not of the request: never passed on, in either direction (RFC 9110, 7.6.1). */
const HOP_BY_HOP = [
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]

/** Request headers that stay here. */
const KEPT: ReadonlySet<string> = new Set([
  ...HOP_BY_HOP,
  // Said anew by the connection to the server; the body goes out unpacked.
  'host',
  'content-length',
  'content-encoding',
  'expect',
  // The caller's keys for us, in every place where clients put one: the server gets its registered key.
  'authorization',
  'cookie',
  'x-api-key',
  'api-key',
  // Ours: what they ask for is done here.
  'x-model',
  'x-group-id',
  'x-run-id',
  'x-priority',
  'x-deadline-ms',
  'x-route-policy',
  // Set anew, so that it is there when the caller sent none.
  'x-request-id',
])

/**
 * A request's headers as a server gets them, names and values in turn: the caller's as they are, without what is of this
 * connection, the caller's key or meant for us.
 */
export function requestHeaders(
  req: IncomingMessage,
  requestId: string,
  apiKey: string | null,
): string[] {
  const { rawHeaders } = req
  const named = namedByConnection(req.headers.connection)
  const headers: string[] = ['x-request-id', requestId]
  if (apiKey !== null) headers.push('authorization', `Bearer ${apiKey}`)
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string
    const lower = name.toLowerCase()
    if (KEPT.has(lower) || named?.has(lower)) continue
    headers.push(name, rawHeaders[i + 1] as string)
  }
  return headers
}

/**
 * Response headers that are not passed on: those of the connection, and those that would speak for our own address and its
 * pages (a server must not set or clear our cookies). `x-request-id` is ours.
 */
const LEFT_OUT: ReadonlySet<string> = new Set([
  ...HOP_BY_HOP,
  'set-cookie',
  'clear-site-data',
  'strict-transport-security',
  'alt-svc',
  'x-request-id',
])

/** A server's response headers as ours, names and values in turn. */
export function responseHeaders(headers: IncomingHttpHeaders): string[] {
  const named = namedByConnection(headers.connection)
  const out: string[] = []
  for (const name in headers) {
    const value = headers[name]
    if (value === undefined || LEFT_OUT.has(name) || named?.has(name)) continue
    if (typeof value === 'string') out.push(name, value)
    else for (const each of value) out.push(name, each)
  }
  return out
}

/** The headers that `Connection` names as its own; null where there are none, which is the rule. */
function namedByConnection(connection: string | string[] | undefined): Set<string> | null {
  if (connection === undefined) return null
  if (connection === 'keep-alive' || connection === 'close') return null
  const text = Array.isArray(connection) ? connection.join(',') : connection
  return new Set(text.split(',').map((name) => name.trim().toLowerCase()))
}

/** Of headers, names and values in turn, those that Node writes. */
export function soundHeaders(headers: readonly string[]): string[] {
  const sound: string[] = []
  for (let i = 0; i < headers.length; i += 2) {
    const [name, value] = [headers[i] as string, headers[i + 1] as string]
    try {
      validateHeaderName(name)
      validateHeaderValue(name, value)
      sound.push(name, value)
    } catch {
      // Left out.
    }
  }
  return sound
}
