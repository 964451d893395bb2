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
  /** Rows of this process in flight. */
  readonly inFlight: number
  /** Rows it may have in flight now. */
  readonly slots: number
  /** Tokens of the rows in flight. */
  readonly workTokens: number
  /** Measured goodput; null: not seen yet, the median of the others then. */
  readonly tokensPerSecond: number | null
  /** Peak EWMA of the time for 1,000 tokens, in ms; null as above. */
  readonly peakMsPerKtok: number | null
  /** Rows of others, from the server's own load signal; 0: unknown. */
  readonly externalQueue: number
}

/** What a policy sees of a row. */
export interface PolicyRow {
  /** Its cost, counted or estimated. */
  readonly tokens: number
  /** Rows of one group share a prefix. */
  readonly group: string | undefined
  /** Names the row wherever and whenever it is scored. */
  readonly key: string | undefined
}

/**
 * Decides which of several servers takes the next row. One instance a pool; called once a call, so it must cost
 * little (about 10 ns a candidate) and allocate nothing.
 */
export interface BalancingPolicy {
  readonly name: PolicyName
  /** One of the candidates, of which there is at least one. */
  pick<T extends PolicyServer>(candidates: readonly T[], row: PolicyRow): T
  /** Forgets a server that left the pool. */
  forget(serverId: number): void
}
