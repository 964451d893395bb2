import { leastWork } from './least-work.ts'
import { countOf, externalSamples, weightOf } from './load.ts'
import type { BalancingPolicy } from './policy.ts'
import { hashText, rendezvousRank, weightedRank } from './rendezvous.ts'

/**
 * If a server has more than this multiple of the mean load, a group's samples go to the next server in the group's
 * rendezvous order.
 */
const BOUND = 1.25
/**
 * A server with fewer samples than this, the size of a usual group, is never above the bound. Otherwise, an idle pool
 * would spread the samples of its only group over all servers, and each server would compute the prefix.
 */
const FREE_SAMPLES = 8

/**
 * Sends the samples of a group to one server, so that they share its prefix cache: the first server in the group's
 * rendezvous order with at most 1.25 times the mean load. The order is computed from hashes and not stored, so every
 * process sends a group to the same server. Samples without a group are placed by least work.
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
        // A logarithm costs more than the rest of the loop. Among equal weights it does not change the order.
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
