import type { ImportedConfigDto } from '../../contract/rewards.ts'
import { RewardSpec } from '../../contract/trainer.ts'
import { RATE_LIMITED, RATE_LIMITED_ALIASES } from '../limits/limit-settings.ts'
import { takeManagerKwargs } from '../managers/manager-kwargs.ts'
import { nearestName } from '../nearest-name.ts'
import { listRules } from '../rules/registry.ts'
import { type ConfigLeaf, readConfigText } from './config-text.ts'
import { resolveInterpolations } from './interpolation.ts'
import { draftServers } from './server-drafts.ts'
import { Settings } from './settings.ts'
import { currentKey, isRead, whyElsewhere } from './upstream-keys.ts'

const MANAGERS = ['naive', 'dapo', RATE_LIMITED, 'remote', 'gdpo', 'batch']

/**
 * Translates verl's configuration: YAML in the old or new shape (complete, or one of verl's component files), or the
 * overrides of a command line. Every key is reported. Never throws: an invalid text is reported as a problem.
 * @param address the service's URL, for the command in the result that registers a function
 */
export function importConfig(text: string, address: string | null = null): ImportedConfigDto {
  const read = readConfigText(text)
  const result: ImportedConfigDto = {
    shape: 'none',
    reward: {},
    groupSize: null,
    workers: null,
    normAdvByStd: null,
    dataSourceColumn: null,
    servers: [],
    functionServer: null,
    sandbox: null,
    keys: [],
    problems: [],
  }
  if (!read.ok) {
    result.problems.push({ key: null, line: read.line, message: read.message })
    return result
  }
  const leaves = withSection(read.leaves)
  result.shape = shapeOf(leaves)
  const settings = new Settings(resolveInterpolations(leaves))
  const manager = readManager(settings, result)
  readFunction(settings, result, address)
  readModel(settings, result)
  readKwargs(settings, result, manager)
  readLimits(settings, result, manager)
  readRest(settings, result)
  readDimensions(settings, result, manager)
  checkManager(settings, result, manager)
  if (manager !== 'naive') result.reward.manager = manager
  const checked = RewardSpec.safeParse(result.reward)
  if (!checked.success) {
    for (const { path, message } of checked.error.issues) {
      settings.problem(null, `reward.${path.join('.')}: ${message}`)
    }
  }
  result.keys = settings.account()
  result.problems = settings.problems
  return result
}

/**
 * Keys in a component file of verl's configuration have no section. Adds the section that contains most of the keys:
 * `num_workers` becomes `reward.num_workers`, `use_reward_loop` becomes `reward_model.use_reward_loop`. Other texts
 * stay unchanged.
 */
function withSection(leaves: readonly ConfigLeaf[]): readonly ConfigLeaf[] {
  const exists = (key: string) => isRead(currentKey(key)) || whyElsewhere(key) !== null
  let best = leaves
  let most = leaves.filter(({ key }) => exists(key)).length
  for (const section of ['reward', 'reward_model']) {
    const put = leaves.map((leaf) =>
      HYDRA.test(leaf.key) ? leaf : { ...leaf, key: `${section}.${leaf.key}` },
    )
    const count = put.filter(({ key }) => exists(key)).length
    if (count > most) {
      best = put
      most = count
    }
  }
  return best
}

const HYDRA = /^(?:defaults|hydra|_target_)(?:\.|$)/

function shapeOf(leaves: readonly ConfigLeaf[]): ImportedConfigDto['shape'] {
  const current = leaves.some(({ key }) => key.startsWith('reward.'))
  const legacy = leaves.some(
    ({ key, value }) =>
      value !== null && (currentKey(key) !== key || key.startsWith('reward_model.')),
  )
  if (current && legacy) return 'both'
  return current ? 'current' : legacy ? 'legacy' : 'none'
}

const MANAGER = 'reward.reward_manager.'

function readManager(settings: Settings, result: ImportedConfigDto): string {
  const source = settings.text(`${MANAGER}source`) ?? 'register'
  const name = settings.text(`${MANAGER}name`) ?? 'naive'
  if (source === 'importlib') {
    const path = settings.text(`${MANAGER}module.path`)
    const className = settings.text(`${MANAGER}class_name`) ?? name
    if (path !== undefined && /\.[cm]?[jt]s$/.test(path)) {
      result.reward.manager = { path, name: className }
      settings.honour(`${MANAGER}source`, 'reward.manager is a class in the functions folder')
      for (const key of ['name', 'class_name', 'module.path', 'module.name']) {
        settings.honour(MANAGER + key, `reward.manager ${className} of ${path}`)
      }
      return 'naive'
    }
    settings.leave(`${MANAGER}source`, 'a Python class cannot run here')
    const why = `${className} of ${path ?? 'no path'} is Python: serve its compute_score instead`
    for (const key of ['name', 'class_name', 'module.path', 'module.name']) {
      settings.leave(MANAGER + key, why)
    }
    settings.problem(
      `${MANAGER}source`,
      `the reward manager ${why} (rewardops serve-reward ${path ?? '<file>'}:compute_score)`,
    )
    return 'naive'
  }
  if (source !== 'register') {
    settings.problem(`${MANAGER}source`, `"${source}" is neither register nor importlib`)
  }
  settings.honour(`${MANAGER}source`, 'managers are registered by name')
  for (const key of ['class_name', 'module.path', 'module.name']) {
    settings.leave(MANAGER + key, 'used with source importlib only')
  }
  const manager = RATE_LIMITED_ALIASES[name] ?? name
  if (MANAGERS.includes(manager)) {
    settings.honour(`${MANAGER}name`, `reward.manager "${manager}"`)
    return manager
  }
  if (manager === 'prime') {
    settings.honour(`${MANAGER}name`, 'reward.manager "remote": separate processes, like prime')
    return 'remote'
  }
  const near = nearestName(name, MANAGERS)
  const meant = near ? `, did you mean "${near}"?` : ''
  settings.problem(`${MANAGER}name`, `no reward manager "${name}"${meant} (${MANAGERS.join(', ')})`)
  settings.leave(`${MANAGER}name`, `no such manager${meant}`)
  return 'naive'
}

const FUNCTION = 'reward.custom_reward_function.'

function readFunction(settings: Settings, result: ImportedConfigDto, address: string | null): void {
  const path = settings.text(`${FUNCTION}path`)
  if (path === undefined) {
    const why = 'no path: the rule is chosen by the data source'
    settings.leave(`${FUNCTION}name`, why)
    settings.leaveUnder(`${FUNCTION}reward_kwargs.`, why)
    return
  }
  const name = settings.text(`${FUNCTION}name`) ?? 'compute_score'
  const kwargs = settings.under(`${FUNCTION}reward_kwargs.`, 'kwargs of the function') ?? {}
  if (/\.[cm]?[jt]s$/.test(path)) {
    result.reward.function = { path, name, kwargs: kwargs as Record<string, never> }
    settings.honour(`${FUNCTION}path`, 'reward.function.path, in the functions folder')
    settings.honour(`${FUNCTION}name`, 'reward.function.name')
    return
  }
  const stem = path
    .replace(/^(pkg|file):\/\//, '')
    .replace(/^.*\//, '')
    .replace(/\.py$/, '')
  const model = `${stem}:${name}`
  const command = [
    ...['rewardops', 'serve-reward', `${path}:${name}`, '--model', model],
    ...(Object.keys(kwargs).length === 0 ? [] : ['--kwargs', JSON.stringify(kwargs)]),
    ...(address === null ? [] : ['--register', address]),
  ]
  result.functionServer = { path, name, kwargs, model, command }
  result.reward.model = model
  settings.honour(
    `${FUNCTION}path`,
    `served by rewardops serve-reward as the model ${model}, called as reward.model`,
  )
  settings.honour(`${FUNCTION}name`, 'the function that is served')
}

const MODEL = 'reward.reward_model.'

function readModel(settings: Settings, result: ImportedConfigDto): void {
  if (settings.flag(`${MODEL}enable`) !== true) {
    settings.leaveUnder(MODEL, `${settings.written(`${MODEL}enable`)} is not True: no model scores`)
    return
  }
  const hasFunction = result.functionServer !== null || result.reward.function !== undefined
  settings.honour(
    `${MODEL}enable`,
    hasFunction
      ? 'the model’s servers, which the function calls through the router address'
      : 'scores come from the model',
  )
  // With a function, the function calls the model; without one, verl treats the model as a classifier.
  result.servers = draftServers(settings, hasFunction ? 'generative' : 'discriminative')
  const [server] = result.servers
  if (hasFunction || server === undefined) return
  result.reward.model = server.model
  const ownPool = settings.flag(`${MODEL}enable_resource_pool`) === true
  const gives = settings.flag(`${MODEL}rollout.free_cache_engine`) !== false
  if (!ownPool && gives) result.reward.sleepAfter = true
}

const KWARGS = 'reward.reward_kwargs.'

function readKwargs(settings: Settings, result: ImportedConfigDto, manager: string): void {
  const kwargs = settings.under(KWARGS, null)
  if (kwargs === null) return
  if (manager === 'dapo') {
    const taken = takeManagerKwargs('dapo', kwargs)
    if (taken.ok) {
      for (const key of ['max_resp_len', 'overlong_buffer_cfg']) {
        if (Object.hasOwn(kwargs, key)) noteKwarg(settings, result, key, kwargs[key])
      }
    } else {
      settings.problem(null, problemOf(taken))
      settings.leaveUnder(KWARGS, 'not used: see the problems')
    }
  } else {
    const why = `read by the manager dapo; this one is ${manager}`
    settings.leave(`${KWARGS}max_resp_len`, why)
    settings.leaveUnder(`${KWARGS}overlong_buffer_cfg.`, why)
  }
  const options = listRules().flatMap((rule) => Object.keys(rule.kwargs.shape))
  for (const key of Object.keys(kwargs)) {
    if (key === 'max_resp_len' || key === 'overlong_buffer_cfg') continue
    if (options.includes(key)) noteKwarg(settings, result, key, kwargs[key])
    else {
      const known = [...options, 'max_resp_len', 'overlong_buffer_cfg']
      const near = nearestName(key, known)
      const section = settings.written(KWARGS + key).slice(0, -key.length)
      settings.unknown(KWARGS + key, near === undefined ? undefined : section + near)
    }
  }
}

function noteKwarg(
  settings: Settings,
  result: ImportedConfigDto,
  key: string,
  value: unknown,
): void {
  result.reward.kwargs = { ...result.reward.kwargs, [key]: value as never }
  settings.honour(KWARGS + key, `reward.kwargs.${key}`)
  settings.under(`${KWARGS}${key}.`, `reward.kwargs.${key}`)
}

const LIMITS = ['max_concurrent', 'max_rpm', 'max_tpm', 'estimated_tokens_per_request']

function readLimits(settings: Settings, result: ImportedConfigDto, manager: string): void {
  const seconds = settings.number('reward.timeout')
  if (manager !== RATE_LIMITED) {
    for (const key of [...LIMITS, 'timeout']) {
      settings.leave(`reward.${key}`, `read by the manager ${RATE_LIMITED}; this one is ${manager}`)
    }
    return
  }
  for (const key of LIMITS) {
    const value = settings.number(`reward.${key}`)
    if (value === undefined) continue
    result.reward.kwargs = { ...result.reward.kwargs, [key]: value }
    settings.honour(`reward.${key}`, `reward.kwargs.${key}, over all workers`)
  }
  if (seconds === undefined) return
  result.reward.timeoutMs = Math.round(seconds * 1_000)
  settings.honour('reward.timeout', 'reward.timeoutMs')
}

function readRest(settings: Settings, result: ImportedConfigDto): void {
  result.workers = settings.number('reward.num_workers', 1) ?? null
  settings.honour('reward.num_workers', 'REWARDOPS_WORKERS: worker processes')
  result.groupSize = settings.number('actor_rollout_ref.rollout.n', 1) ?? null
  settings.honour('actor_rollout_ref.rollout.n', 'groupSize of batches.submit')
  result.normAdvByStd = settings.flag('algorithm.norm_adv_by_std_in_grpo') ?? null
  if (result.normAdvByStd === false) result.reward.advantages = { normByStd: false }
  settings.honour('algorithm.norm_adv_by_std_in_grpo', 'reward.advantages.normByStd')
  result.dataSourceColumn = settings.text('data.reward_fn_key') ?? null
  settings.honour('data.reward_fn_key', 'the column to send as dataSource')
  const most = settings.number('max_concurrency', 1)
  if (most !== undefined) result.reward.maxConcurrency = most
  settings.honour('max_concurrency', 'reward.maxConcurrency')
  const url = settings.text('reward.sandbox_fusion.url')
  if (url === undefined)
    settings.leaveUnder(
      'reward.sandbox_fusion.',
      'no url: the sandbox of the service runs programs',
    )
  else {
    result.sandbox = {
      url,
      maxConcurrent: settings.number('reward.sandbox_fusion.max_concurrent', 1) ?? 64,
      memoryLimitMb: settings.number('reward.sandbox_fusion.memory_limit_mb', 1) ?? 1024,
    }
    for (const key of ['url', 'max_concurrent', 'memory_limit_mb']) {
      settings.honour(
        `reward.sandbox_fusion.${key}`,
        'the sandbox of the code rule; an admin names its URL in REWARDOPS_SANDBOXES',
      )
    }
  }
}

const GDPO_KEYS = ['gdpo_reward_keys', 'gdpo_reward_weights']

function readDimensions(settings: Settings, result: ImportedConfigDto, manager: string): void {
  for (const key of GDPO_KEYS) {
    if (manager !== 'gdpo') {
      settings.leave(`algorithm.${key}`, `read by the manager gdpo; this one is ${manager}`)
      continue
    }
    const value = settings.value(`algorithm.${key}`)
    if (value === undefined) continue
    result.reward.kwargs = { ...result.reward.kwargs, [key]: value as never }
    settings.honour(`algorithm.${key}`, `reward.kwargs.${key}`)
  }
}

/**
 * Reports a manager or kwargs with which `batches.submit` would refuse the reward. {@link readKwargs} checks the kwargs
 * of dapo.
 */
function checkManager(settings: Settings, result: ImportedConfigDto, manager: string): void {
  if (manager === 'batch' && result.reward.function === undefined) {
    settings.problem(
      `${MANAGER}name`,
      'the manager batch calls a function of the functions folder, in JavaScript or TypeScript, once per group; here there is none',
    )
  }
  if (manager === 'dapo') return
  const taken = takeManagerKwargs(manager, result.reward.kwargs ?? {})
  if (!taken.ok) settings.problem(null, problemOf(taken))
}

function problemOf({ message, hint }: { message: string; hint: string }): string {
  return `${message}${/[.?!]$/.test(message) ? '' : '.'} ${hint}`
}
