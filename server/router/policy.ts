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

export { roundRobin } from './policies/round-robin.ts'
