import { Agent, type Dispatcher, request } from 'undici'
import type { ErrorData } from '../../server/contract/error-reasons.ts'
import type { SessionDto } from '../../server/contract/pages.ts'
import { CliError, EXIT } from './exit-codes.ts'

const CONNECT_MS = 3_000
/** Timeout of the first call, including the connection. */
const HELLO_MS = 4_000
/** Default timeout of a call. Closing a batch of a million samples takes tens of seconds. */
const ANSWER_MS = 300_000
/**
 * Timeout of a stream: until its headers, and between two chunks. It can be short, because the service reads a page of
 * rows in milliseconds.
 */
const STREAM_MS = 30_000
/** Pause before the first retry. It doubles up to the maximum; a longer `Retry-After` takes precedence. */
const FIRST_PAUSE_MS = 200
const MAX_PAUSE_MS = 5_000

export interface CallOptions {
  /**
   * How long an unreachable or busy service is retried after the first failure; only for idempotent calls. Default 0:
   * no retry.
   */
  retryForMs?: number
  timeoutMs?: number
  signal?: AbortSignal
  onRetry?: (why: string, inMs: number) => void
}

interface Refusal {
  error: CliError
  /** Null when a retry would not help. */
  retryAfterMs: number | null
}

export class ServiceClient {
  readonly url: string
  readonly #headers: Record<string, string>
  readonly #agent = new Agent({ connect: { timeout: CONNECT_MS }, keepAliveTimeout: 30_000 })

  private constructor(url: string, apiKey: string | null) {
    this.url = url
    this.#headers = apiKey === null ? {} : { authorization: `Bearer ${apiKey}` }
  }

  /**
   * Checks that a rewardops service of a compatible version answers at the URL and accepts the key.
   * @throws CliError within 5 s: `badInput` for an invalid URL, `refused` for a wrong key or version,
   * `unreachable` when no service answers
   */
  static async connect(options: {
    url: string
    apiKey: string | null
    version: string
    signal?: AbortSignal
  }): Promise<ServiceClient> {
    const client = new ServiceClient(addressOf(options.url), options.apiKey)
    try {
      const session = await client.query<SessionDto>('session.get', undefined, {
        timeoutMs: HELLO_MS,
        ...(options.signal ? { signal: options.signal } : {}),
      })
      if (typeof session?.version !== 'string' || typeof session.signedIn !== 'boolean') {
        throw client.#stranger('its answer has no version')
      }
      if (!session.signedIn) {
        throw new CliError(
          EXIT.refused,
          options.apiKey === null
            ? `The service at ${client.url} needs a key: set REWARDOPS_API_KEY to one of its API keys.`
            : `The service at ${client.url} refused the key of REWARDOPS_API_KEY: it is not one of its API keys.`,
          'unauthorized',
        )
      }
      if (!sameContract(session.version, options.version)) {
        throw new CliError(
          EXIT.refused,
          `The service at ${client.url} is rewardops ${session.version} and this command is ${options.version}: ` +
            `use the command that came with the service.`,
        )
      }
      return client
    } catch (error) {
      await client.close()
      throw error
    }
  }

  /** @throws CliError */
  query<T>(path: string, input?: unknown, options: CallOptions = {}): Promise<T> {
    const search = input === undefined ? '' : `?input=${encodeURIComponent(JSON.stringify(input))}`
    return this.#call<T>(`/api/trpc/${path}${search}`, null, options)
  }

  /** Calls a mutation. An input that is a string is sent unchanged, as JSON. @throws CliError */
  mutate<T>(path: string, input: unknown, options: CallOptions = {}): Promise<T> {
    const body = typeof input === 'string' ? input : JSON.stringify(input)
    return this.#call<T>(`/api/trpc/${path}`, body, options)
  }

  /**
   * A streamed GET, without retries. Reading the body may fail later; {@link brokenOff} converts that error.
   * @throws CliError; with `unreachable` where a retry may help
   */
  async stream(path: string, signal: AbortSignal): Promise<Dispatcher.ResponseData> {
    const options = { signal, timeoutMs: STREAM_MS }
    const answer = await this.#send(path, null, options, false)
    if (answer.statusCode === 200) return answer
    throw this.#refusal(answer.statusCode, await answer.body.text()).error
  }

  brokenOff(error: unknown, signal: AbortSignal): CliError {
    return error instanceof CliError ? error : this.#unreachable(error, { signal })
  }

  async close(): Promise<void> {
    await this.#agent.destroy()
  }

  async #call<T>(path: string, body: string | null, options: CallOptions): Promise<T> {
    const { retryForMs = 0, signal, onRetry } = options
    let firstFailureAt: number | null = null
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(MAX_PAUSE_MS, pauseMs * 2)) {
      const refusal = await this.#try<T>(path, body, options)
      if (!('error' in refusal)) return refusal.data
      const { error, retryAfterMs } = refusal
      const now = performance.now()
      firstFailureAt ??= now
      if (retryAfterMs === null || now - firstFailureAt + retryAfterMs >= retryForMs) throw error
      const inMs = Math.max(retryAfterMs, pauseMs)
      onRetry?.(error.message, inMs)
      await pause(inMs, signal)
      if (signal?.aborted) throw interrupted()
    }
  }

  async #try<T>(
    path: string,
    body: string | null,
    options: CallOptions,
  ): Promise<{ data: T } | Refusal> {
    let status: number
    let text: string
    try {
      const answer = await this.#send(path, body, options)
      status = answer.statusCode
      text = await answer.body.text()
    } catch (error) {
      if (error instanceof CliError && error.exitCode === EXIT.unreachable) {
        return { error, retryAfterMs: FIRST_PAUSE_MS }
      }
      if (error instanceof CliError) throw error
      return { error: this.#unreachable(error, options), retryAfterMs: FIRST_PAUSE_MS }
    }
    const data = status === 200 ? resultOf<T>(text) : undefined
    return data === undefined ? this.#refusal(status, text) : data
  }

  /** @throws CliError when no service answers */
  async #send(
    path: string,
    body: string | null,
    options: CallOptions,
    wholeInTime = true,
  ): Promise<Dispatcher.ResponseData> {
    const timeoutMs = options.timeoutMs ?? ANSWER_MS
    const signals = [options.signal, wholeInTime ? AbortSignal.timeout(timeoutMs) : undefined]
    try {
      return await request(`${this.url}${path}`, {
        method: body === null ? 'GET' : 'POST',
        headers: {
          ...this.#headers,
          ...(body === null ? {} : { 'content-type': 'application/json' }),
        },
        body,
        dispatcher: this.#agent,
        headersTimeout: timeoutMs,
        bodyTimeout: timeoutMs,
        signal: AbortSignal.any(signals.filter((signal) => signal !== undefined)),
      })
    } catch (error) {
      throw this.#unreachable(error, options)
    }
  }

  #unreachable(error: unknown, { signal, timeoutMs = ANSWER_MS }: CallOptions): CliError {
    if (signal?.aborted) return interrupted()
    const { code, name } = error as { code?: string; name?: string }
    const because =
      code === 'ECONNREFUSED'
        ? 'the connection was refused'
        : code === 'ENOTFOUND' || code === 'EAI_AGAIN'
          ? `there is no host "${new URL(this.url).hostname}"`
          : code === 'UND_ERR_CONNECT_TIMEOUT' || code === 'ETIMEDOUT'
            ? `no connection within ${CONNECT_MS / 1_000} s`
            : name === 'TimeoutError' || code === 'UND_ERR_HEADERS_TIMEOUT'
              ? `no answer within ${Math.round(timeoutMs / 1_000)} s`
              : code === 'ECONNRESET' || code === 'UND_ERR_SOCKET' || code === 'EPIPE'
                ? 'the connection broke'
                : code?.startsWith('HPE_') || name === 'HTTPParserError'
                  ? 'the answer is not HTTP'
                  : ((error as Error).message ?? String(error))
    return new CliError(
      EXIT.unreachable,
      `No rewardops service answers at ${this.url}: ${because}. Start it with "npm start", or set REWARDOPS_URL to the service's URL.`,
    )
  }

  #stranger(what: string): CliError {
    return new CliError(
      EXIT.unreachable,
      `The server at ${this.url} is not a rewardops service: ${what}. Set REWARDOPS_URL to the service's URL.`,
    )
  }

  #refusal(status: number, text: string): Refusal {
    let refusal: { message?: unknown; data?: Partial<ErrorData> } | undefined
    try {
      refusal = (JSON.parse(text) as { error?: typeof refusal } | null)?.error
    } catch {
      // The body did not come from rewardops.
    }
    const { reason, hint, retryAfterMs, requestId } = refusal?.data ?? {}
    if (typeof refusal?.message !== 'string' || typeof reason !== 'string') {
      const error = this.#stranger(
        `it answered HTTP ${status} ${JSON.stringify(text.slice(0, 60))}`,
      )
      // A proxy answers like this while the service behind it restarts.
      return { error, retryAfterMs: status >= 502 && status <= 504 ? FIRST_PAUSE_MS : null }
    }
    const busy = status === 429 || status === 503
    const log = reason === 'internal' && requestId ? ` (request ${requestId})` : ''
    return {
      error: new CliError(
        busy ? EXIT.unreachable : EXIT.refused,
        `The service refused: ${refusal.message}${hint ? ` ${hint}` : ''}${log}`,
        reason,
      ),
      retryAfterMs: busy ? (retryAfterMs ?? FIRST_PAUSE_MS) : null,
    }
  }
}

/** Removes the API's path and a trailing slash. @throws CliError */
function addressOf(given: string): string {
  let url: URL
  try {
    url = new URL(given)
  } catch {
    throw new CliError(
      EXIT.badInput,
      `"${given}" is not a URL; expected http://host:port in REWARDOPS_URL or --url.`,
    )
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new CliError(
      EXIT.badInput,
      `"${given}" is not an HTTP URL; expected http://host:port in REWARDOPS_URL or --url.`,
    )
  }
  return `${url.origin}${url.pathname.replace(/(\/api(\/trpc)?)?\/*$/, '')}`
}

/** Before 1.0, each minor version may change the API contract. */
function sameContract(a: string, b: string): boolean {
  const contract = (version: string) => {
    const [major, minor] = version.split('.')
    return major === '0' ? `0.${minor}` : major
  }
  return contract(a) === contract(b)
}

function resultOf<T>(text: string): { data: T } | undefined {
  try {
    const { result } = JSON.parse(text) as { result?: { data: T } }
    return result && 'data' in result ? result : undefined
  } catch {
    return undefined
  }
}

export function interrupted(): CliError {
  return new CliError(EXIT.interrupted, 'Stopped before the end.')
}

export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    signal?.addEventListener('abort', done, { once: true })
    if (signal?.aborted) done()
  })
}
