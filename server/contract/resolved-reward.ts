/** A version of a reward function: what scores a batch does not change while it runs. */
export interface FunctionRef {
  /** Names the source as it was when the batch was accepted, what it imports from its folder included. */
  hash: string
  /** Under the functions folder. */
  path: string
  /** The export; null: the module's default export, or `compute_score` or `computeScore`. */
  name: string | null
  kwargs: Record<string, unknown>
  /** Of a class or an object: its methods, e.g. `post_process_scores`. */
  methods?: string[]
}

/** A batch's reward as it was resolved when the batch was accepted; stored with it, read by the workers. */
export interface ResolvedReward {
  /**
   * rule: built-in rules, on the worker's loop · model: a reward model's servers · function: code of the user's own, in
   * child processes · service: rules of which some ask a service, or that wait for their turn · combine: a weighted sum
   */
  kind: 'rule' | 'model' | 'function' | 'service' | 'combine'
  manager: string
  /** The reward model whose servers score; null for rules. */
  model: string | null
  kwargs: Record<string, unknown>
  /** Of kind `function`; with manager `module` the manager's class. */
  function?: FunctionRef
  /** Of manager `module`: what its class scores by. */
  wraps?: ResolvedReward
  /** Of manager `remote`: processes of its own on each worker, with one call at a time. */
  processes?: number
  /** Of kind `combine`: the score is the sum of `weight × score` over them. */
  components?: { name: string; weight: number; reward: ResolvedReward }[]
  /** A rule chosen by name, for every data source; absent: the one that a sample's data source selects. */
  rule?: string
  /** A generative model's template, checked and with its defaults filled in; absent: the model scores by itself. */
  judge?: Record<string, unknown>
  timeoutMs: number
  maxAttempts: number
  /** Most samples of the batch in flight at once over all workers; null: no limit of its own. */
  maxConcurrency: number | null
  /** Its servers are woken for it and put to sleep when no batch needs them; absent in batches of before: false. */
  sleepAfter?: boolean
  /** Of manager `rate_limited`: the limiter that its samples share with all others of the same name. */
  limiter?: { name: string; limits: RequestLimits }
  /** Of manager `gdpo`: the dimensions, each a key of the extra info, and their weights. */
  gdpo?: { keys: string[]; weights: number[] }
  /** The function whose object changes the scores of a group at its completion; absent: nothing does. */
  postProcess?: FunctionRef
  /** How advantages are normalised; absent: by the group's standard deviation. */
  advantages?: { normByStd: boolean }
  /** What happens to a failed sample's score, its group or its batch. */
  onFailure:
    | { policy: 'null' | 'group_mean' | 'drop_group' | 'fail_batch' }
    | { policy: 'constant'; value: number }
}

/** Limits of calls to somebody else's service. */
export interface RequestLimits {
  maxConcurrent: number
  /** null: not limited. */
  maxRpm: number | null
  maxTpm: number | null
  estimatedTokens: number
  /** Of a call itself; waiting for its turn does not count. */
  timeoutMs: number
  burstSeconds: number
  /**
   * `verl`: a bucket holds one second's worth and no more, so that below 60 requests a minute, or with calls of more
   * than a second's tokens, the first one waits although nothing was sent yet. Default: at least one call goes at once.
   */
  compat?: 'verl'
}

/**
 * The versions of functions that score, its parts' included: the first twelve digits of the hash and the path; null
 * where none is the user's own.
 */
export function rewardVersionOf(reward: ResolvedReward): string | null {
  const versions = functionsOf(reward).map(({ hash, path }) => `${hash.slice(0, 12)} ${path}`)
  return versions.length === 0 ? null : [...new Set(versions)].join(' + ')
}

function functionsOf(reward: ResolvedReward): FunctionRef[] {
  const inner = [...(reward.components ?? []).map((part) => part.reward), reward.wraps]
  return [
    ...(reward.function === undefined ? [] : [reward.function]),
    ...inner.flatMap((one) => (one === undefined ? [] : functionsOf(one))),
  ]
}

/** The keys of the extra info that are a reward's components, after `''`, the reward itself; empty where it has none. */
export function componentNames({
  components = [],
  gdpo,
}: Pick<ResolvedReward, 'components' | 'gdpo'>): string[] {
  const names = [...components.map(({ name }) => name), ...(gdpo?.keys ?? [])]
  return names.length === 0 ? [] : ['', ...names]
}

/** Whether nothing but reward models decides a score: their equal scores are no proof that the answers are right or wrong. */
export function isByModelsAlone(reward: ScoredBy): boolean {
  if (reward.wraps !== undefined) return isByModelsAlone(reward.wraps)
  const parts = reward.components ?? []
  if (reward.kind === 'combine') {
    return parts.length > 0 && parts.every((part) => isByModelsAlone(part.reward))
  }
  return reward.kind === 'model'
}

/** What of a reward says who scores. */
export type ScoredBy = Pick<ResolvedReward, 'kind' | 'components' | 'wraps'>

/** The reward models that a reward asks, its parts' included, each once. */
export function modelsOf(reward: Pick<ResolvedReward, 'model' | 'components' | 'wraps'>): string[] {
  const inner = [...(reward.components ?? []).map((part) => part.reward), reward.wraps]
  const parts = inner.flatMap((one) => (one === undefined ? [] : modelsOf(one)))
  return [...new Set(reward.model === null ? parts : [reward.model, ...parts])]
}
