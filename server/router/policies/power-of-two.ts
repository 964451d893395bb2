import { sampleLoad } from './load.ts'
import type { BalancingPolicy } from './policy.ts'
import { seededRandom } from './seeded-random.ts'

/**
 * Picks the less loaded of two random servers. The cost does not grow with the pool, and processes that do not know of
 * each other do not all choose the same server. Weights have an effect only up to twice the mean weight: with n
 * servers, each is drawn for at most two of n samples.
 */
export function powerOfTwo(seed: number): BalancingPolicy {
  const random = seededRandom(seed)
  return {
    name: 'power_of_two',
    pick(candidates) {
      const count = candidates.length
      const first = Math.floor(random() * count)
      const a = candidates[first] as (typeof candidates)[number]
      if (count === 1) return a
      const step = 1 + Math.floor(random() * (count - 1))
      const b = candidates[(first + step) % count] as (typeof candidates)[number]
      return sampleLoad(b) < sampleLoad(a) ? b : a
    },
    forget() {},
  }
}
