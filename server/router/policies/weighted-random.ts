import { weightOf } from './load.ts'
import type { BalancingPolicy } from './policy.ts'
import { seededRandom } from './seeded-random.ts'

/** Picks a random server, in proportion to the weights and regardless of load. */
export function weightedRandom(seed: number): BalancingPolicy {
  const random = seededRandom(seed)
  return {
    name: 'weighted_random',
    pick(candidates) {
      let total = 0
      for (let i = 0; i < candidates.length; i++) {
        total += weightOf(candidates[i] as (typeof candidates)[number])
      }
      let left = random() * total
      for (let i = 0; i < candidates.length - 1; i++) {
        const server = candidates[i] as (typeof candidates)[number]
        left -= weightOf(server)
        if (left < 0) return server
      }
      return candidates[candidates.length - 1] as (typeof candidates)[number]
    },
    forget() {},
  }
}
