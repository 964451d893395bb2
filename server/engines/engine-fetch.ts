import { Client } from 'undici'
import { clip } from './answer.ts'
import { FORBIDDEN_ADDRESS_CODE, guardedConnector } from './egress.ts'
import type { EngineFetch, EngineReply, ProbeFailure } from './engine.ts'
import { checkServerUrl, type ServerUrl } from './server-url.ts'

/**
 * Maximum size of a response, in bytes. The largest valid responses are /metrics of a vLLM with many data-parallel
 * engines (60 KB each) and SGLang's /server_info (170 KB).
 */
const MAX_ANSWER_BYTES = 4 << 20
const CONNECT_TIMEOUT_MS = 2_000

/**
 * Thrown if a server is unreachable, redirects or refuses the key, because further requests would fail too. The message
 * does not contain the key.
 */
export class ProbeStop extends Error {
  readonly failure: ProbeFailure
  constructor(failure: ProbeFailure) {
    super(failure.message)
    this.name = 'ProbeStop'
    this.failure = failure
  }
}

/**
 * A connection to one server, for requests outside the router: probes, self-tests, reading the load, sleep and wake.
 */
export interface OpenFetch {
  /** Sends a request. @throws ProbeStop if no usable response arrives */
  readonly fetch: EngineFetch
  readonly basePath: string
  /** Closes the connection; requests in flight fail. */
  close(): void
}

export interface OpenFetchOptions {
  /** Time limit of each request, in ms; ignored with `totalMs`. */
  timeoutMs: number
  /** Time limit of all requests together, in ms. */
  totalMs?: number
}

/**
 * Opens a connection to a server. Forbidden URLs are refused, redirects are not followed, the size of responses is
 * limited, and the key is sent as a bearer token.
 * @throws ProbeStop for a forbidden URL
 */
export function openFetch(
  url: string,
  apiKey: string | null,
  options: OpenFetchOptions,
): OpenFetch {
  const checked = checkServerUrl(url)
  if (!checked.ok) throw new ProbeStop(checked)
  return openChecked(checked, apiKey, options)
}

export function openChecked(
  { origin, basePath }: ServerUrl,
  apiKey: string | null,
  { timeoutMs, totalMs }: OpenFetchOptions,
): OpenFetch {
  const client = new Client(origin, {
    connect: guardedConnector(CONNECT_TIMEOUT_MS),
    allowH2: false,
    headersTimeout: 0,
    bodyTimeout: 0,
    maxResponseSize: MAX_ANSWER_BYTES,
  })
  const total = totalMs === undefined ? null : AbortSignal.timeout(Math.max(1, totalMs))
  const limitMs = totalMs ?? timeoutMs
  const fetch: EngineFetch = async (path, init = { method: 'GET' }) => {
    const headers: Record<string, string> = { accept: 'application/json' }
    if (init.body !== undefined) headers['content-type'] = 'application/json'
    if (apiKey !== null) headers.authorization = `Bearer ${apiKey}`
    const { method, body } = init
    const signal = total ?? AbortSignal.timeout(Math.max(1, timeoutMs))
    let reply: EngineReply
    try {
      const response = await client.request({ path, method, headers, signal, body: body ?? null })
      const bodyText = await response.body.text()
      reply = { status: response.statusCode, headers: response.headers, bodyText }
    } catch (error) {
      throw new ProbeStop(unreachable(error as NodeJS.ErrnoException, origin, limitMs))
    }
    refuseRedirect(method, path, reply)
    refuseKey(method, path, reply, apiKey)
    return reply
  }
  return {
    fetch,
    basePath,
    close() {
      client.destroy().catch(() => {})
    },
  }
}

function refuseRedirect(method: string, path: string, { status, headers }: EngineReply): void {
  if (status < 300 || status >= 400) return
  const to = headers.location
  const target = typeof to === 'string' ? `to ${clip(to)}` : 'without a Location'
  throw new ProbeStop({
    ok: false,
    reason: 'server_redirects',
    cause: 'redirect',
    message: `${method} ${path} answered ${status}, a redirect ${target}`,
    hint: 'Register the URL it redirects to: redirects are never followed.',
  })
}

function refuseKey(
  method: string,
  path: string,
  { status }: EngineReply,
  apiKey: string | null,
): void {
  if (status !== 401 && status !== 403) return
  const what = apiKey === null ? 'a call without a key' : 'the key'
  throw new ProbeStop({
    ok: false,
    reason: 'key_refused',
    cause: 'key_refused',
    message: `${method} ${path} answered ${status}: the server refused ${what}`,
    hint: 'Set apiKey to the key that the server was started with.',
  })
}

function unreachable(
  error: NodeJS.ErrnoException,
  origin: string,
  timeoutMs: number,
): ProbeFailure {
  const { name, code, message } = error
  if (code === FORBIDDEN_ADDRESS_CODE) {
    return {
      ok: false,
      reason: 'forbidden_url',
      cause: 'forbidden_address',
      message,
      hint: 'Give a URL whose host resolves to addresses that REWARDOPS_EGRESS_ALLOW lists.',
    }
  }
  const failure = (cause: ProbeFailure['cause'], detail: string): ProbeFailure => ({
    ok: false,
    reason: 'server_unreachable',
    cause,
    message: `${origin} ${clip(detail)}`,
    hint: 'Start the server and try again, or register it with "ifUnreachable": "keep" while it loads.',
  })
  if (name === 'TimeoutError') return failure('timeout', `did not answer within ${timeoutMs} ms`)
  if (code === 'UND_ERR_CONNECT_TIMEOUT') {
    return failure('timeout', `did not accept a connection within ${CONNECT_TIMEOUT_MS} ms`)
  }
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') {
    return failure('dns', `is not a known host (${code})`)
  }
  if (code === 'ERR_SSL_WRONG_VERSION_NUMBER' || code === 'ERR_SSL_PACKET_LENGTH_TOO_LONG') {
    const plain = failure('tls', `does not speak TLS (${code})`)
    return { ...plain, hint: 'Begin its URL with http://.' }
  }
  if (isTlsCode(code)) {
    // OpenSSL's own messages name its source files and are left out.
    const said = /^[0-9A-F]+:error:/.test(message) ? '' : `: ${message}`
    return failure('tls', `failed the TLS handshake (${code}${said})`)
  }
  return failure('connection', `cannot be reached (${code ?? name}: ${message})`)
}

function isTlsCode(code: string | undefined): boolean {
  return (
    code !== undefined &&
    /^(?:ERR_TLS_|ERR_SSL_|CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_)|^EPROTO$/.test(code)
  )
}
