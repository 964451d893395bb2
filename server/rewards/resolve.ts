import { modelsOf, type ResolvedReward } from '../contract/resolved-reward.ts'
import type { RewardSpec } from '../contract/trainer.ts'
import { RewardOpsError } from '../errors.ts'
import { limiterNameOf } from './limits/limiter-name.ts'
import { batchManager } from './managers/batch.ts'
import { takeManagerKwargs } from './managers/manager-kwargs.ts'
import { MODULE_MANAGER } from './managers/module.ts'
import { MANAGER_ALIASES, managerNames } from './managers/registry.ts'
import { nearestName, suggest } from './nearest-name.ts'
import { resolveParts } from './resolve-combine.ts'
import { resolveOwnManager } from './resolve-function.ts'
import { type ResolveContext, resolveScorer, type Scorer } from './resolve-scorer.ts'
import { listAsyncRules, listRules } from './rules/registry.ts'

export type { ResolveContext } from './resolve-scorer.ts'

/**
 * Resolves which reward scores a batch: a weighted sum if one is given, else a single scorer.
 * Throws RewardOpsError naming what exists when a manager, model, function or rule does not.
 */
export function resolveReward(
  spec: RewardSpec,
  dataSources: readonly string[],
  context: ResolveContext,
): { reward: ResolvedReward; rewardName: string } {
  if (typeof spec.manager !== 'string') {
    return resolveModuleManager(spec, spec.manager, dataSources, context)
  }
  const manager = MANAGER_ALIASES[spec.manager] ?? spec.manager
  if (!managerNames().includes(manager)) {
    throw new RewardOpsError(
      'unknown_manager',
      `reward.manager "${spec.manager}" is not registered. ${suggest(spec.manager, managerNames())}`,
    )
  }
  const taken = takeManagerKwargs(manager, spec.kwargs)
  if (!taken.ok) throw new RewardOpsError('invalid_kwargs', taken.message, { hint: taken.hint })
  if (spec.function?.path === undefined) refuseTypos(Object.keys(taken.rest), taken.own)
  const { title, ...scorer } = resolveScoring(spec, taken.rest, dataSources, context)
  const reward: ResolvedReward = {
    ...scorer,
    kwargs: { ...taken.kept, ...scorer.kwargs },
    manager,
    timeoutMs: spec.timeoutMs,
    maxAttempts: spec.maxAttempts,
    maxConcurrency: spec.maxConcurrency,
    onFailure: spec.onFailure,
    ...(spec.advantages?.normByStd === false ? { advantages: spec.advantages } : {}),
    ...(spec.sleepAfter ? { sleepAfter: true } : {}),
    ...(taken.gdpo === undefined ? {} : { gdpo: taken.gdpo }),
    ...(taken.processes === undefined ? {} : { processes: taken.processes }),
  }
  if (manager === batchManager.name && reward.function === undefined) {
    throw new RewardOpsError(
      'invalid_input',
      'reward.manager "batch" calls a function once a group: name it in reward.function.path.',
    )
  }
  if (spec.sleepAfter) checkSleepAfter(modelsOf(reward), context)
  if (taken.limiter === undefined && taken.processes === undefined) {
    return { reward, rewardName: title }
  }
  // Who waits for its turn, or for a process, waits with others, not on the worker's loop where rules are run in one go.
  const kind = reward.kind === 'rule' ? 'service' : reward.kind
  if (taken.limiter === undefined) return { reward: { ...reward, kind }, rewardName: title }
  const limiter = { ...taken.limiter, name: taken.limiter.name ?? limiterNameOf(reward) }
  return { reward: { ...reward, kind, limiter }, rewardName: title }
}

/** A manager class of the user's own, around whatever scores by itself. */
function resolveModuleManager(
  spec: RewardSpec,
  named: Exclude<RewardSpec['manager'], string>,
  dataSources: readonly string[],
  context: ResolveContext,
): { reward: ResolvedReward; rewardName: string } {
  const { reward: wraps, rewardName } = resolveReward(
    { ...spec, manager: 'naive' },
    dataSources,
    context,
  )
  const { timeoutMs, maxAttempts, maxConcurrency, onFailure, advantages, sleepAfter } = wraps
  const { postProcess } = wraps
  const reward: ResolvedReward = {
    kind: 'function',
    manager: MODULE_MANAGER,
    model: null,
    kwargs: {},
    function: resolveOwnManager(named, context),
    wraps,
    ...{ timeoutMs, maxAttempts, maxConcurrency, onFailure },
    ...(postProcess === undefined ? {} : { postProcess }),
    ...(advantages === undefined ? {} : { advantages }),
    ...(sleepAfter === undefined ? {} : { sleepAfter }),
  }
  return { reward, rewardName }
}

function resolveScoring(
  spec: RewardSpec,
  kwargs: RewardSpec['kwargs'],
  dataSources: readonly string[],
  context: ResolveContext,
): Scorer & Pick<ResolvedReward, 'components'> {
  if (spec.combine === null) {
    const { function: fn, model, judge } = spec
    return resolveScorer('reward', { function: fn, model, judge, kwargs }, dataSources, context)
  }
  for (const field of ['function', 'model', 'judge'] as const) {
    if (spec[field] === null) continue
    throw new RewardOpsError(
      'invalid_input',
      `reward.combine and reward.${field} are both given: make ${field} one of the parts.`,
    )
  }
  const [key] = Object.keys(kwargs)
  if (key !== undefined) {
    throw new RewardOpsError(
      'invalid_kwargs',
      `reward.kwargs.${key}: the kwargs of a scorer belong to its part, reward.combine[…].reward.kwargs.`,
    )
  }
  return resolveParts(spec.combine, spec, dataSources, context)
}

/** A kwarg that is nobody's and looks like one of the manager's: the scorer that is given it cannot know that. */
function refuseTypos(keys: readonly string[], own: readonly string[]): void {
  for (const key of keys) {
    const meant = nearestName(key, own)
    const known = [...listRules(), ...listAsyncRules()].some((rule) => key in rule.kwargs.shape)
    if (meant === undefined || known) continue
    throw new RewardOpsError('invalid_kwargs', `unknown kwarg "${key}", did you mean "${meant}"?`, {
      hint: `Known to the manager: ${own.join(', ')}.`,
    })
  }
}

function checkSleepAfter(models: readonly string[], { sleepless }: ResolveContext): void {
  if (models.length === 0) {
    throw new RewardOpsError(
      'unsupported_setting',
      'reward.sleepAfter: only servers of a reward model can be put to sleep.',
    )
  }
  for (const model of models) {
    if (!sleepless?.includes(model)) continue
    throw new RewardOpsError(
      'unsupported_setting',
      `reward.sleepAfter: no server of "${model}" can be put to sleep.`,
      {
        hint: 'Leave it out, or start the servers so that they can sleep: docs/servers.md says how.',
      },
    )
  }
}
