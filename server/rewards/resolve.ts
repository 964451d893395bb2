import { isAbsolute, relative, resolve as resolvePath } from 'node:path'
import { RewardOpsError } from '../errors.ts'
import { describeIssues } from '../wire/describe-issues.ts'
import type { ResolvedReward } from '../wire/resolved-reward.ts'
import type { RewardSpec } from '../wire/trainer.ts'
import { BUILTIN_JUDGES } from './judge/builtin-templates.ts'
import { JudgeTemplate } from './judge/judge-template.ts'
import { MANAGER_ALIASES, managerNames, takeManagerKwargs } from './managers/registry.ts'
import { nearestName } from './nearest-name.ts'
import {
  asyncRuleForDataSource,
  checkRuleKwargs,
  listAsyncRules,
  listRuleDataSources,
  listRules,
  ruleByName,
  ruleForDataSource,
} from './rules/registry.ts'
import { ownKwargs, type Rule } from './rules/rule.ts'

/** What acceptance needs to know beside the request. */
export interface ResolveContext {
  functionsDir: string
  /** Discriminative reward models with a registered server. */
  models: readonly string[]
  /** Generative ones: judges, which need a template. */
  judges?: readonly string[]
  /** Models none of whose servers can be put to sleep. */
  sleepless?: readonly string[]
}

function suggest(name: string, known: readonly string[]): string {
  const near = nearestName(name, known)
  const list = known.length > 0 ? `Known: ${known.join(', ')}.` : 'None is known yet.'
  return near ? `Did you mean "${near}"? ${list}` : list
}

/** Refuses a function path that leaves the functions folder, by `..`, by a link's name or as an absolute path. */
function checkFunctionPath(path: string, functionsDir: string): void {
  const inside = relative(functionsDir, resolvePath(functionsDir, path))
  if (
    path.includes('\u0000') ||
    isAbsolute(path) ||
    inside === '' ||
    inside.startsWith('..') ||
    isAbsolute(inside)
  ) {
    throw new RewardOpsError(
      'function_outside_folder',
      `reward.function.path "${path}" lies outside the functions folder.`,
    )
  }
}

/** What this version does not honour is refused by name; silence would be worse. */
function refuseUnsupported(spec: RewardSpec): void {
  const refuse = (field: string, why: string): never => {
    throw new RewardOpsError('unsupported_setting', `${field}: ${why}`)
  }
  if (spec.function && spec.function.path !== undefined)
    refuse('reward.function.path', 'reward functions of one’s own are not part of this version.')
  if (spec.combine)
    refuse('reward.combine', 'weighted sums of rewards are not part of this version.')
  if (spec.sleepAfter && spec.model === null)
    refuse('reward.sleepAfter', 'only servers of a reward model can be put to sleep.')
}

/**
 * Resolves which reward scores a batch: a reward model if one is named, else the rule each data source selects.
 * Throws RewardOpsError naming what exists when a manager, model or rule does not.
 */
export function resolveReward(
  spec: RewardSpec,
  dataSources: readonly string[],
  context: ResolveContext,
): { reward: ResolvedReward; rewardName: string } {
  const manager = MANAGER_ALIASES[spec.manager] ?? spec.manager
  if (spec.function?.path !== undefined) checkFunctionPath(spec.function.path, context.functionsDir)
  if (!managerNames().includes(manager)) {
    throw new RewardOpsError(
      'unknown_manager',
      `reward.manager "${spec.manager}" is not registered. ${suggest(spec.manager, managerNames())}`,
    )
  }
  refuseUnsupported(spec)
  const common = {
    manager,
    timeoutMs: spec.timeoutMs,
    maxAttempts: spec.maxAttempts,
    maxConcurrency: spec.maxConcurrency,
    onFailure: spec.onFailure,
    ...(spec.advantages?.normByStd === false ? { advantages: spec.advantages } : {}),
  }
  const taken = takeManagerKwargs(manager, spec.kwargs)
  if (!taken.ok) throw new RewardOpsError('invalid_kwargs', taken.message, { hint: taken.hint })
  const { rest } = taken
  if (spec.judge !== null && spec.model === null) {
    throw new RewardOpsError('invalid_input', 'reward.judge: needs reward.model, a generative one.')
  }
  if (spec.function !== null && spec.model !== null) {
    throw new RewardOpsError(
      'invalid_input',
      'reward.function and reward.model are both given: one of them scores.',
    )
  }
  if (spec.model !== null) {
    const judge = resolveJudge(spec, context)
    if (judge === null && !context.models.includes(spec.model)) {
      throw new RewardOpsError(
        'unknown_model',
        `reward.model "${spec.model}" has no registered server. ${suggest(spec.model, [...context.models, ...(context.judges ?? [])])}`,
      )
    }
    if (spec.sleepAfter && context.sleepless?.includes(spec.model)) {
      throw new RewardOpsError(
        'unsupported_setting',
        `reward.sleepAfter: no server of "${spec.model}" can be put to sleep.`,
        {
          hint: 'Leave it out, or start the servers so that they can sleep: docs/api.md says how.',
        },
      )
    }
    const keys = Object.keys(rest)
    if (keys.length > 0) {
      throw new RewardOpsError(
        'invalid_kwargs',
        `reward.kwargs.${keys[0]}: a reward model takes no kwargs of its own.`,
      )
    }
    return {
      reward: {
        kind: 'model',
        model: spec.model,
        kwargs: spec.kwargs,
        ...common,
        ...(judge === null ? {} : { judge }),
        ...(spec.sleepAfter ? { sleepAfter: true } : {}),
      },
      rewardName: spec.model,
    }
  }
  if (spec.function) {
    const rule = namedRule(spec.function.name)
    const own = spec.function.kwargs ?? {}
    for (const key of Object.keys(own)) {
      if (!Object.hasOwn(spec.kwargs, key)) continue
      throw new RewardOpsError(
        'invalid_kwargs',
        `kwarg "${key}" is in reward.kwargs and in reward.function.kwargs.`,
      )
    }
    refuseKwargs(checkRuleKwargs([rule], { ...rest, ...own }))
    const kwargs = { ...spec.kwargs, ...own }
    return {
      reward: { kind: 'rule', model: null, kwargs, rule: rule.name, ...common },
      rewardName: rule.name,
    }
  }
  const rules = rulesFor(dataSources)
  if (rules.length > 0) refuseKwargs(checkRuleKwargs(rules, rest))
  else refuseKwargsOfNoRule(rest)
  const names = [...new Set(rules.map((rule) => rule.name))]
  return {
    reward: { kind: 'rule', model: null, kwargs: spec.kwargs, ...common },
    rewardName: names.length > 0 ? names.join(' + ') : 'rule by data source',
  }
}

/** A registered rule. Throws `invalid_input` naming what is registered. */
function namedRule(name: string | undefined): Rule {
  const rule = name === undefined ? undefined : ruleByName(name)
  if (rule) return rule
  const known = listRules().map((one) => one.name)
  if (name === undefined) {
    throw new RewardOpsError('invalid_input', 'reward.function: give its name.', {
      hint: `Registered: ${known.join(', ')}.`,
    })
  }
  if (listAsyncRules().some((one) => one.name === name)) {
    throw new RewardOpsError('unsupported_setting', `reward.function.name: ${noSandbox(name)}`)
  }
  throw new RewardOpsError(
    'invalid_input',
    `reward.function.name: "${name}" is not registered. ${suggest(name, known)}`,
  )
}

function noSandbox(rule: string): string {
  return `rule ${rule} asks a service, which batches of this version do not.`
}

/** How a generative model judges; null for a discriminative one. */
function resolveJudge(spec: RewardSpec, context: ResolveContext): JudgeTemplate | null {
  const { judge } = spec
  const model = spec.model as string
  const isJudge = !context.models.includes(model) && context.judges?.includes(model) === true
  const names = [...BUILTIN_JUDGES.keys()]
  if (!isJudge) {
    if (judge === null || !context.models.includes(model)) return null
    throw new RewardOpsError('invalid_input', `reward.judge: "${model}" gives scores by itself.`, {
      hint: 'Leave reward.judge out, or name a generative model.',
    })
  }
  if (judge === null) {
    throw new RewardOpsError(
      'invalid_input',
      `reward.judge: "${model}" is generative, and how it judges was not said.`,
      { hint: `Give reward.judge: a template, or one of ${names.join(', ')}.` },
    )
  }
  if (typeof judge === 'string') {
    const known = BUILTIN_JUDGES.get(judge)
    if (known) return known
    throw new RewardOpsError(
      'invalid_input',
      `reward.judge: there is no template "${judge}". ${suggest(judge, names)}`,
    )
  }
  const parsed = JudgeTemplate.safeParse(judge)
  if (parsed.success) return parsed.data
  throw new RewardOpsError('invalid_input', `reward.judge.${describeIssues(parsed.error)}`)
}

function refuseKwargs(checked: ReturnType<typeof checkRuleKwargs>): void {
  if (!checked.ok) {
    throw new RewardOpsError('invalid_kwargs', checked.message, { hint: checked.hint })
  }
}

/** Of an open batch without samples it is not known yet which rules score it: each kwarg must suit one of all. */
function refuseKwargsOfNoRule(kwargs: Record<string, unknown>): void {
  for (const key of Object.keys(kwargs)) {
    const one = { [key]: kwargs[key] }
    const knowing = listRules().filter((rule) => key in rule.kwargs.shape)
    if (knowing.some((rule) => checkRuleKwargs([rule], one).ok)) continue
    refuseKwargs(checkRuleKwargs(knowing.length > 0 ? knowing : listRules(), one))
  }
}

/**
 * Whether a batch that is there can take samples of these data sources: each has a rule, and what the rule knows of
 * the batch's kwargs is valid for it. Where `rule` names one, it takes them all, and its kwargs were checked before.
 * Throws `unknown_data_source`, `invalid_kwargs`.
 */
export function checkRulesForMore(
  dataSources: readonly string[],
  kwargs: Record<string, unknown>,
  rule?: string,
): void {
  if (rule !== undefined) return
  for (const rule of rulesFor(dataSources)) {
    refuseKwargs(checkRuleKwargs([rule], ownKwargs(rule.kwargs, kwargs)))
  }
}

/** The rules of these data sources. Throws `unknown_data_source` naming what exists. */
export function rulesFor(dataSources: readonly string[]): Rule[] {
  return dataSources.map((dataSource) => {
    const rule = ruleForDataSource(dataSource)
    if (!rule) {
      const known = listRuleDataSources()
      const asking = asyncRuleForDataSource(dataSource)
      if (asking) {
        throw new RewardOpsError(
          'unsupported_setting',
          `dataSource "${dataSource}": ${noSandbox(asking.name)}`,
        )
      }
      throw new RewardOpsError(
        'unknown_data_source',
        `No rule scores dataSource "${dataSource}". ${suggest(dataSource, known)}`,
      )
    }
    return rule
  })
}
