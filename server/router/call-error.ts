import { broken, failure } from '../engines/answer.ts'
import { FORBIDDEN_ADDRESS_CODE } from '../engines/egress.ts'
import type { EngineFailure } from '../engines/engine.ts'
import { ANSWER_LIMIT_BYTES, type HttpCall } from './transport.ts'

/**
 * A reused connection that closes within this time after a call was sent counts as a connection race: the server was
 * closing the idle connection. A later close is a fault, because the server had received the call.
 */
const MAX_RACE_MS = 50

const CLOSED = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])

export function classifyCallError(call: HttpCall, serviceMs: number): EngineFailure {
  const error = call.error as NodeJS.ErrnoException
  const code = error.code ?? error.name
  if (call.reused && !call.answered && CLOSED.has(code) && serviceMs <= MAX_RACE_MS) {
    return failure(
      'conn_race',
      'transport',
      `idle connection closed as the request was sent (${code})`,
    )
  }
  switch (code) {
    case 'UND_ERR_RES_EXCEEDED_MAX_SIZE':
      return failure('corrupt', 'unparseable', `answered more than ${ANSWER_LIMIT_BYTES} bytes`)
    case FORBIDDEN_ADDRESS_CODE:
      return broken('transport', error.message)
    case 'UND_ERR_INVALID_ARG':
      // The invalid argument is in the path or the headers, for example an API key with a line break. A body is never
      // invalid.
      return broken('transport', `the request cannot be sent: ${error.message}`)
    case 'ECONNREFUSED':
      return failure('fault', 'transport', 'refused the connection (ECONNREFUSED)')
    case 'UND_ERR_CONNECT_TIMEOUT':
      return failure('fault', 'transport', 'did not accept a connection within 2,000 ms')
  }
  const when = call.answered
    ? 'closed the connection during the answer'
    : 'closed the connection without an answer'
  return failure(
    'fault',
    'transport',
    CLOSED.has(code) ? `${when} (${code})` : `the request failed (${code}: ${error.message})`,
  )
}
