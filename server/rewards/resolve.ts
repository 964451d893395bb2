import { describeIssues } from '../contract/describe-issues.ts'
import { type FunctionRef, modelsOf, type ResolvedReward } from '../contract/resolved-reward.ts'
import { LOCAL_SANDBOX, type LocalSandbox, sandboxAddress } from '../contract/sandbox.ts'
import type { CompositeComponent, RewardComponent, RewardSpec } from '../contract/trainer.ts'
import { RewardOpsError } from '../errors.ts'
import { type FunctionVersion, versionKey } from './functions/accepted-functions.ts'
import { postProcesses } from './functions/group-calls.ts'
import { inputOf } from './functions/host-call.ts'
import { BUILTIN_JUDGES } from './judge/builtin-templates.ts'
import { JudgeTemplate } from './judge/judge-template.ts'
import { batchManager } from './managers/batch.ts'
import { takeManagerKwargs } from './managers/manager-kwargs.ts'
import { MODULE_MANAGER } from './managers/module.ts'
import { MANAGER_ALIASES, managerNames } from './managers/registry.ts'
import { nearestName, suggest } from './nearest-name.ts'
import type { AsyncRule } from './rules/async-rule.ts'
import {
  asyncRuleByName,
  asyncRuleForDataSource,
  checkRuleKwargs,
  listAsyncRules,
  listRuleDataSources,
  listRules,
  ruleByName,
  ruleForDataSource,
} from './rules/registry.ts'
import { ownKwargs, type Rule } from './rules/rule.ts'

export interface ResolveContext {
  /** The custom functions that the reward names, by `versionKey`. */
  functions?: ReadonlyMap<string, FunctionVersion>
  /** Discriminative reward models with a registered server. */
  models: readonly string[]
  /** Generative reward models with a registered server; they need a judge template. */
  judges?: readonly string[]
  /** Models without a server that can be put to sleep. */
  sleepless?: readonly string[]
  /** URLs of sandboxes by the names that an admin gave them. */
  sandboxes?: Record<string, string>
}

/**
 * The fields of a `ResolvedReward` that describe the scorer of a sample or a component. The other fields configure the
 * reward manager.
 */
type Scorer = Pick<
  ResolvedReward,
  | 'kind'
  | 'model'
  | 'kwargs'
  | 'rule'
  | 'sandbox'
  | 'judge'
  | 'tokenScores'
  | 'function'
  | 'postProcess'
  | 'components'
> & {
  title: string
}

/** A scorer as the request specifies it; `kwargs` excludes the manager's. */
type ScorerSpec = Pick<RewardComponent, 'function' | 'model' | 'judge' | 'tokenScores' | 'kwargs'>

type AnyRule = Rule | AsyncRule

/** The kwargs of the rule `code` that choose its sandbox, by name and by URL. */
const SANDBOX = 'sandbox'
const SANDBOX_URL = 'sandbox_fusion_url'

/** Names of the fields that a function receives with each sample; a kwarg of the same name would be lost. */
const SAMPLE_FIELDS = new Set(
  Object.keys(
    inputOf({ dataSource: '', prompt: '', solutionStr: '', groundTruth: null, extraInfo: {} }, {}),
  ),
)

/** @throws RewardOpsError; for an unknown manager, model or rule it lists the known ones */
export function resolveReward(
  spec: RewardSpec,
  dataSources: readonly string[],
  context: ResolveContext,
): { reward: ResolvedReward; rewardName: string } {
  if (typeof spec.manager !== 'string') {
    return resolveModuleManager(spec, spec.manager, dataSources, context)
  }
  const manager = managerNameOf(spec)
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
      'reward.manager "batch" calls a function once per group: set reward.function.path.',
    )
  }
  const models = modelsOf(reward)
  if (spec.sleepAfter) checkSleepAfter(models, context)
  if (taken.limiter === undefined && taken.processes === undefined) {
    return { reward, rewardName: title }
  }
  // A rule that waits for a limiter or a process cannot run synchronously on the worker's event loop.
  const kind = reward.kind === 'rule' ? 'service' : reward.kind
  if (taken.limiter === undefined) return { reward: { ...reward, kind }, rewardName: title }
  const limiter = { ...taken.limiter, name: taken.limiter.name ?? limiterNameOf(reward, models) }
  return { reward: { ...reward, kind, limiter }, rewardName: title }
}

/** Returns the name of a reward's manager, with aliases resolved. The name may be unknown. */
export function managerNameOf({ manager }: Pick<RewardSpec, 'manager'>): string {
  return typeof manager === 'string' ? (MANAGER_ALIASES[manager] ?? manager) : MODULE_MANAGER
}

/** Resolves a custom manager class. The class wraps the reward that would otherwise score the batch. */
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
    function: resolveCustomManager(named, context),
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
): Scorer {
  if (spec.combine === null) {
    const { function: fn, model, judge, tokenScores } = spec
    const scorer = { function: fn, model, judge, tokenScores, kwargs }
    return resolveScorer('reward', scorer, dataSources, context)
  }
  for (const field of ['function', 'model', 'judge'] as const) {
    if (spec[field] === null) continue
    throw new RewardOpsError(
      'invalid_input',
      `reward.combine and reward.${field} are both given: make ${field} one of the components.`,
    )
  }
  if (spec.tokenScores === true) {
    throw new RewardOpsError(
      'invalid_input',
      'reward.tokenScores belongs to a component, reward.combine[…].reward.tokenScores.',
    )
  }
  const [key] = Object.keys(kwargs)
  if (key !== undefined) {
    throw new RewardOpsError(
      'invalid_kwargs',
      `reward.kwargs.${key}: the kwargs of a scorer belong to its component, reward.combine[…].reward.kwargs.`,
    )
  }
  return resolveComponents(spec.combine, spec, dataSources, context)
}

function resolveComponents(
  components: readonly CompositeComponent[],
  spec: RewardSpec,
  dataSources: readonly string[],
  context: ResolveContext,
): Scorer {
  const names = new Set<string>()
  const resolved = components.map(({ name, weight, reward }, at) => {
    const where = `reward.combine[${at}]`
    if (names.has(name)) {
      throw new RewardOpsError(
        'invalid_input',
        `${where}.name: "${name}" is the name of an earlier component.`,
      )
    }
    names.add(name)
    const { title: _, ...scorer } = resolveScorer(`${where}.reward`, reward, dataSources, context)
    if (scorer.postProcess !== undefined) {
      throw new RewardOpsError(
        'unsupported_setting',
        `${where}.reward.function: its post_process_scores would be called with the scores of a component.`,
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

/**
 * Resolves a single scorer: the model, function or rule that the spec names, else the rule of each data source.
 * @param at path within the request, e.g. `reward` or `reward.combine[0].reward`
 */
function resolveScorer(
  at: string,
  spec: ScorerSpec,
  dataSources: readonly string[],
  context: ResolveContext,
): Scorer {
  if (spec.judge !== null && spec.model === null) {
    throw new RewardOpsError('invalid_input', `${at}.judge: needs ${at}.model, a generative one.`)
  }
  if (spec.function !== null && spec.model !== null) {
    throw new RewardOpsError(
      'invalid_input',
      `${at}.function and ${at}.model are both given; give only one.`,
    )
  }
  if (spec.tokenScores === true && (spec.model === null || spec.judge !== null)) {
    throw new RewardOpsError(
      'invalid_input',
      `${at}.tokenScores: needs ${at}.model, a process reward model.`,
    )
  }
  if (spec.model !== null) return resolveModel(at, spec, spec.model, context)
  if (spec.function?.path === undefined) return resolveRules(at, spec, dataSources, context)
  return resolveCustomFunction(at, spec, { ...spec.function, path: spec.function.path }, context)
}

function resolveModel(
  at: string,
  spec: ScorerSpec,
  model: string,
  context: ResolveContext,
): Scorer {
  const judge = resolveJudge(at, spec.judge, model, context)
  if (judge === null && !context.models.includes(model)) {
    throw new RewardOpsError(
      'unknown_model',
      `${at}.model "${model}" has no registered server. ${suggest(model, [...context.models, ...(context.judges ?? [])])}`,
    )
  }
  const [key] = Object.keys(spec.kwargs)
  if (key !== undefined) {
    throw new RewardOpsError(
      'invalid_kwargs',
      `${at}.kwargs.${key}: a reward model takes no kwargs.`,
    )
  }
  return {
    kind: 'model',
    model,
    kwargs: {},
    title: model,
    ...(judge === null ? {} : { judge }),
    ...(spec.tokenScores === true ? { tokenScores: true } : {}),
  }
}

function resolveJudge(
  at: string,
  judge: ScorerSpec['judge'],
  model: string,
  context: ResolveContext,
): JudgeTemplate | null {
  const isJudge = !context.models.includes(model) && context.judges?.includes(model) === true
  const names = [...BUILTIN_JUDGES.keys()]
  if (!isJudge) {
    if (judge === null || !context.models.includes(model)) return null
    throw new RewardOpsError(
      'invalid_input',
      `${at}.judge: "${model}" is discriminative and takes no judge.`,
      {
        hint: `Leave ${at}.judge out, or name a generative model.`,
      },
    )
  }
  if (judge === null) {
    throw new RewardOpsError(
      'invalid_input',
      `${at}.judge: "${model}" is generative and needs a judge.`,
      { hint: `Give ${at}.judge: a template, or one of ${names.join(', ')}.` },
    )
  }
  if (typeof judge === 'string') {
    const known = BUILTIN_JUDGES.get(judge)
    if (known) return known
    throw new RewardOpsError(
      'invalid_input',
      `${at}.judge: there is no template "${judge}". ${suggest(judge, names)}`,
    )
  }
  const parsed = JudgeTemplate.safeParse(judge)
  if (parsed.success) return parsed.data
  throw new RewardOpsError('invalid_input', `${at}.judge.${describeIssues(parsed.error)}`)
}

/** Resolves a custom function to its current version. Throws `invalid_function`, `invalid_kwargs`. */
function resolveCustomFunction(
  at: string,
  spec: ScorerSpec,
  named: { path: string; name?: string | undefined },
  context: ResolveContext,
): Scorer {
  const kwargs = kwargsOf(at, spec)
  for (const key of Object.keys(kwargs)) {
    if (!SAMPLE_FIELDS.has(key)) continue
    throw new RewardOpsError(
      'invalid_kwargs',
      `kwarg "${key}" has the name of a field that a function receives with its sample.`,
    )
  }
  const { hash, path, isolation, methods } = versionOf(`${at}.function`, 'function', named, context)
  const name = named.name ?? null
  const ref = { hash, path, name, kwargs, isolation, ...(methods.length > 0 ? { methods } : {}) }
  return {
    kind: 'function',
    model: null,
    kwargs: {},
    function: ref,
    ...(postProcesses(methods) ? { postProcess: ref } : {}),
    title: name === null ? path : `${path}:${name}`,
  }
}

function resolveCustomManager(
  named: { path: string; name?: string | undefined; kwargs?: Record<string, unknown> | undefined },
  context: ResolveContext,
): FunctionRef {
  const { hash, path, isolation } = versionOf('reward.manager', 'manager', named, context)
  return { hash, path, name: named.name ?? null, kwargs: named.kwargs ?? {}, isolation }
}

function versionOf(
  at: string,
  role: Parameters<typeof versionKey>[0],
  { path, name }: { path: string; name?: string | undefined },
  { functions }: ResolveContext,
): FunctionVersion {
  const version = functions?.get(versionKey(role, path, name))
  if (version) return version
  throw new RewardOpsError('invalid_function', `${at}.path "${path}" was not inspected.`)
}

function kwargsOf(at: string, spec: ScorerSpec): Record<string, unknown> {
  const own = spec.function?.kwargs ?? {}
  for (const key of Object.keys(own)) {
    if (!Object.hasOwn(spec.kwargs, key)) continue
    throw new RewardOpsError(
      'invalid_kwargs',
      `kwarg "${key}" is in ${at}.kwargs and in ${at}.function.kwargs.`,
    )
  }
  return { ...spec.kwargs, ...own }
}

/**
 * Resolves the rule that the spec names, else the rules of the data sources. A reward with a sandbox is of kind
 * `service` even before a sample needs the sandbox, because an open batch may receive such samples later. Throws
 * `invalid_input`, `unknown_data_source`, `invalid_kwargs`, `forbidden_url`.
 */
function resolveRules(
  at: string,
  spec: ScorerSpec,
  dataSources: readonly string[],
  context: ResolveContext,
): Scorer {
  const named = spec.function === null ? null : namedRule(at, spec.function.name)
  const rules = named === null ? rulesFor(dataSources) : [named]
  const kwargs = kwargsOf(at, spec)
  const isNamed = typeof kwargs[SANDBOX] === 'string' || typeof kwargs[SANDBOX_URL] === 'string'
  const hasSandbox = isNamed || rules.some(isAsync)
  if (rules.length === 0) checkKwargsOfAnyRule(kwargs)
  else checkKwargs(named === null && isNamed ? [...rules, ...listAsyncRules()] : rules, kwargs)
  const names = [...new Set(rules.map((rule) => rule.name))]
  return {
    kind: hasSandbox ? 'service' : 'rule',
    model: null,
    kwargs,
    ...(named === null ? {} : { rule: named.name }),
    ...(hasSandbox ? { sandbox: sandboxOf(kwargs, context) } : {}),
    title: names.length > 0 ? names.join(' + ') : 'rule selected by data source',
  }
}

/** Returns the sandbox that the kwargs select. Only sandboxes that an admin has configured can be selected by URL. */
function sandboxOf(
  { [SANDBOX]: name, [SANDBOX_URL]: url }: Record<string, unknown>,
  { sandboxes = {} }: ResolveContext,
): NonNullable<ResolvedReward['sandbox']> {
  const known = Object.keys(sandboxes)
  const hint =
    known.length === 0
      ? `Leave both out to use the sandbox of the service. An admin names others in REWARDOPS_SANDBOXES.`
      : `Set kwargs.${SANDBOX} to one of: ${[LOCAL_SANDBOX, ...known].join(', ')}. An admin names others in REWARDOPS_SANDBOXES.`
  if (typeof url === 'string') {
    if (typeof name === 'string') {
      throw new RewardOpsError(
        'invalid_kwargs',
        `kwargs "${SANDBOX}" and "${SANDBOX_URL}" are both given.`,
      )
    }
    const address = sandboxAddress(url)
    const found = known.find((one) => sandboxes[one] === address)
    if (found !== undefined && address !== null) return { name: found, url: address }
    throw new RewardOpsError(
      'forbidden_url',
      `kwarg "${SANDBOX_URL}": ${JSON.stringify(url)} is not the URL of a sandbox that an admin has named.`,
      { hint },
    )
  }
  if (typeof name !== 'string' || name === LOCAL_SANDBOX) return { name: LOCAL_SANDBOX, url: null }
  if (Object.hasOwn(sandboxes, name)) return { name, url: sandboxes[name] as string }
  throw new RewardOpsError(
    'invalid_kwargs',
    `kwarg "${SANDBOX}": there is no sandbox ${JSON.stringify(name)}.`,
    { hint },
  )
}

/**
 * Checks that the local sandbox is available if a reward uses it; starts it if necessary. Throws `sandbox_unavailable`.
 */
export async function requireSandbox(
  reward: ResolvedReward,
  local: () => Promise<LocalSandbox>,
): Promise<void> {
  if (!usesLocalSandbox(reward)) return
  const sandbox = await local()
  if (sandbox.ok) return
  throw new RewardOpsError(
    'sandbox_unavailable',
    `The rule code has no sandbox to run programs in. ${sandbox.reason}`,
    { hint: sandbox.remedy },
  )
}

export function usesLocalSandbox({ sandbox, components = [], wraps }: ResolvedReward): boolean {
  return (
    sandbox?.url === null ||
    components.some((component) => usesLocalSandbox(component.reward)) ||
    (wraps !== undefined && usesLocalSandbox(wraps))
  )
}

/**
 * Checks that a stored reward can score samples of these data sources. A named rule accepts all data sources. Without a
 * named rule, each data source needs a rule that accepts the batch's kwargs. Throws `unknown_data_source`,
 * `invalid_kwargs`.
 */
export function checkRulesForMore(dataSources: readonly string[], reward: ResolvedReward): void {
  for (const component of reward.components ?? []) checkRulesForMore(dataSources, component.reward)
  if (reward.wraps !== undefined) checkRulesForMore(dataSources, reward.wraps)
  const byDataSource = reward.kind === 'rule' || reward.kind === 'service'
  if (!byDataSource || reward.rule !== undefined) return
  for (const rule of rulesFor(dataSources)) {
    checkKwargs([rule], ownKwargs(rule.kwargs, reward.kwargs))
    // A batch of an earlier version has its sandbox's URL among the kwargs.
    const hasSandbox =
      reward.sandbox !== undefined || typeof reward.kwargs[SANDBOX_URL] === 'string'
    if (isAsync(rule) && !hasSandbox) throw withoutSandbox(rule)
  }
}

function rulesFor(dataSources: readonly string[]): AnyRule[] {
  return dataSources.map((dataSource) => {
    const rule = ruleForDataSource(dataSource) ?? asyncRuleForDataSource(dataSource)
    if (rule) return rule
    const ofAsyncRules = listAsyncRules().flatMap((one) => one.dataSources)
    throw new RewardOpsError(
      'unknown_data_source',
      `No rule scores dataSource "${dataSource}". ${suggest(dataSource, [...listRuleDataSources(), ...ofAsyncRules])}`,
    )
  })
}

function namedRule(at: string, name: string | undefined): AnyRule {
  const known = [...listRules(), ...listAsyncRules()].map((one) => one.name)
  if (name === undefined) {
    throw new RewardOpsError('invalid_input', `${at}.function: give its name.`, {
      hint: `Registered: ${known.join(', ')}.`,
    })
  }
  const rule = ruleByName(name) ?? asyncRuleByName(name)
  if (rule) return rule
  throw new RewardOpsError(
    'invalid_input',
    `${at}.function.name: "${name}" is not registered. ${suggest(name, known)}`,
  )
}

function isAsync(rule: AnyRule): boolean {
  return asyncRuleByName(rule.name) !== undefined
}

function withoutSandbox(rule: AnyRule): RewardOpsError {
  return new RewardOpsError(
    'invalid_kwargs',
    `The batch was opened without a sandbox, which rule ${rule.name} needs.`,
    { hint: `Open the batch with kwargs.${SANDBOX}, such as "${LOCAL_SANDBOX}".` },
  )
}

function checkKwargs(rules: readonly AnyRule[], kwargs: Record<string, unknown>): void {
  const checked = checkRuleKwargs(rules, kwargs)
  if (checked.ok) return
  throw new RewardOpsError('invalid_kwargs', checked.message, { hint: checked.hint })
}

/**
 * Checks the kwargs of an open batch without samples, whose rules are unknown: each kwarg must fit at least one rule.
 */
function checkKwargsOfAnyRule(kwargs: Record<string, unknown>): void {
  const all: AnyRule[] = [...listRules(), ...listAsyncRules()]
  for (const key of Object.keys(kwargs)) {
    const one = { [key]: kwargs[key] }
    const knowing = all.filter((rule) => key in rule.kwargs.shape)
    if (knowing.some((rule) => checkRuleKwargs([rule], one).ok)) continue
    checkKwargs(knowing.length > 0 ? knowing : all, one)
  }
}

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
        hint: 'Leave it out, or start the servers so that they can sleep: see docs/servers.md.',
      },
    )
  }
}

/**
 * Returns the name of a reward's default limiter: one per model, because the models' provider sets the limits, else one
 * per function, else one for the rules. verl has one per process.
 */
function limiterNameOf(reward: ResolvedReward, models: readonly string[]): string {
  if (models.length > 0) return `model:${models.join('+')}`
  const functions = functionsOf(reward)
  if (functions.length > 0) return `function:${functions.join('+')}`
  return `rules:${rulesOf(reward).join('+')}`
}

function functionsOf(reward: ResolvedReward): string[] {
  const inner = (reward.components ?? []).flatMap((component) => functionsOf(component.reward))
  const { function: own } = reward
  const name = own && (own.name === null ? own.path : `${own.path}#${own.name}`)
  return [...new Set(name === undefined ? inner : [name, ...inner])]
}

function rulesOf(reward: ResolvedReward): string[] {
  if (reward.components === undefined) return [reward.rule ?? 'by data source']
  return [...new Set(reward.components.flatMap((component) => rulesOf(component.reward)))]
}
