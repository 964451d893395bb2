/** 32 bits of a text, seeded: FNV-1a over its UTF-16 units, then mixed. */
export function hashText(text: string, seed: number): number {
  let hash = 0x811c9dc5 ^ seed
  for (let i = 0; i < text.length; i++) {
    hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  }
  return mix(hash)
}

/** 32 bits of a number, seeded. */
export function hashNumber(value: number, seed: number): number {
  return mix(Math.imul(value, 0x9e3779b1) ^ mix(seed))
}

/**
 * A server's place in the order of a hashed key, in (0, 1): the highest comes first. Each key has an order of its own;
 * a server that leaves moves its own keys only, each to the next in that key's order.
 */
export function rendezvousRank(keyHash: number, serverId: number): number {
  return ((mix(keyHash ^ Math.imul(serverId + 1, 0x9e3779b1)) >>> 0) + 0.5) / 2 ** 32
}

/** The rank by weight: a server of twice the weight comes first for twice as many keys (higher is first, below 0). */
export function weightedRank(rank: number, weight: number): number {
  return Math.log(rank) / weight
}

/** The finaliser of MurmurHash3: every bit of the input turns about half of the output's. */
function mix(value: number): number {
  let hash = value | 0
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return hash ^ (hash >>> 16)
}
