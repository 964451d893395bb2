import { BlockList, isIP, isIPv6 } from 'node:net'

/**
 * Reads a list of IP addresses and networks, such as `10.0.0.0/8` and `::1`.
 * @throws Error that names the first wrong entry
 */
export function networksOf(entries: readonly string[]): BlockList {
  const networks = new BlockList()
  for (const entry of entries) {
    if (!addNetwork(networks, entry)) {
      throw new Error(`"${entry}" is neither an IP address nor a network such as 10.0.0.0/8`)
    }
  }
  return networks
}

/** Adds an address or a network to a list. Returns false if the text is neither. */
export function addNetwork(networks: BlockList, entry: string): boolean {
  const [address = '', bits, ...rest] = entry.split('/')
  if (isIP(address) === 0 || rest.length > 0) return false
  const family = isIPv6(address) ? 'ipv6' : 'ipv4'
  if (bits === undefined) {
    networks.addAddress(address, family)
    return true
  }
  if (!/^\d{1,3}$/.test(bits) || Number(bits) > (family === 'ipv6' ? 128 : 32)) return false
  networks.addSubnet(address, Number(bits), family)
  return true
}

/** True when an IP address, with or without a zone, is in one of the networks. */
export function isWithin(networks: BlockList, address: string): boolean {
  const bare = address.split('%', 1)[0] as string
  return networks.check(bare, isIPv6(bare) ? 'ipv6' : 'ipv4')
}
