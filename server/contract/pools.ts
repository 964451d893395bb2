import { z } from 'zod'
import { name } from './fields.ts'
import { namesOf } from './names-of.ts'

interface PolicyDefinition {
  label: string
  /** The server that the policy chooses, as in docs/router.md. */
  choice: string
  /** Whether a server with more samples in flight gets fewer new samples. */
  isLoadAware: boolean
}

/** Balancing policies, in the order of pages and docs/router.md. The first one is the default. */
export const BALANCING_POLICIES = {
  least_work: {
    label: 'Least work',
    choice:
      'the server that would finish the sample first, estimated as tokens in flight ÷ (measured tokens per second × weight)',
    isLoadAware: true,
  },
  least_connections: {
    label: 'Least connections',
    choice: 'the server with the fewest samples in flight ÷ weight',
    isLoadAware: true,
  },
  power_of_two: {
    label: 'Power of two choices',
    choice: 'of two random servers, the one with the lower load',
    isLoadAware: true,
  },
  peak_ewma: {
    label: 'Peak EWMA',
    choice:
      'the server with the smallest latency × samples in flight ÷ weight. The latency per 1,000 tokens is a moving average that rises immediately and falls slowly (peak EWMA)',
    isLoadAware: true,
  },
  round_robin: {
    label: 'Round robin',
    choice: 'each server in turn, in proportion to its weight',
    isLoadAware: false,
  },
  weighted_random: {
    label: 'Weighted random',
    choice: 'a random server, with a probability in proportion to its weight',
    isLoadAware: false,
  },
  group_affinity: {
    label: 'Group affinity',
    choice:
      'the same server for all samples of a group, unless its load is more than 1.25 times the mean load of the pool',
    isLoadAware: true,
  },
  deterministic: {
    label: 'Deterministic',
    choice:
      'the server that the hash of a key selects, regardless of load, so that all processes choose the same one. The key is the index of the sample in its batch, or the body of the call to the router address',
    isLoadAware: false,
  },
} as const satisfies Record<string, PolicyDefinition>
export type BalancingPolicyName = keyof typeof BALANCING_POLICIES
export const POLICY_NAMES = namesOf(BALANCING_POLICIES)
export const DEFAULT_POLICY = POLICY_NAMES[0]

export function isPolicyName(name: unknown): name is BalancingPolicyName {
  return (POLICY_NAMES as readonly unknown[]).includes(name)
}

/** The input of `pools.update`. */
export const UpdatePoolInput = z.strictObject({
  model: name(256),
  /** The balancing policy. Null means the default, `least_work`. */
  policy: z.enum(POLICY_NAMES).nullable(),
})

/** The servers of one model. */
export interface PoolDto {
  model: string
  policy: BalancingPolicyName
  /** False if the default policy applies. */
  hasChosenPolicy: boolean
  servers: number
  ready: number
  /** Jobs (chunks of samples) that no worker has claimed. */
  jobsWaiting: number
}
