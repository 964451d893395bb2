import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { type Config, isLoopback } from '../config.ts'
import { RewardOpsError } from '../errors.ts'
import type { Actor } from '../wire/access.ts'

/** The login cookie: HttpOnly, same site, its value a digest of the key, never the key. */
export const SESSION_COOKIE = 'rewardops_session'

function digest(key: string): string {
  return createHash('sha256').update(`rewardops session ${key}`).digest('hex')
}

function same(a: string, b: string): boolean {
  const x = Buffer.from(createHash('sha256').update(a).digest('hex'))
  const y = Buffer.from(createHash('sha256').update(b).digest('hex'))
  return timingSafeEqual(x, y)
}

function hostName(host: string): string {
  return host.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1')
}

/**
 * Who may ask. Without keys: this machine only, and only under its own names, so that a page of another origin or a
 * rebound DNS name reaches nothing. With keys: a bearer key, or the login cookie from our own pages.
 */
export class Access {
  readonly #keys: readonly string[]
  readonly #sessions: ReadonlySet<string>
  /** The Host header that was found to be ours last: a trainer sends the same one a million times. */
  #knownHost: string | null = null

  constructor(config: Config) {
    this.#keys = config.apiKeys
    this.#sessions = new Set(config.apiKeys.map(digest))
  }

  get needsKey(): boolean {
    return this.#keys.length > 0
  }

  /** Throws `forbidden_host` or `forbidden_origin`. */
  checkOrigin(req: IncomingMessage): void {
    const host = req.headers.host ?? ''
    if (!this.needsKey && host !== this.#knownHost) {
      if (isLoopback(hostName(host))) this.#knownHost = host
      else
        throw new RewardOpsError(
          'forbidden_host',
          `The service is not known as "${host.slice(0, 100)}".`,
        )
    }
    const { origin } = req.headers
    if (origin !== undefined) {
      let from: string | null = null
      try {
        from = new URL(origin).host
      } catch {
        // "null" and the like: not ours.
      }
      if (from !== host.toLowerCase()) {
        throw new RewardOpsError(
          'forbidden_origin',
          `Requests from ${origin.slice(0, 100)} are refused.`,
        )
      }
    } else if (
      req.headers['sec-fetch-site'] === 'cross-site' &&
      req.headers['sec-fetch-mode'] !== 'navigate'
    ) {
      throw new RewardOpsError(
        'forbidden_origin',
        'Requests from pages of another site are refused.',
      )
    }
  }

  /** Whether the request carries a key or a login. Without configured keys everybody does. */
  signedIn(req: IncomingMessage): boolean {
    if (!this.needsKey) return true
    const bearer = /^Bearer\s+(\S+)\s*$/i.exec(req.headers.authorization ?? '')
    if (bearer) return this.isKey(bearer[1] as string)
    const cookie = new RegExp(`(?:^|;\\s*)${SESSION_COOKIE}=([0-9a-f]{64})(?:;|$)`).exec(
      req.headers.cookie ?? '',
    )
    return cookie !== null && this.#sessions.has(cookie[1] as string)
  }

  /** Who asks; null: somebody without a key where one is needed. */
  actorOf(req: IncomingMessage): Actor | null {
    if (!this.needsKey) return { name: 'local', role: 'admin' }
    return this.signedIn(req) ? { name: 'configured key', role: 'admin' } : null
  }

  isKey(key: string): boolean {
    return this.#keys.some((known) => same(known, key))
  }

  /** The Set-Cookie value of a login (30 days), or of a logout. */
  cookie(key: string | null, secure: boolean): string {
    const attributes = `Path=/; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`
    return key === null
      ? `${SESSION_COOKIE}=; Max-Age=0; ${attributes}`
      : `${SESSION_COOKIE}=${digest(key)}; Max-Age=2592000; ${attributes}`
  }
}
