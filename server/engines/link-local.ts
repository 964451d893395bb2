import { type LookupAddress, type LookupAllOptions, type LookupOptions, lookup } from 'node:dns'
import { BlockList, isIPv6 } from 'node:net'

/**
 * Forbidden addresses: link-local networks, and cloud metadata services, which give credentials to every process on the
 * machine. Loopback and private networks are allowed, because servers run there.
 */
const forbidden = new BlockList()
forbidden.addSubnet('169.254.0.0', 16, 'ipv4') // link-local; AWS, Google, Azure, ECS metadata
forbidden.addAddress('168.63.129.16', 'ipv4') // Azure WireServer
forbidden.addAddress('100.100.100.200', 'ipv4') // Alibaba Cloud metadata
forbidden.addAddress('192.0.0.192', 'ipv4') // Oracle Cloud metadata
forbidden.addSubnet('fe80::', 10, 'ipv6') // link-local
forbidden.addAddress('fd00:ec2::254', 'ipv6') // AWS metadata
// The same IPv4 networks within IPv6; BlockList handles ::ffff:0:0/96 itself.
forbidden.addSubnet('64:ff9b::a9fe:0', 112, 'ipv6') // NAT64
forbidden.addSubnet('2002:a9fe::', 32, 'ipv6') // 6to4
forbidden.addSubnet('::a9fe:0', 112, 'ipv6') // IPv4-compatible

const METADATA_NAMES = new Set([
  'metadata',
  'metadata.google.internal',
  'metadata.goog',
  'instance-data',
  'instance-data.ec2.internal',
  'metadata.azure.com',
  'metadata.tencentyun.com',
])

/** Whether an IP address (without brackets) is link-local or belongs to a metadata service. */
export function isForbiddenAddress(address: string): boolean {
  const bare = address.split('%', 1)[0] as string
  return forbidden.check(bare, isIPv6(bare) ? 'ipv6' : 'ipv4')
}

/** Whether a host name belongs to a metadata service. */
export function isMetadataName(hostname: string): boolean {
  return METADATA_NAMES.has(hostname.toLowerCase().replace(/\.$/, ''))
}

/** The `code` of {@link safeLookup}'s error for a name that resolves to a forbidden address. */
export const FORBIDDEN_ADDRESS_CODE = 'ERR_FORBIDDEN_ADDRESS'

type LookupCallback = (
  error: NodeJS.ErrnoException | null,
  address: string | LookupAddress[],
  family?: number,
) => void

/**
 * `dns.lookup` that refuses a name if any of its addresses is forbidden. Every connection uses it, because a name that
 * was harmless at registration may later resolve to another address.
 */
export function safeLookup(
  hostname: string,
  options: LookupOptions,
  callback: LookupCallback,
): void {
  const all: LookupAllOptions = { ...options, all: true }
  lookup(hostname, all, (error, addresses) => {
    if (error !== null) {
      callback(error, [])
      return
    }
    const bad = addresses.find((entry) => isForbiddenAddress(entry.address))
    if (bad !== undefined) {
      const refusal: NodeJS.ErrnoException = new Error(
        `${hostname} resolves to ${bad.address}, a link-local or metadata address`,
      )
      refusal.code = FORBIDDEN_ADDRESS_CODE
      callback(refusal, [])
      return
    }
    const one = addresses[0]
    if (options.all === true) callback(null, addresses)
    else callback(null, one?.address ?? '', one?.family ?? 4)
  })
}
