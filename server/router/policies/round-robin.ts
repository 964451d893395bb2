import { weightOf } from './load.ts'
import type { BalancingPolicy } from './policy.ts'

/** Round robin, which uses only the id and weight of a server and no property of a sample. */
export interface RoundRobin extends BalancingPolicy {
  pick<T extends { readonly id: number; readonly weight: number }>(candidates: readonly T[]): T
}

/**
 * Smooth weighted round robin. Each pick adds every candidate's weight to its credit, takes the candidate with the most
 * credit, and subtracts the sum of all weights from that candidate's credit. Servers a, b and c with weights 5, 1 and 1
 * are picked in the order a a b a c a a, rather than a a a a a b c. Ties go to the first candidate.
 */
export function roundRobin(): RoundRobin {
  // Credits are objects, because updating a number in a map would allocate at every pick.
  const credits = new Map<number, { credit: number }>()
  return {
    name: 'round_robin',
    pick(candidates) {
      let best = candidates[0] as (typeof candidates)[number]
      if (candidates.length === 1) return best
      let total = 0
      let bestEntry: { credit: number } | undefined
      for (let i = 0; i < candidates.length; i++) {
        const server = candidates[i] as (typeof candidates)[number]
        const weight = weightOf(server)
        let entry = credits.get(server.id)
        if (entry === undefined) {
          entry = { credit: 0 }
          credits.set(server.id, entry)
        }
        entry.credit += weight
        total += weight
        if (bestEntry === undefined || entry.credit > bestEntry.credit) {
          best = server
          bestEntry = entry
        }
      }
      if (bestEntry !== undefined) bestEntry.credit -= total
      return best
    },
    forget(serverId) {
      credits.delete(serverId)
    },
  }
}
