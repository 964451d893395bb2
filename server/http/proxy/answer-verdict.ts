import type { SlotEnd } from '../../router/router-types.ts'
import type { UpstreamCall } from './upstream-call.ts'

/** Calls for one request, the first included; a connection race is repeated beside them, once. */
export const MAX_ATTEMPTS = 3

/**
 * Whether an answer is not passed on: a redirect, and what another server may do better. The last call's 408 and 424 (TEI,
 * where its backend failed) are passed on all the same: a 4xx is told as it is.
 */
export function isFailure(status: number, attempt: number): boolean {
  if (status < 300) return false
  if (status < 400 || status === 429) return true
  if (status === 408 || status === 424) return attempt < MAX_ATTEMPTS
  return status >= 500 && status !== 501
}

/** vLLM answers 200 with this when it was put to sleep: what it generated until then is no answer. */
const ABORTED = /"finish_reason"\s*:\s*"abort"/

/** Whether a generated answer was broken off by its server. No text can look so: quotes within texts are escaped. */
export function isAborted(body: Buffer): boolean {
  return body.includes('"abort"') && ABORTED.test(body.toString('latin1'))
}

/** What a call whose answer was passed on says of its server; `body`: the answer, where it was kept. */
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

/** `usage.total_tokens`, wherever it stands. */
function tokensOf(body: Buffer): number | null {
  const at = body.lastIndexOf(TOTAL)
  if (at < 0) return null
  const behind = body.toString('latin1', at + TOTAL.length, at + TOTAL.length + 24)
  const number = /^\s*:\s*(\d{1,9})/.exec(behind)
  return number === null ? null : Number(number[1])
}

/** A text of a server's with its key taken out. */
export function withoutKey(text: string, apiKey: string | null): string {
  return apiKey === null || apiKey === '' ? text : text.replaceAll(apiKey, '[key]')
}
