import { measured, sampleLoad } from './load.ts'
import type { BalancingPolicy, PolicyServer } from './policy.ts'
import { SeenMedian } from './seen-median.ts'
import { Turn } from './turn.ts'

/**
 * Picks the server with the lowest product of latency and samples: the peak EWMA of its ms per 1,000 tokens, times the
 * number of samples it would have, divided by its weight. A peak EWMA rises immediately and falls slowly. An unmeasured
 * server is assumed to have the median latency.
 */
export function peakEwma(): BalancingPolicy {
  const turn = new Turn()
  const median = new SeenMedian()
  return {
    name: 'peak_ewma',
    pick(candidates) {
      let unmeasuredMs = 0
      let best = candidates[0] as (typeof candidates)[number]
      let bestCost = Number.POSITIVE_INFINITY
      for (let i = 0; i < candidates.length; i++) {
        const server = candidates[i] as (typeof candidates)[number]
        let peakMs = measured(server.peakMsPerKtok)
        if (peakMs === 0) {
          if (unmeasuredMs === 0) unmeasuredMs = medianPeakMs(median, candidates)
          peakMs = unmeasuredMs
        }
        const cost = peakMs * sampleLoad(server)
        if (cost < bestCost || (cost === bestCost && turn.before(server.id, best.id))) {
          best = server
          bestCost = cost
        }
      }
      turn.took(best.id)
      return best
    },
    forget() {},
  }
}

function medianPeakMs(median: SeenMedian, candidates: readonly PolicyServer[]): number {
  median.clear()
  for (let i = 0; i < candidates.length; i++) {
    const peakMs = measured((candidates[i] as PolicyServer).peakMsPerKtok)
    if (peakMs > 0) median.add(peakMs)
  }
  return median.value
}
