import { ERROR_TITLES, type ErrorData } from '../../server/contract/error-reasons.ts'

export interface Failure {
  title: string
  message: string
  hint: string
  /** The stable reason code of the service, or `unreachable` when there was no response. */
  reason: ErrorData['reason'] | 'unreachable'
  requestId: string | null
  /** Whether the same request may succeed if it is sent again. */
  retryable: boolean
  retryAfterMs: number | null
}

function dataOf(error: unknown): Partial<ErrorData> | null {
  if (typeof error !== 'object' || error === null || !('data' in error)) return null
  const { data } = error
  return typeof data === 'object' && data !== null && 'reason' in data
    ? (data as Partial<ErrorData>)
    : null
}

export function describeFailure(error: unknown): Failure {
  const data = dataOf(error)
  if (!data?.reason) {
    return {
      title: 'The service is unreachable',
      message: 'The service did not respond: it is stopped or starting, or the network is down.',
      hint: 'Check that the service is running. This page retries automatically.',
      reason: 'unreachable',
      requestId: null,
      retryable: true,
      retryAfterMs: null,
    }
  }
  const status = data.httpStatus ?? 500
  return {
    title: ERROR_TITLES[data.reason] ?? (status >= 500 ? 'The request failed' : 'Request refused'),
    message: error instanceof Error ? error.message : 'The service returned no message.',
    hint: data.hint ?? '',
    reason: data.reason,
    requestId: data.requestId ?? null,
    retryable: status >= 500 || status === 429,
    retryAfterMs: data.retryAfterMs ?? null,
  }
}

export function failureText(error: unknown): string {
  const { message, hint } = describeFailure(error)
  return hint === '' ? message : `${message} ${hint}`
}

/** The delay before an automatic retry, ms; null for no automatic retry. */
export function retryDelayMs(error: unknown, failures: number): number | null {
  const failure = describeFailure(error)
  if (!failure.retryable || failures >= 3) return null
  if (failure.reason === 'internal' && failures >= 1) return null
  return failure.retryAfterMs ?? Math.min(400 * 2 ** failures, 4000)
}
