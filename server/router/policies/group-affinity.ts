import { leastWork } from './least-work.ts'
import { countOf, externalSamples, weightOf } from './load.ts'
import type { BalancingPolicy } from './policy.ts'
import { hashText, rendezvousRank, weightedRank } from './rendezvous.ts'

/** Load above this much of the mean passes a group's samples on to the next server in its order. */
const BOUND = 1.25
/**
 * Samples that are no load at all: as many as a usual group has. By the bound alone an idle pool would take the samples of
 * its only group one server each, and the prefix would be computed everywhere.
 */
const FREE_SAMPLES = 8

/**
 * Samples of a group to one server, whose prefix cache they share: the first in the group's rendezvous order whose samples
 * are within 1.25 of the mean. Nothing is kept, so every process sends a group to the same server. Samples without a group
 * go by least work.
 */
export function groupAffinity(seed: number): BalancingPolicy {
  const ungrouped = leastWork()
  return {
    name: 'group_affinity',
    pick(candidates, sample) {
      if (sample.group === undefined) return ungrouped.pick(candidates, sample)
      let samples = 1
      let weights = 0
      const firstWeight = weightOf(candidates[0] as (typeof candidates)[number])
      let sameWeight = true
      for (let i = 0; i < candidates.length; i++) {
        const server = candidates[i] as (typeof candidates)[number]
        const weight = weightOf(server)
        samples += countOf(server.inFlight) + externalSamples(server)
        weights += weight
        if (weight !== firstWeight) sameWeight = false
      }
      const boundPerWeight = (BOUND * samples) / weights
      const hash = hashText(sample.group, seed)
      let best = candidates[0] as (typeof candidates)[number]
      let bestRank = Number.NEGATIVE_INFINITY
      let bestBusy = true
      for (let i = 0; i < candidates.length; i++) {
        const server = candidates[i] as (typeof candidates)[number]
        const weight = weightOf(server)
        const load = countOf(server.inFlight) + externalSamples(server)
        const busy = load >= FREE_SAMPLES && load > boundPerWeight * weight
        if (busy && !bestBusy) continue
        const plain = rendezvousRank(hash, server.id)
        // A logarithm costs more than all the rest, and among equal weights it changes no order.
        const rank = sameWeight ? plain : weightedRank(plain, weight)
        if (busy !== bestBusy || rank > bestRank || (rank === bestRank && server.id < best.id)) {
          best = server
          bestRank = rank
          bestBusy = busy
        }
      }
      return best
    },
    forget() {},
  }
}
