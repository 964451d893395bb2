import { countOf, externalSamples, measured, weightOf } from './load.ts'
import type { BalancingPolicy, PolicyServer } from './policy.ts'
import { SeenMedian } from './seen-median.ts'
import { Turn } from './turn.ts'

/** Weight of the newest sample in the mean sample size, which covers about the last 32 samples. */
const NEWEST_SHARE = 1 / 32

/**
 * Picks the server that would finish its work and this sample first. The time is estimated as the tokens in flight,
 * plus those of this sample and of other clients' samples (assumed to be of mean size), divided by the server's
 * tokens/s and weight. An unmeasured server is assumed to have the median speed.
 */
export function leastWork(): BalancingPolicy {
  const turn = new Turn()
  const median = new SeenMedian()
  let meanTokens = 0
  return {
    name: 'least_work',
    pick(candidates, sample) {
      const tokens = countOf(sample.tokens)
      meanTokens = meanTokens === 0 ? tokens : meanTokens + (tokens - meanTokens) * NEWEST_SHARE
      let unmeasuredRate = 0
      let best = candidates[0] as (typeof candidates)[number]
      let bestWait = Number.POSITIVE_INFINITY
      for (let i = 0; i < candidates.length; i++) {
        const server = candidates[i] as (typeof candidates)[number]
        const work = countOf(server.workTokens) + tokens + externalSamples(server) * meanTokens
        let rate = measured(server.tokensPerSecond)
        if (rate === 0) {
          if (unmeasuredRate === 0) unmeasuredRate = medianRate(median, candidates)
          rate = unmeasuredRate
        }
        const wait = work / (rate * weightOf(server))
        if (wait < bestWait || (wait === bestWait && turn.before(server.id, best.id))) {
          best = server
          bestWait = wait
        }
      }
      turn.took(best.id)
      return best
    },
    forget() {},
  }
}

function medianRate(median: SeenMedian, candidates: readonly PolicyServer[]): number {
  median.clear()
  for (let i = 0; i < candidates.length; i++) {
    const rate = measured((candidates[i] as PolicyServer).tokensPerSecond)
    if (rate > 0) median.add(rate)
  }
  return median.value
}
