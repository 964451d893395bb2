import type { FunctionRef, ResolvedReward } from '../../server/wire/resolved-reward.ts'

/** What a batch's `reward` may hold, as JSON. */
export type RewardJson = Record<string, unknown>

/** What scores: of a `reward` or of a part of one. */
type Scorer = Pick<
  ResolvedReward,
  'kind' | 'model' | 'judge' | 'rule' | 'kwargs' | 'function' | 'parts'
>

type Bounds = Pick<ResolvedReward, 'timeoutMs' | 'maxAttempts'>

/** A resolved reward as it would be asked for again; defaults are left out. */
export function askedReward(reward: ResolvedReward): RewardJson {
  const asked: RewardJson = {}
  const { wraps, function: fn } = reward
  if (wraps !== undefined && fn !== undefined) asked.manager = askedFunction(fn)
  else if (reward.manager !== 'naive') asked.manager = reward.manager
  Object.assign(asked, askedScorer(wraps ?? reward, reward))
  const kwargs = { ...(asked.kwargs as RewardJson | undefined), ...managerKwargs(reward) }
  if (Object.keys(kwargs).length > 0) asked.kwargs = kwargs
  if (reward.onFailure.policy !== 'null') asked.onFailure = reward.onFailure
  if (reward.timeoutMs !== 300_000) asked.timeoutMs = reward.timeoutMs
  if (reward.maxAttempts !== 4) asked.maxAttempts = reward.maxAttempts
  if (reward.maxConcurrency !== null) asked.maxConcurrency = reward.maxConcurrency
  if (reward.sleepAfter === true) asked.sleepAfter = true
  if (reward.advantages !== undefined) asked.advantages = reward.advantages
  return asked
}

function askedScorer(scorer: Scorer, whole: Bounds): RewardJson {
  const { kind, model, judge, rule, kwargs, function: fn, parts } = scorer
  if (kind === 'combine') {
    return {
      combine: (parts ?? []).map(({ name, weight, reward }) => {
        const asked = askedScorer(reward, whole)
        // A part has the whole's bounds where it has none of its own.
        if (reward.timeoutMs !== whole.timeoutMs) asked.timeoutMs = reward.timeoutMs
        if (reward.maxAttempts !== whole.maxAttempts) asked.maxAttempts = reward.maxAttempts
        return { name, weight, reward: asked }
      }),
      ...(Object.keys(kwargs).length > 0 ? { kwargs } : {}),
    }
  }
  return {
    ...(model === null ? {} : { model }),
    ...(judge === undefined ? {} : { judge }),
    ...(fn === undefined ? {} : { function: askedFunction(fn) }),
    ...(rule === undefined ? {} : { function: { name: rule } }),
    ...(Object.keys(kwargs).length > 0 ? { kwargs } : {}),
  }
}

/** Its file and name: what it scores by is the version that the file has now. */
function askedFunction({ path, name, kwargs }: FunctionRef): RewardJson {
  return {
    path,
    ...(name === null ? {} : { name }),
    ...(Object.keys(kwargs).length > 0 ? { kwargs } : {}),
  }
}

/** What a manager took out of the kwargs, under the names that it takes it by. */
function managerKwargs({ gdpo, processes, limiter }: ResolvedReward): RewardJson {
  const taken: RewardJson = {}
  if (gdpo !== undefined) {
    taken.gdpo_reward_keys = gdpo.keys
    taken.gdpo_reward_weights = gdpo.weights
  }
  if (processes !== undefined) taken.num_workers = processes
  if (limiter !== undefined) {
    const { limits, name } = limiter
    // A name of this form is given by what scores.
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

/** A typed text as a reward; else what is wrong with it, in words. */
export function readReward(text: string): { reward: RewardJson } | { error: string } {
  if (text.trim() === '') return { error: 'Give a reward; {} is the rule of each data source.' }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    return { error: `This is not JSON: ${(error as Error).message}.` }
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { error: 'A reward is an object: {"model": "…"}.' }
  }
  return { reward: value as RewardJson }
}

/** As it is shown and edited. */
export function rewardText(reward: RewardJson): string {
  return JSON.stringify(reward, null, 2)
}
