import {
  type IncomingHttpHeaders,
  type IncomingMessage,
  validateHeaderName,
  validateHeaderValue,
} from 'node:http'
import { ANSWER_HEADERS } from '../security-headers.ts'

/** Headers of a connection, never passed on in either direction (RFC 9110, 7.6.1). */
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

const NOT_FORWARDED: ReadonlySet<string> = new Set([
  ...HOP_BY_HOP,
  // The connection to the server sets its own host and length, and the body is sent uncompressed.
  'host',
  'content-length',
  'content-encoding',
  'expect',
  // The caller's API key, in every header that clients use. The server gets its registered key.
  'authorization',
  'cookie',
  'x-api-key',
  'api-key',
  // Options that are meant for the router address and not for the reward-model server.
  'x-model',
  'x-group-id',
  'x-run-id',
  'x-priority',
  'x-deadline-ms',
  'x-route-policy',
  'x-request-id',
])

/**
 * The headers sent to a server, names and values alternating: the caller's headers except those of the connection,
 * those with the caller's key, and those for the router address.
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
    if (NOT_FORWARDED.has(lower) || named?.has(lower)) continue
    headers.push(name, rawHeaders[i + 1] as string)
  }
  return headers
}

/**
 * Response headers that are not passed on: headers of the connection, headers that apply to a whole origin, and headers
 * that the service sets itself. A server must not set or clear the cookies of the pages.
 */
const LEFT_OUT: ReadonlySet<string> = new Set([
  ...HOP_BY_HOP,
  'set-cookie',
  'clear-site-data',
  'strict-transport-security',
  'alt-svc',
  'x-request-id',
  ...Object.keys(ANSWER_HEADERS),
])

/** A server's response headers to pass on, names and values alternating. */
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

function namedByConnection(connection: string | string[] | undefined): Set<string> | null {
  if (connection === undefined) return null
  if (connection === 'keep-alive' || connection === 'close') return null
  const text = Array.isArray(connection) ? connection.join(',') : connection
  return new Set(text.split(',').map((name) => name.trim().toLowerCase()))
}

export function soundHeaders(headers: readonly string[]): string[] {
  const sound: string[] = []
  for (let i = 0; i < headers.length; i += 2) {
    const [name, value] = [headers[i] as string, headers[i + 1] as string]
    try {
      validateHeaderName(name)
      validateHeaderValue(name, value)
      sound.push(name, value)
    } catch {
      // Node refuses this header.
    }
  }
  return sound
}
