import { sampleLoad } from './load.ts'
import type { BalancingPolicy } from './policy.ts'
import { Turn } from './turn.ts'

/** Picks the server with the fewest samples, from any client, relative to its weight. Ties are broken round robin. */
export function leastConnections(): BalancingPolicy {
  const turn = new Turn()
  return {
    name: 'least_connections',
    pick(candidates) {
      let best = candidates[0] as (typeof candidates)[number]
      let bestLoad = sampleLoad(best)
      for (let i = 1; i < candidates.length; i++) {
        const server = candidates[i] as (typeof candidates)[number]
        const load = sampleLoad(server)
        if (load < bestLoad || (load === bestLoad && turn.before(server.id, best.id))) {
          best = server
          bestLoad = load
        }
      }
      turn.took(best.id)
      return best
    },
    forget() {},
  }
}
