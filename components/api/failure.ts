import type { ErrorData } from '../../server/wire/error-reasons.ts'

/** A refused or lost call as the pages show it. */
export interface Failure {
  title: string
  /** What the service said, or what happened to the connection. */
  message: string
  /** What to do about it. */
  hint: string
  /** The stable word of the service's table, or `unreachable` when no answer came. */
  reason: ErrorData['reason'] | 'unreachable'
  requestId: string | null
  /** Trying again unchanged may help. */
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

/** Reads any error a query or mutation ended with: the service's own words where it answered. */
export function describeFailure(error: unknown): Failure {
  const data = dataOf(error)
  if (!data?.reason) {
    return {
      title: 'The service does not answer',
      message: 'No answer came back: it is stopped, starting, or the network between is down.',
      hint: 'Check that the service is running. This page asks again by itself.',
      reason: 'unreachable',
      requestId: null,
      retryable: true,
      retryAfterMs: null,
    }
  }
  const status = data.httpStatus ?? 500
  return {
    title: TITLES[data.reason] ?? (status >= 500 ? 'The service could not do this' : 'Refused'),
    message: error instanceof Error ? error.message : 'The service gave no message.',
    hint: data.hint ?? '',
    reason: data.reason,
    requestId: data.requestId ?? null,
    retryable: status >= 500 || status === 429,
    retryAfterMs: data.retryAfterMs ?? null,
  }
}

/** A failure in one line: what was said, and what to do about it. */
export function failureText(error: unknown): string {
  const { message, hint } = describeFailure(error)
  return hint === '' ? message : `${message} ${hint}`
}

const TITLES: Partial<Record<ErrorData['reason'], string>> = {
  batch_not_found: 'There is no such batch',
  sample_not_found: 'There is no such sample',
  server_not_found: 'There is no such server',
  database_unavailable: 'The database does not answer',
  plan_too_large: 'That is too much to replay',
  nothing_recorded: 'Nothing is recorded yet',
  query_timeout: 'The query took too long',
  unauthorized: 'A key is needed',
  forbidden_role: 'Your key may not do this',
  removed_by_retention: 'No longer kept',
  run_queue_full: 'The run has too much waiting',
  run_limit: 'More than the run may have',
  internal: 'Something went wrong in the service',
  busy: 'The service is busy',
  shutting_down: 'The service is stopping',
}

/** How long to wait before asking again by itself, in milliseconds; null: not at all. */
export function retryDelayMs(error: unknown, failures: number): number | null {
  const failure = describeFailure(error)
  if (!failure.retryable || failures >= 3) return null
  if (failure.reason === 'internal' && failures >= 1) return null
  return failure.retryAfterMs ?? Math.min(400 * 2 ** failures, 4000)
}
