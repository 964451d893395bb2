import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { endKey } from '../admin/key-end.ts'
import { type KeyHolder, type KeyRing, lookUpOf, sessionOf } from '../admin/key-ring.ts'
import { checkRole, type SurfaceName, surfaceRole } from '../api/roles.ts'
import { type Config, isLoopback } from '../config.ts'
import { ERROR_REASONS } from '../contract/error-reasons.ts'
import { RewardOpsError } from '../errors.ts'
import { type PeerOwner, PeerOwners, TELLS_PEER_OWNERS } from './peer-owner.ts'

/** The login cookie: HttpOnly, same site, its value a digest of the key, never the key. */
export const SESSION_COOKIE = 'rewardops_session'

const NEVER = new AbortController().signal

/** Headers that a proxy adds to what it passes on, beside those that begin with `x-forwarded-`. */
const FORWARDING = new Set(['forwarded', 'x-real-ip', 'via'])

/** The header that shows that a request was passed on by a proxy; null: none does. */
export function forwardingHeader({ headers }: Pick<IncomingMessage, 'headers'>): string | null {
  for (const name in headers) {
    if (FORWARDING.has(name) || name.startsWith('x-forwarded-')) return name
  }
  return null
}

function hostName(host: string): string {
  return host.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1')
}

/**
 * Who may ask. Without keys: processes of our own user and root on this machine, not through a proxy, and only under the
 * machine's own names, so that a page of another origin or a rebound DNS name reaches nothing. With keys: a bearer key, or the login cookie from our own pages. Keys are those of
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
  readonly #owners = new PeerOwners()
  /** Of connections that were looked at: who is at the other end. */
  readonly #peers = new WeakMap<Socket, PeerOwner | Promise<PeerOwner>>()
  readonly #ownUids = new Set([0, process.getuid?.() ?? 0, process.geteuid?.() ?? 0])

  constructor(config: Pick<Config, 'apiKeys'>) {
    config.apiKeys.forEach((key, i) => {
      const holder: KeyHolder = {
        name: `configured key ${i + 1}`,
        role: 'admin',
        keyId: null,
        hasKey: true,
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
  get requiresKey(): boolean {
    return this.#configured.size > 0 || (this.#ring?.required ?? false)
  }

  /** Names of the keys of REWARDOPS_API_KEYS. */
  get configuredNames(): string[] {
    return [...this.#configured.values()].map(({ name }) => name)
  }

  /**
   * Throws `forbidden_proxy` or `forbidden_user`: without keys, what a proxy passes on would come in as an admin's call,
   * whoever sent it. The owner of a connection is looked up once; a promise only while that is under way.
   */
  checkPeer(req: IncomingMessage): Promise<void> | undefined {
    if (this.requiresKey) return
    const header = forwardingHeader(req)
    if (header !== null) {
      throw new RewardOpsError(
        'forbidden_proxy',
        `The call came through a proxy (it has the header ${header}), and the service has no keys.`,
      )
    }
    if (!TELLS_PEER_OWNERS) return
    const { socket } = req
    const known = this.#peers.get(socket)
    if (known !== undefined && !(known instanceof Promise)) return this.#checkOwner(known)
    const looking =
      known ??
      this.#owners.of(socket).then((owner) => {
        this.#peers.set(socket, owner)
        return owner
      })
    if (known === undefined) this.#peers.set(socket, looking)
    // Keys may have become necessary meanwhile.
    return looking.then((owner) => (this.requiresKey ? undefined : this.#checkOwner(owner)))
  }

  #checkOwner(owner: PeerOwner): undefined {
    if (owner.known) {
      if (this.#ownUids.has(owner.uid)) return
      throw new RewardOpsError(
        'forbidden_user',
        `The call came from a process of the user with id ${owner.uid}, and the service has no keys.`,
      )
    }
    // A system that does not tell leaves the other checks.
    if (owner.why === 'unreadable') return
    throw new RewardOpsError(
      'forbidden_user',
      'It is not known which user the call came from, and the service has no keys.',
    )
  }

  /** Throws `forbidden_host` or `forbidden_origin`. */
  checkOrigin(req: IncomingMessage): void {
    const host = req.headers.host ?? ''
    if (!this.requiresKey && host !== this.#knownHost) {
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
        if (holder === null && this.requiresKey) return null
      }
    }
    if (holder === null && cookie !== undefined) {
      const found = COOKIE.exec(cookie)
      if (found) {
        const session = found[1] as string
        holder = this.#sessions.get(lookUpOf(session)) ?? this.#ring?.bySession(session) ?? null
      }
    }
    return holder ?? (this.requiresKey ? null : this.#local)
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
  return { name: 'local', role: 'admin', keyId: null, hasKey: false, ended: end.signal }
}
