import type { IncomingMessage } from 'node:http'
import { checkRole, type SurfaceName, surfaceRole } from '../api/roles.ts'
import { type Config, isLoopback } from '../config.ts'
import { RewardOpsError } from '../errors.ts'
import { endKey } from '../loop/settings/key-end.ts'
import { type KeyHolder, type KeyRing, lookUpOf, sessionOf } from '../loop/settings/key-ring.ts'
import { ERROR_REASONS } from '../wire/error-reasons.ts'

/** The login cookie: HttpOnly, same site, its value a digest of the key, never the key. */
export const SESSION_COOKIE = 'rewardops_session'

const NEVER = new AbortController().signal

function hostName(host: string): string {
  return host.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1')
}

/**
 * Who may ask. Without keys: this machine only, and only under its own names, so that a page of another origin or a
 * rebound DNS name reaches nothing. With keys: a bearer key, or the login cookie from our own pages. Keys are those of
 * REWARDOPS_API_KEYS, admins all, and stored ones with their roles.
 */
export class Access {
  readonly #configured = new Map<string, KeyHolder>()
  readonly #sessions = new Map<string, KeyHolder>()
  #ring: KeyRing | null = null
  #localEnd = new AbortController()
  #local: KeyHolder = localHolder(this.#localEnd)
  /** The Host header that was found to be ours last: a trainer sends the same one a million times. */
  #knownHost: string | null = null

  constructor(config: Pick<Config, 'apiKeys'>) {
    config.apiKeys.forEach((key, i) => {
      const holder: KeyHolder = {
        name: `configured key ${i + 1}`,
        role: 'admin',
        keyId: null,
        withKey: true,
        ended: NEVER,
      }
      this.#configured.set(lookUpOf(key), holder)
      this.#sessions.set(lookUpOf(sessionOf(key)), holder)
    })
  }

  /** From here on stored keys count. Whoever came in without one is sent away when one becomes needed. */
  use(ring: KeyRing): void {
    this.#ring = ring
    ring.onRequired = () => {
      const end = this.#localEnd
      this.#localEnd = new AbortController()
      this.#local = localHolder(this.#localEnd)
      endKey(end, 'A key is needed from now on.', ERROR_REASONS.unauthorized.hint)
    }
  }

  /** Whether a call without a key is refused. */
  get needsKey(): boolean {
    return this.#configured.size > 0 || (this.#ring?.required ?? false)
  }

  /** Names of the keys of REWARDOPS_API_KEYS. */
  get configuredNames(): string[] {
    return [...this.#configured.values()].map(({ name }) => name)
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

  /** Whether the request carries a key or a login. Where no key is needed everybody does. */
  signedIn(req: IncomingMessage): boolean {
    return this.actorOf(req) !== null
  }

  /**
   * Who asks; null: somebody without a key where one is needed. Where none is, a key still counts: its holder has its
   * name and its role. One that is not known there is not looked at: clients of other services always send some.
   */
  actorOf(req: IncomingMessage): KeyHolder | null {
    const { authorization, cookie } = req.headers
    let holder: KeyHolder | null = null
    if (authorization !== undefined) {
      const bearer = /^Bearer\s+(\S+)\s*$/i.exec(authorization)
      if (bearer) {
        holder = this.holderOf(bearer[1] as string)
        // A wrong key is wrong, whoever is signed in beside it.
        if (holder === null && this.needsKey) return null
      }
    }
    if (holder === null && cookie !== undefined) {
      const found = COOKIE.exec(cookie)
      if (found) {
        const session = found[1] as string
        holder = this.#sessions.get(lookUpOf(session)) ?? this.#ring?.bySession(session) ?? null
      }
    }
    return holder ?? (this.needsKey ? null : this.#local)
  }

  /** Whose key it is; null: nobody's. */
  holderOf(key: string): KeyHolder | null {
    // Without keys nothing is computed of what a client sends.
    const configured = this.#configured.size > 0 ? this.#configured.get(lookUpOf(key)) : undefined
    return configured ?? this.#ring?.byKey(key) ?? null
  }

  /**
   * Who asks, if that is somebody who may use this part of the service; `key`: one that stands in the address.
   * Throws `unauthorized`, `forbidden_role`.
   */
  admit(req: IncomingMessage, surface: SurfaceName, key: string | null = null): KeyHolder {
    const fromAddress = key === null ? null : this.holderOf(key)
    const holder = fromAddress ?? this.actorOf(req)
    if (holder === null) {
      throw new RewardOpsError(
        'unauthorized',
        'A key is needed, and none or a wrong one was sent.',
        surface === 'dialects'
          ? { hint: 'Send "Authorization: Bearer <key>", or end the address with /k/<key>.' }
          : {},
      )
    }
    checkRole(holder, surfaceRole(surface), surface)
    return holder
  }

  /** The Set-Cookie value of a login (30 days), or of a logout. */
  cookie(key: string | null, secure: boolean): string {
    const attributes = `Path=/; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`
    return key === null
      ? `${SESSION_COOKIE}=; Max-Age=0; ${attributes}`
      : `${SESSION_COOKIE}=${sessionOf(key)}; Max-Age=2592000; ${attributes}`
  }
}

const COOKIE = new RegExp(`(?:^|;\\s*)${SESSION_COOKIE}=([0-9a-f]{64})(?:;|$)`)

function localHolder(end: AbortController): KeyHolder {
  return { name: 'local', role: 'admin', keyId: null, withKey: false, ended: end.signal }
}
