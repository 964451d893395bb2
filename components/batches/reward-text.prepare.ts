import type { FunctionRef, ResolvedReward } from '../../server/contract/resolved-reward.ts'

type RewardJson = Record<string, unknown>

/** The scorer fields of a `reward` or of a component. */
type Scorer = Pick<
  ResolvedReward,
  'kind' | 'model' | 'judge' | 'rule' | 'kwargs' | 'function' | 'components' | 'tokenScores'
>

type Bounds = Pick<ResolvedReward, 'timeoutMs' | 'maxAttempts'>

/** Converts a resolved reward back into the request form, without defaults. */
export function requestReward(reward: ResolvedReward): RewardJson {
  const request: RewardJson = {}
  const { wraps, function: fn } = reward
  if (wraps !== undefined && fn !== undefined) request.manager = requestFunction(fn)
  else if (reward.manager !== 'naive') request.manager = reward.manager
  Object.assign(request, requestScorer(wraps ?? reward, reward))
  const kwargs = { ...(request.kwargs as RewardJson | undefined), ...managerKwargs(reward) }
  if (Object.keys(kwargs).length > 0) request.kwargs = kwargs
  if (reward.onFailure.policy !== 'null') request.onFailure = reward.onFailure
  if (reward.timeoutMs !== 300_000) request.timeoutMs = reward.timeoutMs
  if (reward.maxAttempts !== 4) request.maxAttempts = reward.maxAttempts
  if (reward.maxConcurrency !== null) request.maxConcurrency = reward.maxConcurrency
  if (reward.sleepAfter === true) request.sleepAfter = true
  if (reward.advantages !== undefined) request.advantages = reward.advantages
  return request
}

function requestScorer(scorer: Scorer, whole: Bounds): RewardJson {
  const { kind, model, judge, rule, kwargs, function: fn, components = [], tokenScores } = scorer
  if (kind === 'combine') {
    return {
      combine: components.map(({ name, weight, reward }) => {
        const request = requestScorer(reward, whole)
        // A component inherits `timeoutMs` and `maxAttempts` from the composite reward.
        if (reward.timeoutMs !== whole.timeoutMs) request.timeoutMs = reward.timeoutMs
        if (reward.maxAttempts !== whole.maxAttempts) request.maxAttempts = reward.maxAttempts
        return { name, weight, reward: request }
      }),
      ...(Object.keys(kwargs).length > 0 ? { kwargs } : {}),
    }
  }
  return {
    ...(model === null ? {} : { model }),
    ...(judge === undefined ? {} : { judge }),
    ...(fn === undefined ? {} : { function: requestFunction(fn) }),
    ...(rule === undefined ? {} : { function: { name: rule } }),
    ...(tokenScores === true ? { tokenScores } : {}),
    ...(Object.keys(kwargs).length > 0 ? { kwargs } : {}),
  }
}

/** Names a function by file and export, without the hash, so that scoring uses the current version of the file. */
function requestFunction({ path, name, kwargs }: FunctionRef): RewardJson {
  return {
    path,
    ...(name === null ? {} : { name }),
    ...(Object.keys(kwargs).length > 0 ? { kwargs } : {}),
  }
}

/** Restores the kwargs that the manager consumed, under their original names. */
function managerKwargs({ gdpo, processes, limiter }: ResolvedReward): RewardJson {
  const taken: RewardJson = {}
  if (gdpo !== undefined) {
    taken.gdpo_reward_keys = gdpo.keys
    taken.gdpo_reward_weights = gdpo.weights
  }
  if (processes !== undefined) taken.num_workers = processes
  if (limiter !== undefined) {
    const { limits, name } = limiter
    // By default, a limiter is named after its scorer. The default name is omitted.
    if (!/^(model|function|rules):/.test(name)) taken.limiter = name
    taken.max_concurrent = limits.maxConcurrent
    if (limits.maxRpm !== null) taken.max_rpm = limits.maxRpm
    if (limits.maxTpm !== null) taken.max_tpm = limits.maxTpm
    taken.estimated_tokens_per_request = limits.estimatedTokens
    taken.timeout = limits.timeoutMs / 1_000
    taken.burst_seconds = limits.burstSeconds
    if (limits.compat !== undefined) taken.compat = limits.compat
  }
  return taken
}

export function readReward(text: string): { reward: RewardJson } | { error: string } {
  if (text.trim() === '')
    return { error: 'Enter a reward. {} selects the rule of each data source.' }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    return { error: `Invalid JSON: ${(error as Error).message}.` }
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { error: 'Enter a JSON object, such as {"model": "…"}.' }
  }
  return { reward: value as RewardJson }
}

export function rewardText(reward: RewardJson): string {
  return JSON.stringify(reward, null, 2)
}
