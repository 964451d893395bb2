import { createHmac } from 'node:crypto'
import { guardedFetch } from '../../router/guarded-fetch.ts'
import { checkServerUrl } from '../../router/server-admission.ts'
import type { WebhookTarget } from '../../store/sql/webhooks.ts'

export const ANSWER_MS = 10_000
const MAX_ANSWER_CHARS = 500

export interface WebhookAnswer {
  delivered: boolean
  status: number | null
  latencyMs: number
  /** The first 500 characters of the response body, or null if there is no body. */
  answer: string | null
  /** The cause of a failed delivery, without the URL or the secret, or null if the delivery succeeded. */
  error: string | null
  retryAfterMs: number | null
}

/**
 * Returns what is wrong with a webhook's URL, or null if it is valid. A query is allowed, because some receivers put a
 * key there.
 */
export function webhookUrlProblem(text: string): string | null {
  let url: URL
  try {
    url = new URL(text)
  } catch {
    return 'The URL is not valid. It must start with http:// or https://.'
  }
  if (url.hash !== '') return 'The URL must not have a fragment.'
  url.search = ''
  const checked = checkServerUrl(url.href)
  return checked.ok ? null : `The URL is refused: ${checked.message}.`
}

/**
 * Returns the signature header: the time of signing and an HMAC-SHA-256 of the time, a dot and the body. Receivers can
 * refuse old times to prevent replays.
 */
export function signatureOf(secret: string, body: string, atMs: number): string {
  const t = Math.floor(atMs / 1_000)
  const mac = createHmac('sha256', secret).update(`${t}.${body}`).digest('hex')
  return `t=${t},v1=${mac}`
}

/** Sends an event once. Redirects are not followed, because the body is only for this URL. Never throws. */
export async function postWebhook(
  to: WebhookTarget | { problem: string },
  event: { id: string; attempt: number; body: string },
  answerMs = ANSWER_MS,
): Promise<WebhookAnswer> {
  const begun = performance.now()
  const tookMs = () => Math.round((performance.now() - begun) * 10) / 10
  if ('problem' in to) {
    const nothing = { status: null, latencyMs: 0, answer: null, retryAfterMs: null }
    return { delivered: false, ...nothing, error: to.problem }
  }
  try {
    const response = await guardedFetch(to.url, {
      method: 'POST',
      redirect: 'manual',
      signal: AbortSignal.timeout(answerMs),
      headers: {
        'content-type': 'application/json',
        'user-agent': 'rewardops',
        'x-rewardops-event': event.id,
        'x-rewardops-attempt': String(event.attempt),
        ...(to.secret === null
          ? {}
          : { 'x-rewardops-signature': signatureOf(to.secret, event.body, Date.now()) }),
      },
      body: event.body,
    })
    const { status } = response
    const answer = await beginningOf(response)
    const delivered = status >= 200 && status < 300
    return {
      ...{ delivered, status, latencyMs: tookMs(), answer },
      error: delivered ? null : refusalOf(status),
      retryAfterMs: delivered ? null : retryAfterOf(response.headers.get('retry-after')),
    }
  } catch (error) {
    return {
      ...{ delivered: false, status: null, latencyMs: tookMs(), answer: null, retryAfterMs: null },
      error: wordsOf(error, answerMs),
    }
  }
}

function refusalOf(status: number): string {
  if (status >= 300 && status < 400)
    return `responded with ${status}: redirects are not followed; use the target URL`
  return `responded with ${status}`
}

/**
 * Returns the first 500 characters of a response for the test button. The rest is not read. The status alone decides
 * whether the delivery succeeded, so a body that breaks off is no failure.
 */
async function beginningOf(response: Response): Promise<string | null> {
  if (response.body === null) return null
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  try {
    while (text.length < MAX_ANSWER_CHARS) {
      const { done, value } = await reader.read()
      if (done) break
      text += value
    }
  } catch {
    // If the connection breaks, the text received so far is returned.
  } finally {
    await reader.cancel().catch(() => {})
  }
  return text === '' ? null : text.slice(0, MAX_ANSWER_CHARS)
}

function retryAfterOf(header: string | null): number | null {
  const seconds = Number(header ?? Number.NaN)
  return Number.isFinite(seconds) && seconds >= 0 ? seconds * 1_000 : null
}

function wordsOf(error: unknown, answerMs: number): string {
  if ((error as Error).name === 'TimeoutError') return `no answer within ${answerMs / 1_000} s`
  const cause = ((error as Error).cause ?? error) as NodeJS.ErrnoException
  switch (cause.code) {
    case 'ECONNREFUSED':
      return 'connection refused'
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return 'unknown host'
    case 'UND_ERR_CONNECT_TIMEOUT':
      return 'no connection within 2 s'
    case 'ERR_FORBIDDEN_ADDRESS':
      return 'the address is not allowed (REWARDOPS_EGRESS_ALLOW)'
    default:
      return cause.code === undefined
        ? 'the connection broke'
        : `the connection broke (${cause.code})`
  }
}
