import type { ResolvedReward } from '../contract/resolved-reward.ts'
import type { CompositeComponent, RewardSpec } from '../contract/trainer.ts'
import { RewardOpsError } from '../errors.ts'
import { type ResolveContext, resolveScorer, type Scorer } from './resolve-scorer.ts'

/**
 * Resolves the parts of a weighted sum. Each is what a batch's reward may be, but for another sum; its time and its
 * attempts are the reward's where it has none of its own.
 * Throws RewardOpsError naming the part that is wrong.
 */
export function resolveParts(
  parts: readonly CompositeComponent[],
  spec: RewardSpec,
  dataSources: readonly string[],
  context: ResolveContext,
): Scorer & Required<Pick<ResolvedReward, 'components'>> {
  const names = new Set<string>()
  const resolved = parts.map(({ name, weight, reward }, at) => {
    const where = `reward.combine[${at}]`
    if (names.has(name)) {
      throw new RewardOpsError(
        'invalid_input',
        `${where}.name: "${name}" is the name of a part before.`,
      )
    }
    names.add(name)
    const { title: _, ...scorer } = resolveScorer(`${where}.reward`, reward, dataSources, context)
    if (scorer.postProcess !== undefined) {
      throw new RewardOpsError(
        'unsupported_setting',
        `${where}.reward.function: its post_process_scores would be called with the scores of a part.`,
        { hint: 'Name a function without it: only a whole reward is post-processed.' },
      )
    }
    const { timeoutMs = spec.timeoutMs, maxAttempts = spec.maxAttempts } = reward
    const bounds = { timeoutMs, maxAttempts, maxConcurrency: null, onFailure: spec.onFailure }
    return { name, weight, reward: { ...scorer, ...bounds, manager: 'naive' } }
  })
  const title = [...names].join(' + ')
  return { kind: 'combine', model: null, kwargs: {}, components: resolved, title }
}
