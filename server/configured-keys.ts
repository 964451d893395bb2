import { ROLES, type Role } from './contract/roles.ts'
import { whyGuessable } from './guessable-key.ts'

/** A key of REWARDOPS_API_KEYS. */
export interface ConfiguredKey {
  key: string
  role: Role
}

/**
 * Reads the entries of REWARDOPS_API_KEYS: `ROLE:KEY`, or `KEY` for an admin key.
 * @throws Error that names a wrong entry by its position, because entries are secret
 */
export function configuredKeys(entries: readonly string[]): ConfiguredKey[] {
  const keys = entries.map((entry, i): ConfiguredKey => {
    const colon = entry.indexOf(':')
    const named = colon === -1 ? 'admin' : entry.slice(0, colon).trim()
    const key = entry.slice(colon + 1).trim()
    const role = ROLES.find((one) => one === named)
    if (role === undefined) {
      throw wrong(
        `key ${i + 1} has an unknown role. Write ROLE:KEY with the role viewer, trainer or admin, ` +
          'also for a key that contains a colon.',
      )
    }
    const why = whyGuessable(key)
    if (why !== null) {
      throw wrong(`key ${i + 1} ${why}. Make a random one with "openssl rand -hex 32".`)
    }
    return { key, role }
  })
  for (const [i, { key, role }] of keys.entries()) {
    const first = keys.findIndex((one) => one.key === key)
    if (keys[first]?.role !== role) {
      throw wrong(`key ${i + 1} repeats key ${first + 1} with another role.`)
    }
  }
  if (keys.length > 0 && keys.every(({ role }) => role !== 'admin')) {
    throw wrong('no key has the role admin. Add an admin key.')
  }
  return keys
}

function wrong(problem: string): Error {
  return new Error(`REWARDOPS_API_KEYS: ${problem}`)
}
