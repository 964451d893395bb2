import { BALANCING_POLICIES, type BalancingPolicyName } from '../../contract/pools.ts'

/** The policies there are; the words of configuration, pages and wire. */
export const POLICY_NAMES = BALANCING_POLICIES

/** One of {@link POLICY_NAMES}. */
export type PolicyName = BalancingPolicyName

/** What a policy sees of a server. Numbers a server tells of itself may be nonsense; policies bear any. */
export interface PolicyServer {
  readonly id: number
  /** Share of the pool's calls relative to the other servers'. */
  readonly weight: number
  /** Samples of this process in flight. */
  readonly inFlight: number
  /** Samples it may have in flight now. */
  readonly slots: number
  /** Tokens of the samples in flight. */
  readonly workTokens: number
  /** Measured goodput; null: not seen yet, the median of the others then. */
  readonly tokensPerSecond: number | null
  /** Peak EWMA of the time for 1,000 tokens, in ms; null as above. */
  readonly peakMsPerKtok: number | null
  /** Samples of others, from the server's own load signal; 0: unknown. */
  readonly externalQueue: number
}

/** What a policy sees of a sample. */
export interface PolicySample {
  /** Its cost, counted or estimated. */
  readonly tokens: number
  /** Samples of one group share a prefix. */
  readonly group: string | undefined
  /** Names the sample wherever and whenever it is scored. */
  readonly key: string | undefined
}

/**
 * Decides which of several servers takes the next sample. One instance a pool; called once a call, so it must cost
 * little (about 10 ns a candidate) and allocate nothing.
 */
export interface BalancingPolicy {
  readonly name: PolicyName
  /** One of the candidates, of which there is at least one. */
  pick<T extends PolicyServer>(candidates: readonly T[], sample: PolicySample): T
  /** Forgets a server that left the pool. */
  forget(serverId: number): void
}
