import type { BalancingPolicyName } from '../../contract/pools.ts'

export type PolicyName = BalancingPolicyName

/** A server as seen by a policy. Its figures can be any numbers, even NaN, because servers may report wrong values. */
export interface PolicyServer {
  readonly id: number
  /** Share of the pool's samples, relative to the other servers. */
  readonly weight: number
  /** Samples in flight from this process. */
  readonly inFlight: number
  /** Maximum number of samples in flight from this process. */
  readonly slots: number
  readonly workTokens: number
  /** Measured goodput. If it is null (not measured), the median of the other servers applies. */
  readonly tokensPerSecond: number | null
  /**
   * Peak EWMA of the time per 1,000 tokens, in ms. If it is null (not measured), the median of the other servers
   * applies.
   */
  readonly peakMsPerKtok: number | null
  /** Samples of other clients, from the server's own load report. 0 if there are none or the number is unknown. */
  readonly externalQueue: number
}

export interface PolicySample {
  readonly tokens: number
  /** The sample's group. Samples of a group share a prefix. */
  readonly group: string | undefined
  /** Identifies the sample across processes and runs. */
  readonly key: string | undefined
}

/**
 * Chooses the server for the next sample. Each pool has its own instance. A policy runs once per call, so it must be
 * cheap (about 10 ns per candidate) and allocate nothing.
 */
export interface BalancingPolicy {
  readonly name: PolicyName
  /** Returns one of the candidates. There is at least one. */
  pick<T extends PolicyServer>(candidates: readonly T[], sample: PolicySample): T
  forget(serverId: number): void
}
