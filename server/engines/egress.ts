import { type LookupAddress, type LookupAllOptions, type LookupOptions, lookup } from 'node:dns'
import { BlockList, isIP } from 'node:net'
import { buildConnector } from 'undici'
import { addNetwork, isWithin } from '../networks.ts'

/**
 * Addresses that are always refused: link-local, multicast, broadcast and reserved networks, and cloud metadata
 * services, which give credentials to every process on the machine.
 */
const forbidden = blockList([
  '169.254.0.0/16', // link-local; AWS, Google, Azure, ECS metadata
  '168.63.129.16/32', // Azure WireServer
  '100.100.100.200/32', // Alibaba Cloud metadata
  '192.0.0.192/32', // Oracle Cloud metadata
  '224.0.0.0/4', // multicast
  '240.0.0.0/4', // reserved, broadcast
  'fe80::/10', // link-local
  'fd00:ec2::254/128', // AWS metadata
  'ff00::/8', // multicast
])

/** Networks by their name in REWARDOPS_EGRESS_ALLOW. `public` stands for all other addresses. */
const CLASSES: Readonly<Record<'loopback' | 'private', BlockList>> = {
  // Connections to 0.0.0.0 and :: reach this machine.
  loopback: blockList(['127.0.0.0/8', '0.0.0.0/8', '::1/128', '::/128']),
  private: blockList([
    ...['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', '198.18.0.0/15'],
    'fc00::/7',
  ]),
}

const METADATA_NAMES = new Set([
  'metadata',
  'metadata.google.internal',
  'metadata.goog',
  'instance-data',
  'instance-data.ec2.internal',
  'metadata.azure.com',
  'metadata.tencentyun.com',
])

/**
 * Builds a list of networks. For an IPv4 network, it adds the IPv6 networks that embed it: NAT64, 6to4 and
 * IPv4-compatible. `BlockList` itself handles IPv4-mapped addresses.
 */
function blockList(networks: readonly string[]): BlockList {
  const list = new BlockList()
  for (const network of networks) {
    addNetwork(list, network)
    const [address = '', bits] = network.split('/')
    if (isIP(address) !== 4) continue
    const hex = Buffer.from(address.split('.').map(Number)).toString('hex')
    addNetwork(list, `64:ff9b::${address}/${96 + Number(bits)}`)
    addNetwork(list, `::${address}/${96 + Number(bits)}`)
    addNetwork(list, `2002:${hex.slice(0, 4)}:${hex.slice(4)}::/${16 + Number(bits)}`)
  }
  return list
}

type AddressClass = keyof typeof CLASSES | 'public'

function classOf(address: string): AddressClass {
  if (isWithin(CLASSES.loopback, address)) return 'loopback'
  return isWithin(CLASSES.private, address) ? 'private' : 'public'
}

/**
 * The addresses that the service may call for reward models, sandboxes and webhooks. Link-local and metadata addresses
 * are never among them.
 */
export class EgressPolicy {
  readonly #classes = new Set<string>()
  readonly #networks = new BlockList()
  readonly #names: string[] = []

  /**
   * `entries`: `loopback`, `private`, `public`, addresses, networks, host names, and `*.example.org` for all names
   * below a domain.
   * @throws Error that names the first wrong entry
   */
  constructor(entries: readonly string[]) {
    for (const entry of entries) {
      const name = entry.toLowerCase()
      if (name in CLASSES || name === 'public') this.#classes.add(name)
      else if (addNetwork(this.#networks, name)) continue
      else if (/^(\*\.)?[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?$/.test(name) && !/^[\d.]+$/.test(name)) {
        this.#names.push(name)
      } else {
        throw new Error(
          `"${entry}" is neither loopback, private, public, a network such as 10.0.0.0/8, nor a host name such as *.example.org`,
        )
      }
    }
  }

  /**
   * Returns the reason why an address must not be called, or null if there is none. `host` is the name that resolved to
   * the address. A listed name may have a private or public address. It may have a loopback address only if
   * `loopback` is listed too, because the owner of a name chooses its addresses.
   */
  refusal(address: string, host?: string): string | null {
    if (isWithin(forbidden, address)) return 'a link-local or metadata address'
    const found = classOf(address)
    if (this.#classes.has(found) || isWithin(this.#networks, address)) return null
    if (host !== undefined && found !== 'loopback' && this.#hasName(host)) return null
    return `a ${found} address that REWARDOPS_EGRESS_ALLOW does not list`
  }

  #hasName(host: string): boolean {
    const name = host.toLowerCase().replace(/\.$/, '')
    return this.#names.some((known) =>
      known.startsWith('*.') ? name.endsWith(known.slice(1)) : name === known,
    )
  }
}

let policy = new EgressPolicy(['loopback', 'private', 'public'])

/**
 * Sets the policy of this process or thread, once at its start.
 * @throws Error that names the setting and its first wrong entry
 */
export function setEgressPolicy(entries: readonly string[]): void {
  try {
    policy = new EgressPolicy(entries)
  } catch (error) {
    throw new Error(`REWARDOPS_EGRESS_ALLOW: ${(error as Error).message}`)
  }
}

/**
 * Returns the reason why a host must not be called, or null if there is none. Checks a host name without resolving it.
 */
export function hostRefusal(hostname: string): string | null {
  const host = bare(hostname)
  if (isIP(host) !== 0) return policy.refusal(host)
  const name = host.toLowerCase().replace(/\.$/, '')
  return METADATA_NAMES.has(name) ? 'a link-local or metadata address' : null
}

function bare(hostname: string): string {
  return hostname.replace(/^\[(.*)\]$/, '$1')
}

export const FORBIDDEN_ADDRESS_CODE = 'ERR_FORBIDDEN_ADDRESS'

function forbiddenAddress(message: string): NodeJS.ErrnoException {
  return Object.assign(new Error(message), { code: FORBIDDEN_ADDRESS_CODE })
}

type LookupCallback = (
  error: NodeJS.ErrnoException | null,
  address: string | LookupAddress[],
  family?: number,
) => void

/**
 * `dns.lookup` that refuses a name if any of its addresses is refused. The socket connects to an address checked here,
 * so the name cannot be rebound to another address between check and connection.
 */
function guardedLookup(hostname: string, options: LookupOptions, callback: LookupCallback): void {
  const all: LookupAllOptions = { ...options, all: true }
  lookup(hostname, all, (error, addresses) => {
    if (error !== null) {
      callback(error, [])
      return
    }
    for (const { address } of addresses) {
      const refusal = policy.refusal(address, hostname)
      if (refusal === null) continue
      callback(forbiddenAddress(`${hostname} resolves to ${address}, ${refusal}`), [])
      return
    }
    const one = addresses[0]
    if (options.all === true) callback(null, addresses)
    else callback(null, one?.address ?? '', one?.family ?? 4)
  })
}

/**
 * The connector of all clients for URLs that users configure. It checks each IP address that it connects to, because
 * names may be rebound, and because a URL may have been registered under another policy.
 */
export function guardedConnector(timeoutMs: number): buildConnector.connector {
  const connect = buildConnector({ timeout: timeoutMs, allowH2: false, lookup: guardedLookup })
  return (options, callback) => {
    const refusal = hostRefusal(options.hostname)
    if (refusal === null) connect(options, callback)
    else callback(forbiddenAddress(`${options.hostname} is ${refusal}`), null)
  }
}
