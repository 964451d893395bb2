import { TRPCClientError } from '@trpc/client'
import type { ErrorData, ErrorReason } from '../../../server/contract/error-reasons.ts'
import { RewardOpsClientError } from './error.ts'

/** Classification of a failed attempt. */
export interface Failure {
  /** The error that the call throws unless it is retried. */
  error: RewardOpsClientError
  /**
   * `away`: the service is unreachable, a proxy answered, or the service cannot work now. `later`: the service is
   * overloaded and requests a retry. `refused`: the service rejected the call.
   */
  kind: 'away' | 'later' | 'refused'
  /** Whether the call was certainly not executed, so that it may be repeated even if it is not idempotent. */
  notDone: boolean
}

/** Reasons of overload. The call was not executed, and the service works. */
const BACK_PRESSURE: ReadonlySet<ErrorReason> = new Set(['busy', 'queue_full', 'run_queue_full'])
/** Reasons with status 503 for which a retry would get the same answer. */
const FINAL: ReadonlySet<ErrorReason> = new Set(['not_scored', 'query_timeout'])

/** An answer that is not JSON, so it did not come from the service. tRPC would report only a parse error. */
export class ForeignAnswer extends Error {
  readonly response: Response

  constructor(response: Response) {
    super(`HTTP ${response.status} without JSON`)
    this.response = response
  }
}

/**
 * Thrown when `fetch` fails or the answer breaks off. A call that fails with neither this error nor an answer was not
 * sent.
 */
export class NoAnswer extends Error {
  constructor(cause: unknown) {
    super('no answer', { cause })
  }
}

export function isJson(response: Response): boolean {
  return typeOf(response) === 'application/json'
}

export function failureOf(thrown: unknown, url: string): Failure {
  if (thrown instanceof RewardOpsClientError) {
    const kind = thrown.reason === 'unreachable' ? 'away' : 'refused'
    return { error: thrown, kind, notDone: true }
  }
  const data =
    thrown instanceof TRPCClientError ? (thrown.data as ErrorData | undefined) : undefined
  if (data?.reason !== undefined) return serviceError(thrown as Error, data)
  const { meta, cause } = (thrown ?? {}) as { meta?: { response?: Response }; cause?: unknown }
  const response = cause instanceof ForeignAnswer ? cause.response : meta?.response
  if (response !== undefined) {
    // The answer came from a gateway, or the service ended while answering.
    const away = response.status >= 500 || response.ok
    return {
      error: away
        ? new RewardOpsClientError(
            'unreachable',
            `${url} answered HTTP ${response.status} without a reason.`,
            {
              hint: 'Check the proxies in front of the service. The service always gives a reason.',
              cause: thrown,
            },
          )
        : foreignRefusal(url, response),
      kind: away ? 'away' : 'refused',
      notDone: !away,
    }
  }
  if (!(cause instanceof NoAnswer)) {
    return {
      error: new RewardOpsClientError(
        'invalid_input',
        `The call cannot be sent: ${textOf(thrown)}.`,
        {
          hint: 'Its input must consist of JSON values.',
          cause: thrown,
        },
      ),
      kind: 'refused',
      notDone: true,
    }
  }
  return { error: unreachable(url, thrown), kind: 'away', notDone: isRefusedConnection(thrown) }
}

function serviceError(thrown: Error, data: ErrorData): Failure {
  const { reason, hint, requestId, retryAfterMs = null, httpStatus } = data
  const passing = httpStatus === 503 && !FINAL.has(reason)
  return {
    error: new RewardOpsClientError(reason, thrown.message, {
      hint,
      requestId,
      retryAfterMs,
      cause: thrown,
    }),
    kind: BACK_PRESSURE.has(reason) ? 'later' : passing ? 'away' : 'refused',
    notDone: BACK_PRESSURE.has(reason) || reason === 'shutting_down',
  }
}

export async function refusalOf(url: string, response: Response): Promise<RewardOpsClientError> {
  const text = await response.text()
  let error: { message?: string; data?: ErrorData } | undefined
  try {
    error = (JSON.parse(text) as { error?: typeof error }).error
  } catch {
    // A proxy answered.
  }
  if (error?.data?.reason === undefined) return foreignRefusal(url, response)
  return serviceError(new Error(error.message), error.data).error
}

function foreignRefusal(url: string, response: Response): RewardOpsClientError {
  if (response.status !== 413) return notRewardOps(url, response)
  return new RewardOpsClientError(
    'body_too_large',
    `A proxy in front of ${url} refused the request as too large (HTTP 413).`,
    { hint: 'Raise the proxy’s limit (nginx: client_max_body_size), or submit smaller batches.' },
  )
}

function typeOf(response: Response): string | undefined {
  return response.headers.get('content-type')?.split(';', 1)[0]
}

export function notRewardOps(url: string, response: Response): RewardOpsClientError {
  const type = typeOf(response)
  return new RewardOpsClientError(
    'not_rewardops',
    `The server at ${url} is not a rewardops service (HTTP ${response.status}${type ? `, ${type}` : ''}).`,
    { hint: 'Use the URL that the service printed when it started, without a path.' },
  )
}

/** The error for a service that does not answer. */
export function unreachable(url: string, thrown: unknown): RewardOpsClientError {
  const code = codeOf(thrown)
  const why = WHY[code ?? '']
  return new RewardOpsClientError(
    'unreachable',
    `No rewardops service answers at ${url}: ${why ?? textOf(thrown)}.`,
    {
      hint: 'Start the service, or correct the URL.',
      cause: thrown,
    },
  )
}

const WHY: Record<string, string> = {
  ECONNREFUSED: 'nothing listens there',
  ECONNRESET: 'the connection was closed',
  EPIPE: 'the connection was closed',
  UND_ERR_SOCKET: 'the connection was closed',
  ENOTFOUND: 'the host name is not known',
  EAI_AGAIN: 'the host name could not be looked up',
  EHOSTUNREACH: 'the host is unreachable',
  ENETUNREACH: 'the network is unreachable',
  ETIMEDOUT: 'the host does not answer',
  UND_ERR_CONNECT_TIMEOUT: 'the host does not answer',
  ERR_SSL_WRONG_VERSION_NUMBER: 'it does not speak HTTPS; try http://',
  ERR_SSL_PACKET_LENGTH_TOO_LONG: 'it does not speak HTTPS; try http://',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is self-signed',
  HTTPParserError: 'the answer is not HTTP',
  UND_ERR_HEADERS_TIMEOUT: 'it took too long to answer',
}

function codeOf(thrown: unknown): string | undefined {
  let code: string | undefined
  for (
    let at = thrown as { name?: unknown; code?: unknown; cause?: unknown } | undefined, n = 0;
    at && n < 8;
    n++
  ) {
    if (typeof at.code === 'string') code = at.code
    else if (at.name === 'HTTPParserError') code = at.name
    at = at.cause as typeof at
  }
  return code
}

/** The message of the innermost cause, because the message of `fetch` itself is only "fetch failed". */
function textOf(thrown: unknown): string {
  let text = 'no answer'
  for (
    let at = thrown as { message?: unknown; cause?: unknown } | undefined, n = 0;
    at && n < 8;
    n++
  ) {
    if (typeof at.message === 'string' && at.message !== '') text = at.message
    at = at.cause as typeof at
  }
  return text.replace(/\.$/, '')
}

function isRefusedConnection(thrown: unknown): boolean {
  return ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN'].includes(codeOf(thrown) ?? '')
}
