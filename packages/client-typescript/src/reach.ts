import type { SessionDto } from '../../../server/contract/pages.ts'
import { RewardOpsClientError } from './error.ts'
import { notRewardOps, unreachable } from './failure.ts'

/** The version this client was written with. */
export const CLIENT_VERSION = '0.1.0'

/** One question takes at most this long: a service that hangs is told from a slow answer, and within 5 s. */
const ASK_MS = 2_000
/** An answer counts for every call that wonders at about the same time. */
const FRESH_MS = 1_000

/** Where the service is. */
export interface ReachOptions {
  /** Without a slash at its end. */
  url: string
  apiKey: string | null
  fetch: typeof fetch
}

/**
 * Whether the service is there, is one, takes our key and speaks our version: asked before the first call and after every
 * outage, so that what is wrong is said in one sentence and not by whichever call meets it.
 */
export class Reach {
  readonly #options: ReachOptions
  #asking: Promise<void> | null = null
  #askedAt = Number.NEGATIVE_INFINITY
  /** It was there when it was last asked, and no call has failed since. */
  reached = false
  /** It was there once: what is waited for is its coming back. */
  everReached = false

  constructor(options: ReachOptions) {
    this.#options = options
  }

  /** Asks, unless it answered a moment ago. Throws RewardOpsClientError. */
  async ask(): Promise<void> {
    if (this.reached && performance.now() - this.#askedAt < FRESH_MS) return
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
          `No rewardops service answers at ${url}: nothing came back within ${ASK_MS / 1_000} s.`,
          { hint: 'It hangs, is cut off, or the address is wrong.', cause: error },
        )
      }
      throw unreachable(url, error)
    }
    this.#check(response, text)
    this.reached = true
    this.everReached = true
    this.#askedAt = performance.now()
  }

  #check(response: Response, text: string): void {
    const { url, apiKey } = this.#options
    const to = response.headers.get('location')
    if (response.status >= 300 && response.status < 400 && to !== null) {
      throw new RewardOpsClientError('not_rewardops', `${url} redirects to ${to}.`, {
        hint: 'Give the address it redirects to.',
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
          `The rewardops service is at ${origin}, not below ${pathname} there.`,
          { hint: 'Give the address without the path.' },
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
        `The rewardops service at ${url} is version ${session.version}, and this client was made for ${CLIENT_VERSION}.`,
        { hint: 'Install the client that comes with the service.' },
      )
    }
    if (!session.signedIn) {
      throw new RewardOpsClientError(
        'unauthorized',
        apiKey === null
          ? `The rewardops service at ${url} needs a key, and none was given.`
          : `The rewardops service at ${url} does not know the key it was given.`,
        { hint: 'Give a key of its REWARDOPS_API_KEYS as apiKey.' },
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

/** Same major version, and before 1.0 the same minor one: what may change between two versions of a service. */
export function isCompatible(service: string, client: string): boolean {
  const [major, minor] = service.split('.')
  const [ownMajor, ownMinor] = client.split('.')
  return major === ownMajor && (major !== '0' || minor === ownMinor)
}
