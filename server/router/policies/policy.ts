import { BALANCING_POLICIES, type BalancingPolicyName } from '../../contract/pools.ts'

/** The names of all policies, as used in settings, pages and the API. */
export const POLICY_NAMES = BALANCING_POLICIES

/** One of {@link POLICY_NAMES}. */
export type PolicyName = BalancingPolicyName

/** A server as seen by a policy. Numbers reported by servers may be invalid; policies accept any. */
export interface PolicyServer {
  readonly id: number
  /** Share of the pool's calls relative to the other servers'. */
  readonly weight: number
  /** Samples of this process in flight. */
  readonly inFlight: number
  /** Samples that it may have in flight now. */
  readonly slots: number
  /** Tokens of the samples in flight. */
  readonly workTokens: number
  /** Measured goodput; null: not measured, so the median of the others is used. */
  readonly tokensPerSecond: number | null
  /** Peak EWMA of the time per 1,000 tokens, in ms; null as above. */
  readonly peakMsPerKtok: number | null
  /** Samples of other clients, from the server's own load report; 0: none or unknown. */
  readonly externalQueue: number
}

/** A sample as seen by a policy. */
export interface PolicySample {
  /** Its cost, counted or estimated. */
  readonly tokens: number
  /** Samples of one group share a prefix. */
  readonly group: string | undefined
  /** Identifies the sample across processes and runs. */
  readonly key: string | undefined
}

/**
 * Decides which server takes the next sample. Each pool has its own instance. It runs once per call, so it must be cheap
 * (about 10 ns per candidate) and allocate nothing.
 */
export interface BalancingPolicy {
  readonly name: PolicyName
  /** Returns one of the candidates, of which there is at least one. */
  pick<T extends PolicyServer>(candidates: readonly T[], sample: PolicySample): T
  /** Removes the state of a server that left the pool. */
  forget(serverId: number): void
}
