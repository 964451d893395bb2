/** What a policy sees of a server. */
export interface PolicyServer {
  readonly id: number
  readonly weight: number
  /** Calls in flight from this process. */
  readonly inFlight: number
  readonly slots: number
}

/**
 * Decides which of the servers with a free slot takes the next sample. One instance a pool; called once a call, so it
 * must cost little and allocate nothing.
 */
export interface BalancingPolicy {
  readonly name: string
  /** One of the candidates, of which there is at least one. `key`: samples with the same key belong together. */
  pick<T extends PolicyServer>(candidates: readonly T[], key: string | undefined): T
  /** Forgets a server that left the pool. */
  forget(serverId: number): void
}

/**
 * Smooth weighted round robin: each pick adds every candidate's weight to its credit, takes the highest and lowers it
 * by the sum. Servers of weights 5, 1, 1 come as a a b a c a a, never a a a a a b c. Equal credits go to the first.
 */
export function roundRobin(): BalancingPolicy {
  const credits = new Map<number, number>()
  return {
    name: 'round_robin',
    pick(candidates) {
      let total = 0
      let best = candidates[0] as (typeof candidates)[number]
      if (candidates.length === 1) return best
      let bestCredit = Number.NEGATIVE_INFINITY
      for (const server of candidates) {
        const credit = (credits.get(server.id) ?? 0) + server.weight
        credits.set(server.id, credit)
        total += server.weight
        if (credit > bestCredit) {
          best = server
          bestCredit = credit
        }
      }
      credits.set(best.id, bestCredit - total)
      return best
    },
    forget(serverId) {
      credits.delete(serverId)
    },
  }
}
