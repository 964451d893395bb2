import type { SessionDto } from '../../../server/contract/pages.ts'
import { RewardOpsClientError } from './error.ts'
import { notRewardOps, unreachable } from './failure.ts'

/** The service version that this client is built for. */
export const CLIENT_VERSION = '0.1.0'

const ASK_MS = 2_000
/** How long a successful check is valid for other calls. */
const FRESH_MS = 1_000

export interface ReachOptions {
  /** Without a trailing slash. */
  url: string
  apiKey: string | null
  fetch: typeof fetch
}

/**
 * Checks that the service is reachable, is rewardops, accepts the key and has a compatible version. The check runs
 * before the first call and during outages, so a wrong URL, key or version gives the same error for every call.
 */
export class Reach {
  readonly #options: ReachOptions
  #asking: Promise<void> | null = null
  /** The last check succeeded, and no call has found the service unreachable since. */
  reached = false
  /** A check succeeded at least once, so calls are retried during an outage. */
  everReached = false
  /** The performance.now() of the last successful check. */
  reachedAt = Number.NEGATIVE_INFINITY

  constructor(options: ReachOptions) {
    this.#options = options
  }

  /** Runs the check unless one has just succeeded. Throws RewardOpsClientError. */
  async ask(): Promise<void> {
    if (this.reached && performance.now() - this.reachedAt < FRESH_MS) return
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = null
    })
    return this.#asking
  }

  async #ask(): Promise<void> {
    const { url, apiKey } = this.#options
    let response: Response
    let text: string
    try {
      response = await this.#options.fetch(`${url}/api/trpc/session.get`, {
        headers: apiKey === null ? {} : { authorization: `Bearer ${apiKey}` },
        redirect: 'manual',
        signal: AbortSignal.timeout(ASK_MS),
      })
      text = await response.text()
    } catch (error) {
      this.reached = false
      if ((error as Error).name === 'TimeoutError') {
        throw new RewardOpsClientError(
          'unreachable',
          `No rewardops service answers at ${url}: no answer within ${ASK_MS / 1_000} s.`,
          {
            hint: 'The service hangs, the network is down, or the URL is wrong.',
            cause: error,
          },
        )
      }
      throw unreachable(url, error)
    }
    this.#check(response, text)
    this.reached = true
    this.everReached = true
    this.reachedAt = performance.now()
  }

  #check(response: Response, text: string): void {
    const { url, apiKey } = this.#options
    const to = response.headers.get('location')
    if (response.status >= 300 && response.status < 400 && to !== null) {
      throw new RewardOpsClientError('not_rewardops', `${url} redirects to ${to}.`, {
        hint: 'Use the URL that it redirects to.',
      })
    }
    const answer = parsed(text)
    const refusal = answer?.error
    if (refusal?.data?.reason !== undefined) {
      const { reason, hint, requestId } = refusal.data
      const { origin, pathname } = new URL(url)
      if (response.status === 404 && pathname !== '/') {
        throw new RewardOpsClientError(
          'not_rewardops',
          `The rewardops service is at ${origin}, not under ${pathname}.`,
          { hint: 'Use the URL without the path.' },
        )
      }
      const starting = response.status === 503
      throw new RewardOpsClientError(
        starting ? 'unreachable' : (reason as RewardOpsClientError['reason']),
        `The rewardops service at ${url} says: ${(refusal.message ?? reason).replace(/\.?$/, '.')}`,
        { hint: hint ?? '', requestId: requestId ?? null },
      )
    }
    const session = answer?.result?.data
    if (typeof session?.version !== 'string' || typeof session.signedIn !== 'boolean') {
      if (response.status >= 500) throw unreachable(url, new Error(`HTTP ${response.status}`))
      throw notRewardOps(url, response)
    }
    if (!isCompatible(session.version, CLIENT_VERSION)) {
      throw new RewardOpsClientError(
        'version_mismatch',
        `The rewardops service at ${url} is version ${session.version}, and this client is for ${CLIENT_VERSION}.`,
        { hint: 'Install the client that comes with the service.' },
      )
    }
    if (!session.signedIn) {
      throw new RewardOpsClientError(
        'unauthorized',
        apiKey === null
          ? `The rewardops service at ${url} requires an API key.`
          : `The rewardops service at ${url} rejected the API key.`,
        { hint: 'Pass one of its API keys as apiKey.' },
      )
    }
  }
}

interface Answer {
  result?: { data?: Partial<SessionDto> }
  error?: { message?: string; data?: { reason?: string; hint?: string; requestId?: string } }
}

function parsed(text: string): Answer | null {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' ? (value as Answer | null) : null
  } catch {
    return null
  }
}

/** Versions are compatible if their major versions are equal and, before 1.0, also their minor versions. */
export function isCompatible(service: string, client: string): boolean {
  const [major, minor] = service.split('.')
  const [ownMajor, ownMinor] = client.split('.')
  return major === ownMajor && (major !== '0' || minor === ownMinor)
}
