import { z } from 'zod'
import { name } from './fields.ts'

/** Balancing policies, as in server/router/policies. */
export const BALANCING_POLICIES = [
  'least_work',
  'least_connections',
  'power_of_two',
  'peak_ewma',
  'round_robin',
  'weighted_random',
  'group_affinity',
  'deterministic',
] as const
export type BalancingPolicyName = (typeof BALANCING_POLICIES)[number]

/** The input of `pools.update`. */
export const UpdatePoolInput = z.strictObject({
  model: name(256),
  /** The balancing policy; null: the default, `least_work`. */
  policy: z.enum(BALANCING_POLICIES).nullable(),
})

/** The servers of one model. */
export interface PoolDto {
  model: string
  policy: BalancingPolicyName
  /** False: the default policy applies. */
  hasChosenPolicy: boolean
  servers: number
  ready: number
  /** Jobs (chunks of samples) that no worker has claimed. */
  jobsWaiting: number
}
