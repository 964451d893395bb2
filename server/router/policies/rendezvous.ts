/** Seeded 32-bit hash of a text: FNV-1a over its UTF-16 units, with MurmurHash3's finalizer. */
export function hashText(text: string, seed: number): number {
  let hash = 0x811c9dc5 ^ seed
  for (let i = 0; i < text.length; i++) {
    hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  }
  return mix(hash)
}

export function hashNumber(value: number, seed: number): number {
  return mix(Math.imul(value, 0x9e3779b1) ^ mix(seed))
}

/**
 * A server's rank for a hashed key, in (0, 1). The highest rank comes first. Each key has its own order of servers.
 * When a server leaves, only its keys move, each to the next server in the key's order.
 */
export function rendezvousRank(keyHash: number, serverId: number): number {
  return ((mix(keyHash ^ Math.imul(serverId + 1, 0x9e3779b1)) >>> 0) + 0.5) / 2 ** 32
}

/**
 * The rank adjusted by weight, a negative number. The highest rank comes first. A server of twice the weight comes
 * first for twice as many keys.
 */
export function weightedRank(rank: number, weight: number): number {
  return Math.log(rank) / weight
}

/** The finalizer of MurmurHash3: every input bit flips about half of the output bits. */
function mix(value: number): number {
  let hash = value | 0
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return hash ^ (hash >>> 16)
}
