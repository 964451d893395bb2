import type { ServerResponse } from 'node:http'
import { describeError } from '../../api/trpc.ts'
import { sendRefusal } from '../refuse.ts'

function typeOf(status: number): string {
  if (status === 401) return 'authentication_error'
  if (status === 403) return 'permission_error'
  if (status === 429) return 'rate_limit_error'
  return status >= 500 ? 'server_error' : 'invalid_request_error'
}

/**
 * Answers with an error in OpenAI's shape, which clients of these paths read: `{"error":{"message","type","param",
 * "code"}}`, plus `reason` (the same as `code`), `hint` and `requestId`.
 */
export function refuseProxied(
  res: ServerResponse,
  error: unknown,
  requestId: string,
  param: string | null = null,
): void {
  const { message, data } = describeError(error, requestId, null)
  const body = JSON.stringify({
    error: {
      message,
      type: typeOf(data.httpStatus),
      param,
      code: data.reason,
      reason: data.reason,
      hint: data.hint,
      requestId,
      ...(data.retryAfterMs === undefined ? {} : { retryAfterMs: data.retryAfterMs }),
    },
  })
  if (!res.headersSent) res.setHeader('x-request-id', requestId)
  sendRefusal(res, data.httpStatus, body, data.retryAfterMs)
}
