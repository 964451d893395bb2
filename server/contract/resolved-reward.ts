import type { Isolation } from './isolation.ts'

/** The version of a reward function that a batch uses. Later changes of the file do not affect the batch. */
export interface FunctionRef {
  /** The hash of the source and its imports within the functions folder, at the acceptance of the batch. */
  hash: string
  /** The path of the file, relative to the functions folder. */
  path: string
  /** The name of the export. Null means the default export, `compute_score` or `computeScore`. */
  name: string | null
  kwargs: Record<string, unknown>
  /** The isolation level of the function. Default: `process`. */
  isolation?: Isolation
  /** For a class or an object: its methods, such as `post_process_scores`. */
  methods?: string[]
}

/** The reward of a batch, resolved when the batch is accepted and stored with it. */
export interface ResolvedReward {
  /**
   * rule: built-in rules on the worker's event loop · model: servers of a reward model · function: custom code in child
   * processes · service: rules that call a service or wait for a rate limit · combine: a weighted sum
   */
  kind: 'rule' | 'model' | 'function' | 'service' | 'combine'
  manager: string
  /** The reward model, or null if the reward itself calls none. */
  model: string | null
  kwargs: Record<string, unknown>
  /** For kind `function`: the function. For manager `module`: its class. */
  function?: FunctionRef
  /** For manager `module`: the reward that its class calls. */
  wraps?: ResolvedReward
  /** For manager `remote`: child processes per worker. Each runs one call at a time. */
  processes?: number
  /** For kind `combine`: the score is the sum of `weight × score`. */
  components?: { name: string; weight: number; reward: ResolvedReward }[]
  /** The rule for every data source. If absent, each sample's data source selects a rule. */
  rule?: string
  /** The sandbox of the rule `code`. `url` is its URL without a path, or null for the local sandbox. */
  sandbox?: { name: string; url: string | null }
  /** The judge template with defaults filled in. Absent if the model returns scores itself. */
  judge?: Record<string, unknown>
  /** For kind `model`: whether token scores are stored, with their offsets in the response. */
  tokenScores?: boolean
  timeoutMs: number
  maxAttempts: number
  /** Maximum number of the batch's samples in flight over all workers. Null means no limit. */
  maxConcurrency: number | null
  /** Whether servers are woken before the batch and put to sleep when no batch needs them. */
  sleepAfter?: boolean
  /** For manager `rate_limited`: the limiter. All batches with the same limiter name share it. */
  limiter?: { name: string; limits: RequestLimits }
  /** For manager `gdpo`: its dimensions, which are keys of the extra info, and their weights. */
  gdpo?: { keys: string[]; weights: number[] }
  /** The function that changes the scores of a completed group, if there is one. */
  postProcess?: FunctionRef
  /** Whether advantages are divided by the standard deviation of the group. By default, they are. */
  advantages?: { normByStd: boolean }
  /** The failure policy: the score of a failed sample. */
  onFailure:
    | { policy: 'null' | 'group_mean' | 'drop_group' | 'fail_batch' }
    | { policy: 'constant'; value: number }
}

/** Limits of calls to an external service. */
export interface RequestLimits {
  maxConcurrent: number
  /** Maximum requests per minute. Null means no limit. */
  maxRpm: number | null
  /** Maximum tokens per minute. Null means no limit. */
  maxTpm: number | null
  estimatedTokens: number
  /** The time limit of a call, without its wait for the rate limit. */
  timeoutMs: number
  burstSeconds: number
  /**
   * `verl`: as in verl, the rate limiter saves up at most one second of the limit. Even the first call then waits if
   * the limit is below 60 requests a minute, or if the call has more tokens than one second of the limit. Default: the
   * first call never waits.
   */
  compat?: 'verl'
}

/**
 * Returns the versions of a reward's functions: twelve digits of the hash, and the path. Null if there is no function.
 */
export function rewardVersionOf(reward: ResolvedReward): string | null {
  const versions = functionsOf(reward).map(
    ({ hash, path, isolation }) =>
      `${hash.slice(0, 12)} ${path}${isolation === 'sandbox' ? ' (sandbox)' : ''}`,
  )
  return versions.length === 0 ? null : [...new Set(versions)].join(' + ')
}

function functionsOf(reward: ResolvedReward): FunctionRef[] {
  const inner = [...(reward.components ?? []).map((component) => component.reward), reward.wraps]
  return [
    ...(reward.function === undefined ? [] : [reward.function]),
    ...inner.flatMap((one) => (one === undefined ? [] : functionsOf(one))),
  ]
}

/** Returns `''` for the reward itself, then the names of its components. Empty for a reward without components. */
export function componentNames({
  components = [],
  gdpo,
}: Pick<ResolvedReward, 'components' | 'gdpo'>): string[] {
  const names = [...components.map(({ name }) => name), ...(gdpo?.keys ?? [])]
  return names.length === 0 ? [] : ['', ...names]
}

/** Whether only reward models, judges included, decide the score. */
export function isByModelsAlone(reward: ScoredBy): boolean {
  if (reward.wraps !== undefined) return isByModelsAlone(reward.wraps)
  const components = reward.components ?? []
  if (reward.kind === 'combine') {
    return components.length > 0 && components.every((one) => isByModelsAlone(one.reward))
  }
  return reward.kind === 'model'
}

/**
 * Whether the scores of a batch show which answers are correct (1 or more) and incorrect (0 or less). Scores that come
 * only from reward models show this only if they range from 0 or less to exactly 1, as verdicts do. Raw scores, ratings
 * from 1 to 10 and a batch of equal scores do not.
 */
export function showsCorrectness(
  reward: ScoredBy,
  range: { min: number | null; max: number | null },
): boolean {
  return !isByModelsAlone(reward) || (range.min !== null && range.min <= 0 && range.max === 1)
}

/** The fields of a reward that {@link isByModelsAlone} reads. */
export type ScoredBy = Pick<ResolvedReward, 'kind' | 'components' | 'wraps'>

/**
 * Whether the scorer gets the images of messages. Custom functions get them, and so do models that return scores
 * themselves.
 */
export function readsImages(reward: ResolvedReward): boolean {
  if (reward.function !== undefined) return true
  if (reward.kind === 'model' && reward.judge === undefined) return true
  const inner = [...(reward.components ?? []).map((component) => component.reward), reward.wraps]
  return inner.some((one) => one !== undefined && readsImages(one))
}

/** Returns the reward models of a reward and its components, without repeats. */
export function modelsOf(reward: Pick<ResolvedReward, 'model' | 'components' | 'wraps'>): string[] {
  const inner = [...(reward.components ?? []).map((component) => component.reward), reward.wraps]
  const innerModels = inner.flatMap((one) => (one === undefined ? [] : modelsOf(one)))
  return [...new Set(reward.model === null ? innerModels : [reward.model, ...innerModels])]
}
