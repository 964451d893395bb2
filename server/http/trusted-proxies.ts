import type { IncomingMessage } from 'node:http'
import { type BlockList, isIP } from 'node:net'
import { isWithin, networksOf } from '../networks.ts'

export type SentRequest = Pick<IncomingMessage, 'headers' | 'socket'>

const FORWARDING = new Set(['forwarded', 'x-real-ip', 'via'])

/** Returns the name of a header that a proxy added to the request, or null if there is none. */
export function forwardingHeader({ headers }: Pick<IncomingMessage, 'headers'>): string | null {
  for (const name in headers) {
    if (FORWARDING.has(name) || name.startsWith('x-forwarded-')) return name
  }
  return null
}

/**
 * Determines the client address, the scheme and the host of a request. `X-Forwarded-For`, `-Proto` and `-Host`, or
 * `Forwarded` (RFC 7239), are used only if the connection comes from a trusted proxy. `X-Forwarded-*` takes precedence.
 */
export class TrustedProxies {
  readonly #networks: BlockList
  readonly #isEmpty: boolean

  /** @throws Error if an entry is neither an IP address nor a network */
  constructor(networks: readonly string[]) {
    this.#networks = networksOf(networks)
    this.#isEmpty = networks.length === 0
  }

  /**
   * The address of the client: the last address in the forwarding header that is not a trusted proxy. Earlier addresses
   * are ignored, because the client may have made them up.
   */
  clientAddress(req: SentRequest): string {
    let client = peerAddress(req)
    if (!this.#isFromProxy(req)) return client
    const hops = listOf(req.headers['x-forwarded-for']) ?? forwardedValues(req, 'for') ?? []
    for (const hop of hops.reverse()) {
      const address = addressOf(hop)
      if (address === null) break
      client = address
      if (!isWithin(this.#networks, address)) break
    }
    return client
  }

  /** True when the client's connection is encrypted, here or at the last trusted proxy. */
  isHttps(req: SentRequest): boolean {
    if ('encrypted' in req.socket) return true
    if (!this.#isFromProxy(req)) return false
    const schemes = listOf(req.headers['x-forwarded-proto']) ?? forwardedValues(req, 'proto')
    return schemes?.at(-1)?.toLowerCase() === 'https'
  }

  /** Returns the host, and the port if given, that the client named. Empty if it named none. */
  host(req: SentRequest): string {
    const own = req.headers.host ?? ''
    if (!this.#isFromProxy(req)) return own
    const hosts = listOf(req.headers['x-forwarded-host']) ?? forwardedValues(req, 'host')
    return hosts?.at(-1) ?? own
  }

  #isFromProxy(req: SentRequest): boolean {
    return (
      !this.#isEmpty && isIP(peerAddress(req)) !== 0 && isWithin(this.#networks, peerAddress(req))
    )
  }
}

/** Returns the address of the other end of the connection, or an empty string after the connection has closed. */
function peerAddress({ socket }: SentRequest): string {
  return (socket.remoteAddress ?? '').replace(/^::ffff:(?=\d+\.)/, '')
}

function listOf(header: string | string[] | undefined): string[] | null {
  if (header === undefined) return null
  const values = String(header)
    .split(',')
    .map((value) => value.trim())
    .filter(Boolean)
  return values.length === 0 ? null : values
}

function forwardedValues({ headers }: SentRequest, name: string): string[] | null {
  const { forwarded } = headers
  if (forwarded === undefined) return null
  const pattern = new RegExp(`(?:^|[;,])\\s*${name}=(?:"([^"]*)"|([^;,\\s]*))`, 'gi')
  const values = [...forwarded.matchAll(pattern)].map((found) => found[1] ?? found[2] ?? '')
  return values.length === 0 ? null : values
}

/** Returns an address without its port and brackets, or null if it is not an IP address, such as `unknown`. */
function addressOf(hop: string): string | null {
  const bare = /^\[([^\]]*)\](?::\d+)?$/.exec(hop)?.[1] ?? hop.replace(/^([\d.]+):\d+$/, '$1')
  return isIP(bare) === 0 ? null : bare.replace(/^::ffff:(?=\d+\.)/i, '')
}
