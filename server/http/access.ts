import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { endKey } from '../admin/key-end.ts'
import { type KeyHolder, lookUpOf } from '../admin/key-holder.ts'
import type { KeyRing } from '../admin/key-ring.ts'
import { checkRole } from '../api/call-rules.ts'
import { checkAccess, mayBrowse } from '../api/scopes.ts'
import { SURFACES, type SurfaceName } from '../api/surfaces.ts'
import { type Config, isLoopback } from '../config.ts'
import { ERROR_REASONS } from '../contract/error-reasons.ts'
import { FUNCTION_CALLER_HEADER } from '../contract/isolation.ts'
import { RewardOpsError } from '../errors.ts'
import { isFunctionUser } from '../isolation/function-users.ts'
import type { Logger } from '../log.ts'
import { isOutage, outageRefusal } from '../store/database.ts'
import { HAS_PEER_OWNERS, type PeerOwner, PeerOwners } from './peer-owner.ts'
import { forwardingHeader, TrustedProxies } from './trusted-proxies.ts'
import { WrongKeys } from './wrong-keys.ts'

export const SESSION_COOKIE = 'rewardops_session'

const NEVER = new AbortController().signal

/** The name or address of a host, without port and brackets. */
export function hostName(host: string): string {
  return host.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1')
}

/**
 * Decides which callers are allowed. Without API keys, only processes of the service's own user and of root on this
 * machine are allowed. Their requests must not come through a proxy and must name a loopback host or one of
 * REWARDOPS_ALLOWED_HOSTS, so that pages of another origin and rebound DNS names get no access. With keys, a caller
 * sends a bearer key or the login cookie of the pages.
 */
export class Access {
  /** The holders of the keys in REWARDOPS_API_KEYS, by the digest of the key; see {@link lookUpOf}. */
  readonly configured: ReadonlyMap<string, KeyHolder>
  readonly wrongKeys: WrongKeys
  #ring: KeyRing | null = null
  #localEnd = new AbortController()
  #local: KeyHolder = localHolder(this.#localEnd)
  /** The last accepted Host header. Trainers send the same one in every request, so it is usually not checked again. */
  #knownHost: string | null = null
  readonly #owners = new PeerOwners()
  /** The owner of the other end of each connection checked so far. */
  readonly #peers = new WeakMap<Socket, PeerOwner | Promise<PeerOwner>>()
  readonly #ownUids = new Set([0, process.getuid?.() ?? 0, process.geteuid?.() ?? 0])

  readonly proxies: TrustedProxies

  /** The prefix of all paths in the browser; may be empty. */
  readonly basePath: string

  /** Host names that requests may name besides loopback names, in lower case. */
  readonly #allowedHosts: ReadonlySet<string>

  constructor(
    config: Pick<Config, 'apiKeys' | 'trustedProxies' | 'allowedHosts' | 'basePath'>,
    log: Logger,
  ) {
    this.basePath = config.basePath
    this.#allowedHosts = new Set(config.allowedHosts)
    this.proxies = new TrustedProxies(config.trustedProxies)
    this.wrongKeys = new WrongKeys(log)
    this.configured = new Map(
      config.apiKeys.map(({ key, role }, i) => [
        lookUpOf(key),
        {
          name: `configured key ${i + 1}`,
          role,
          keyId: null,
          scope: null,
          hasKey: true,
          session: null,
          ended: NEVER,
        },
      ]),
    )
  }

  /** Starts to check stored keys. Running calls without a key end when keys become required. */
  use(ring: KeyRing): void {
    this.#ring = ring
    ring.onRequired = () => {
      const end = this.#localEnd
      this.#localEnd = new AbortController()
      this.#local = localHolder(this.#localEnd)
      endKey(end, 'An API key is now required.', ERROR_REASONS.unauthorized.hint)
    }
  }

  get requiresKey(): boolean {
    return this.configured.size > 0 || (this.#ring?.required ?? false)
  }

  /**
   * Refuses calls through a proxy and calls of other users while no key is required. Processes of reward functions may
   * call only the router's paths, even with a key.
   * @throws RewardOpsError `forbidden_proxy`, `forbidden_user`
   */
  checkPeer(req: IncomingMessage, isRouterPath: boolean): Promise<void> | undefined {
    if (!isRouterPath && req.headers[FUNCTION_CALLER_HEADER] !== undefined) throw ofFunction()
    if (this.requiresKey) return
    const header = forwardingHeader(req)
    if (header !== null) {
      throw new RewardOpsError(
        'forbidden_proxy',
        `The request came through a proxy (it has the header ${header}), and no API key is required.`,
      )
    }
    if (!HAS_PEER_OWNERS) return
    const { socket } = req
    const known = this.#peers.get(socket)
    if (known !== undefined && !(known instanceof Promise)) {
      return this.#checkOwner(known, isRouterPath)
    }
    const looking =
      known ??
      this.#owners.of(socket).then((owner) => {
        this.#peers.set(socket, owner)
        return owner
      })
    if (known === undefined) this.#peers.set(socket, looking)
    // Keys may have become required during the lookup.
    return looking.then((owner) =>
      this.requiresKey ? undefined : this.#checkOwner(owner, isRouterPath),
    )
  }

  #checkOwner(owner: PeerOwner, isRouterPath: boolean): undefined {
    if (owner.known) {
      if (this.#ownUids.has(owner.uid)) return
      if (isFunctionUser(owner.uid)) {
        if (isRouterPath) return
        throw ofFunction()
      }
      throw new RewardOpsError(
        'forbidden_user',
        `The request came from a process of user id ${owner.uid}, and no API key is required.`,
      )
    }
    // On a system that does not report owners, only the other checks apply.
    if (owner.why === 'unreadable') return
    throw new RewardOpsError(
      'forbidden_user',
      'The user that sent the request cannot be determined, and no API key is required.',
    )
  }

  /**
   * Checks the host that the request names, and the page that sent it. The host check refuses pages whose DNS name was
   * rebound to this service.
   * @throws RewardOpsError `forbidden_host`, `forbidden_origin`
   */
  checkOrigin(req: IncomingMessage): void {
    const host = this.proxies.host(req)
    const isAnyAllowed = this.requiresKey && this.#allowedHosts.size === 0
    if (!isAnyAllowed && host !== this.#knownHost) {
      const name = hostName(host).toLowerCase()
      if (isLoopback(name) || this.#allowedHosts.has(name)) this.#knownHost = host
      else
        throw new RewardOpsError(
          'forbidden_host',
          `The host "${host.slice(0, 100)}" is not allowed.`,
        )
    }
    const { origin } = req.headers
    if (origin !== undefined) {
      let from: string | null = null
      try {
        from = new URL(origin).host
      } catch {
        // An origin such as "null" is not a URL and is refused below.
      }
      if (from !== host.toLowerCase()) {
        throw new RewardOpsError(
          'forbidden_origin',
          `The page at ${origin.slice(0, 100)} may not call this service.`,
        )
      }
    } else if (!this.#mayCome(req.headers)) {
      throw new RewardOpsError(
        'forbidden_origin',
        'Requests from pages of another site are refused.',
        { hint: 'Enter the URL in the address bar, or open it from a bookmark.' },
      )
    }
  }

  /**
   * Whether a browser may send a request without an `Origin` header. Pages of another origin may only link to this
   * service. Without keys, only pages of the same site may link to it, because a visit without a key has the rights of
   * an admin.
   */
  #mayCome(headers: IncomingMessage['headers']): boolean {
    const site = headers['sec-fetch-site']
    if (site === undefined || site === 'same-origin' || site === 'none') return true
    if (headers['sec-fetch-mode'] !== 'navigate') return false
    if ((headers['sec-fetch-dest'] ?? 'document') !== 'document') return false
    return this.requiresKey || site === 'same-site'
  }

  /**
   * Returns the caller, or null if a key is required and the request has no valid key. If no key is required, a valid
   * key still gives its holder's name and role, and an unknown key is ignored, because some clients always send one.
   * @throws RewardOpsError `too_many_wrong_keys`
   */
  actorOf(req: IncomingMessage): KeyHolder | null {
    const { authorization, cookie } = req.headers
    let holder: KeyHolder | null = null
    if (authorization !== undefined) {
      const bearer = /^Bearer\s+(\S+)\s*$/i.exec(authorization)
      if (bearer) {
        holder = this.holderOf(bearer[1] as string)
        // A wrong key is refused even if the request also has a valid login cookie.
        if (holder === null && this.requiresKey) {
          this.wrongKeys.add(this.proxies.clientAddress(req))
          return null
        }
      }
    }
    if (holder === null && cookie !== undefined) {
      const found = COOKIE.exec(cookie)
      if (found) {
        holder = this.#ring?.byCookie(found[1] as string) ?? null
      }
    }
    return holder ?? (this.requiresKey ? null : this.#local)
  }

  holderOf(key: string): KeyHolder | null {
    // Without configured keys, no digest needs to be computed.
    const configured = this.configured.size > 0 ? this.configured.get(lookUpOf(key)) : undefined
    return configured ?? this.#ring?.byKey(key) ?? null
  }

  /**
   * Looks for the login cookie of a request in the database if this process does not know it. The browser may have
   * signed in through another process. Returns undefined if there is nothing to look up.
   * @throws RewardOpsError `database_unavailable`
   */
  findSession(req: IncomingMessage): Promise<void> | undefined {
    const { authorization, cookie } = req.headers
    if (cookie === undefined || authorization !== undefined || !this.requiresKey) return
    const found = COOKIE.exec(cookie)
    if (found === null || this.#ring === null || this.#ring.byCookie(found[1] as string) !== null)
      return
    return this.#ring.readForUnknown().catch((error: unknown) => {
      throw isOutage(error) ? outageRefusal(error) : error
    })
  }

  /**
   * Returns the caller if it may use `surface`. `key` is a key from the URL. The runs that the request names are not
   * known here: `Scopes.check` checks them.
   * @throws RewardOpsError `unauthorized`, `too_many_wrong_keys`, `forbidden_role`, `forbidden_scope`
   */
  admit(req: IncomingMessage, surface: SurfaceName, key: string | null = null): KeyHolder {
    const holderInUrl = key === null ? null : this.holderOf(key)
    if (key !== null && holderInUrl === null && this.requiresKey) {
      this.wrongKeys.add(this.proxies.clientAddress(req))
    }
    const holder = holderInUrl ?? this.actorOf(req)
    if (holder === null) {
      throw new RewardOpsError(
        'unauthorized',
        'A valid API key is required.',
        surface === 'dialects'
          ? { hint: 'Send "Authorization: Bearer <key>", or end the URL with /k/<key>.' }
          : {},
      )
    }
    const rules = SURFACES[surface]
    checkRole(holder, rules.role, surface)
    checkAccess(holder, surface, rules)
    return holder
  }

  /**
   * Opens a login session for a key. It replaces the session of the request. Returns the Set-Cookie value, or null if
   * the key is unknown.
   * @throws RewardOpsError `too_many_wrong_keys`, and `forbidden_scope` for a key that cannot use the pages
   */
  async signIn(req: IncomingMessage, key: string): Promise<string | null> {
    const holder = this.holderOf(key)
    if (holder !== null && !mayBrowse(holder.scope)) {
      throw new RewardOpsError(
        'forbidden_scope',
        `The key "${holder.name}" cannot sign in: it is limited to submits or to a run prefix, and the dashboard shows all runs.`,
      )
    }
    const opened = await this.#ring?.signIn(key, {
      address: this.proxies.clientAddress(req),
      userAgent: req.headers['user-agent'] ?? '',
    })
    if (!opened) {
      this.wrongKeys.add(this.proxies.clientAddress(req))
      return null
    }
    await this.#endSession(req)
    return this.#setCookie(req, opened.cookie, opened.maxAgeSeconds)
  }

  async signOut(req: IncomingMessage): Promise<string> {
    await this.#endSession(req)
    return this.#setCookie(req, '', 0)
  }

  /** The URL of the service in the browser that sent the request, without a trailing slash. */
  addressOf(req: IncomingMessage): string {
    const scheme = this.proxies.isHttps(req) ? 'https' : 'http'
    return `${scheme}://${this.proxies.host(req) || 'localhost'}${this.basePath}`
  }

  #setCookie(req: IncomingMessage, value: string, maxAgeSeconds: number): string {
    const secure = this.proxies.isHttps(req) ? '; Secure' : ''
    return `${SESSION_COOKIE}=${value}; Max-Age=${maxAgeSeconds}; Path=${this.basePath || '/'}; HttpOnly; SameSite=Lax${secure}`
  }

  async #endSession({ headers: { cookie = '' } }: IncomingMessage): Promise<void> {
    const found = COOKIE.exec(cookie)
    if (found !== null) await this.#ring?.signOut(found[1] as string)
  }
}

function ofFunction(): RewardOpsError {
  return new RewardOpsError(
    'forbidden_user',
    'The request came from a reward function, which may call only the router address.',
  )
}

const COOKIE = new RegExp(`(?:^|;\\s*)${SESSION_COOKIE}=([\\w-]{43})(?:;|$)`)

function localHolder(end: AbortController): KeyHolder {
  return {
    name: 'local',
    role: 'admin',
    keyId: null,
    scope: null,
    hasKey: false,
    session: null,
    ended: end.signal,
  }
}
