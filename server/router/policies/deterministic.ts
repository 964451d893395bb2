import { weightOf } from './load.ts'
import type { BalancingPolicy } from './policy.ts'
import { hashNumber, hashText, rendezvousRank, weightedRank } from './rendezvous.ts'

/**
 * Picks the first server in the rendezvous order of the sample's key and a seed, regardless of load. The same seed,
 * keys and servers give the same assignment, which makes runs reproducible. Samples without a key use their group, or
 * else a sequence number. The candidates must include servers without free slots. Otherwise load would decide.
 */
export function deterministic(seed: number): BalancingPolicy {
  let unkeyed = 0
  return {
    name: 'deterministic',
    pick(candidates, sample) {
      const text = sample.key ?? sample.group
      const hash = text === undefined ? hashNumber(unkeyed++, seed) : hashText(text, seed)
      const firstWeight = weightOf(candidates[0] as (typeof candidates)[number])
      let sameWeight = true
      for (let i = 1; i < candidates.length && sameWeight; i++) {
        sameWeight = weightOf(candidates[i] as (typeof candidates)[number]) === firstWeight
      }
      let best = candidates[0] as (typeof candidates)[number]
      let bestRank = Number.NEGATIVE_INFINITY
      for (let i = 0; i < candidates.length; i++) {
        const server = candidates[i] as (typeof candidates)[number]
        const plain = rendezvousRank(hash, server.id)
        const rank = sameWeight ? plain : weightedRank(plain, weightOf(server))
        if (rank > bestRank || (rank === bestRank && server.id < best.id)) {
          best = server
          bestRank = rank
        }
      }
      return best
    },
    forget() {},
  }
}
