import type { SlotEnd } from '../../router/router-types.ts'
import type { UpstreamCall } from './upstream-call.ts'

/** Maximum number of calls for a request. One more is allowed if a reused connection closes before an answer begins. */
export const MAX_ATTEMPTS = 3

/**
 * True for answers that are not passed on: redirects, and errors that a call to another server may avoid. A 408 or 424
 * (TEI with a failed backend) of the last call is passed on, because 429 is the only 4xx that the router address
 * replaces with an answer of its own.
 */
export function isFailure(status: number, attempt: number): boolean {
  if (status < 300) return false
  if (status < 400 || status === 429) return true
  if (status === 408 || status === 424) return attempt < MAX_ATTEMPTS
  return status >= 500 && status !== 501
}

/** The pattern in vLLM's 200 answer if the server is put to sleep during generation. The text is then incomplete. */
const ABORTED = /"finish_reason"\s*:\s*"abort"/

/** True when the server aborted the generation. No text can contain the pattern, because quotes in texts are escaped. */
export function isAborted(body: Buffer): boolean {
  return body.includes('"abort"') && ABORTED.test(body.toString('latin1'))
}

/** The outcome that the router records for a call whose answer was passed on. `body` is the answer if it was kept. */
export function endOf(call: UpstreamCall, body: Buffer | null): SlotEnd {
  const { status } = call
  if (status >= 400) {
    const outcome = status === 408 || status === 424 ? 'fault' : 'client'
    return { outcome, detail: `answered ${status}` }
  }
  const tokens = body === null ? null : tokensOf(body)
  return tokens === null ? { outcome: 'ok' } : { outcome: 'ok', tokens }
}

const TOTAL = '"total_tokens"'

/** Returns the last `total_tokens` in an answer, at any depth, or null if there is none. */
function tokensOf(body: Buffer): number | null {
  const at = body.lastIndexOf(TOTAL)
  if (at < 0) return null
  const behind = body.toString('latin1', at + TOTAL.length, at + TOTAL.length + 24)
  const number = /^\s*:\s*(\d{1,9})/.exec(behind)
  return number === null ? null : Number(number[1])
}
