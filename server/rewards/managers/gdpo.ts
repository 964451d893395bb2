import { z } from 'zod'
import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import type { RewardManager, RewardOutcome } from './manager.ts'
import { naiveManager } from './naive.ts'

/** verl's `algorithm.gdpo_reward_keys` and `algorithm.gdpo_reward_weights`, as kwargs of the `gdpo` manager. */
export const gdpoOptions = z.strictObject({
  gdpo_reward_keys: z
    .array(z.string().min(1))
    .min(1)
    .max(64)
    .refine((keys) => new Set(keys).size === keys.length, 'names a dimension twice')
    .describe('Dimensions: reward extra info keys that every sample has'),
  gdpo_reward_weights: z
    .array(z.number())
    .nullish()
    .describe('Weight per dimension; default: 1 each'),
})

/** @throws z.ZodError; a wrong number of weights is reported for the path `gdpo_reward_weights` */
export function readDimensions(
  kwargs: Record<string, unknown>,
): NonNullable<ResolvedReward['gdpo']> {
  const read = gdpoOptions
    .refine(
      ({ gdpo_reward_keys: keys, gdpo_reward_weights: weights }) =>
        (weights ?? keys).length === keys.length,
      { path: ['gdpo_reward_weights'], error: 'is not one weight for each of gdpo_reward_keys' },
    )
    .parse(kwargs)
  const { gdpo_reward_keys: keys, gdpo_reward_weights: weights } = read
  return { keys, weights: weights ?? keys.map(() => 1) }
}

/**
 * verl's `gdpo` manager: the sample's score is the scorer's. The trainer computes advantages from the dimensions, each
 * of which is a key of the extra info. If a dimension is missing, the sample fails, and the detail names the dimension.
 * The scorer gets the run's name in `extraInfo.experiment_name`.
 */
export const gdpoManager: RewardManager = {
  name: 'gdpo',
  runRule(sample, reward): RewardOutcome {
    return withDimensions(naiveManager.runRule(sample, reward), reward)
  },
  async run(sample, context): Promise<RewardOutcome> {
    const extraInfo = { ...sample.extraInfo, experiment_name: context.run }
    const outcome = await naiveManager.run({ ...sample, extraInfo }, context)
    return withDimensions(outcome, context.reward)
  },
}

function withDimensions(outcome: RewardOutcome, { gdpo }: ResolvedReward): RewardOutcome {
  if (!outcome.ok || gdpo === undefined) return outcome
  const { attempts } = outcome
  const extra = outcome.extra ?? {}
  for (const key of gdpo.keys) {
    const value = Object.hasOwn(extra, key) ? extra[key] : undefined
    // verl counts True as 1.
    if (typeof value === 'boolean') continue
    if (typeof value !== 'number') {
      // JSON represents NaN and infinities as null.
      if (value === null) {
        const detail = `dimension "${key}" is null: it was missing, NaN or infinite`
        return { ok: false, reason: 'non_finite', detail, attempts }
      }
      const there = Object.keys(extra).join(', ')
      const detail =
        value === undefined
          ? `dimension "${key}" is missing: the extra info has ${there === '' ? 'no keys' : there}`
          : `dimension "${key}" is not a number: ${JSON.stringify(value).slice(0, 100)}`
      return { ok: false, reason: 'function_error', detail, attempts }
    }
    if (!Number.isFinite(value)) {
      const detail = `dimension "${key}" is ${value}`
      return { ok: false, reason: 'non_finite', detail, attempts }
    }
  }
  return outcome
}
