import type { ResolvedReward } from '../contract/resolved-reward.ts'
import { RewardOpsError } from '../errors.ts'
import { checkServerUrl } from '../router/server-admission.ts'
import { suggest } from './nearest-name.ts'
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

/** What rules score by, as a batch or a part of its reward has it. */
export interface RuleReward {
  /** rule: all of them on the worker's loop · service: some ask a service, or all may have to wait for their turn. */
  kind: 'rule' | 'service'
  kwargs: Record<string, unknown>
  rule?: string
  /** What scores, for people. */
  title: string
}

type AnyRule = Rule | AsyncRule

/** Where a sandbox is named: the kwarg without which the rule `code` has nobody to ask. */
const SANDBOX = 'sandbox_fusion_url'

/**
 * The rule named in `reward.function`, with the kwargs of both places.
 * @param at where the reward is in what was sent, e.g. `reward` or `reward.combine[0].reward`
 * Throws `invalid_input`, `invalid_kwargs`, `forbidden_url`.
 */
export function resolveNamedRule(
  at: string,
  name: string | undefined,
  kwargs: Record<string, unknown>,
  own: Record<string, unknown>,
): RuleReward {
  const rule = namedRule(at, name)
  for (const key of Object.keys(own)) {
    if (!Object.hasOwn(kwargs, key)) continue
    throw new RewardOpsError(
      'invalid_kwargs',
      `kwarg "${key}" is in ${at}.kwargs and in ${at}.function.kwargs.`,
    )
  }
  const all = { ...kwargs, ...own }
  refuseKwargs(checkRuleKwargs([rule], all))
  const asks = isAsync(rule)
  if (asks) checkSandbox(rule.name, all)
  return { kind: asks ? 'service' : 'rule', kwargs: all, rule: rule.name, title: rule.name }
}

/**
 * The rules that data sources select. A batch that names a sandbox is of kind `service` before any of its samples asks
 * for it: an open one may be sent such samples later.
 * Throws `unknown_data_source`, `invalid_kwargs`, `forbidden_url`.
 */
export function resolveRules(
  dataSources: readonly string[],
  kwargs: Record<string, unknown>,
): RuleReward {
  const rules = rulesFor(dataSources)
  const named = typeof kwargs[SANDBOX] === 'string'
  if (rules.length === 0) refuseKwargsOfNoRule(kwargs)
  else refuseKwargs(checkRuleKwargs(named ? [...rules, ...listAsyncRules()] : rules, kwargs))
  for (const rule of rules) if (isAsync(rule)) checkSandbox(rule.name, kwargs)
  if (named) checkSandboxUrl(kwargs[SANDBOX] as string)
  const names = [...new Set(rules.map((rule) => rule.name))]
  return {
    kind: named ? 'service' : 'rule',
    kwargs,
    title: names.length > 0 ? names.join(' + ') : 'rule by data source',
  }
}

/**
 * Whether a batch that is there can take samples of these data sources: each has a rule, and what the rule knows of
 * the batch's kwargs is valid for it. Where a rule was named, it takes them all, and its kwargs were checked before.
 * Throws `unknown_data_source`, `invalid_kwargs`.
 */
export function checkRulesForMore(dataSources: readonly string[], reward: ResolvedReward): void {
  for (const part of reward.components ?? []) checkRulesForMore(dataSources, part.reward)
  if (reward.wraps !== undefined) checkRulesForMore(dataSources, reward.wraps)
  const byDataSource = reward.kind === 'rule' || reward.kind === 'service'
  if (!byDataSource || reward.rule !== undefined) return
  for (const rule of rulesFor(dataSources)) {
    refuseKwargs(checkRuleKwargs([rule], ownKwargs(rule.kwargs, reward.kwargs)))
    if (isAsync(rule)) checkSandbox(rule.name, reward.kwargs)
  }
}

/** The rules of these data sources. Throws `unknown_data_source` naming what exists. */
function rulesFor(dataSources: readonly string[]): AnyRule[] {
  return dataSources.map((dataSource) => {
    const rule = ruleForDataSource(dataSource) ?? asyncRuleForDataSource(dataSource)
    if (rule) return rule
    const asking = listAsyncRules().flatMap((one) => one.dataSources)
    throw new RewardOpsError(
      'unknown_data_source',
      `No rule scores dataSource "${dataSource}". ${suggest(dataSource, [...listRuleDataSources(), ...asking])}`,
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

/** A rule that has nobody to ask would fail every sample: better told at once. */
function checkSandbox(rule: string, kwargs: Record<string, unknown>): void {
  const url = kwargs[SANDBOX]
  if (typeof url !== 'string') {
    throw new RewardOpsError('invalid_kwargs', `kwarg "${SANDBOX}" of rule ${rule} is missing.`, {
      hint: 'Give the address of a SandboxFusion service: http://host:8080/run_code.',
    })
  }
  checkSandboxUrl(url)
}

/** As a server's address: no credentials, neither link-local nor a metadata service, in any spelling. */
function checkSandboxUrl(url: string): void {
  const checked = checkServerUrl(url)
  if (checked.ok) return
  throw new RewardOpsError('forbidden_url', `kwarg "${SANDBOX}": ${checked.message}.`, {
    hint: checked.hint,
  })
}

/** Throws `invalid_kwargs` with what a check found. */
function refuseKwargs(checked: ReturnType<typeof checkRuleKwargs>): void {
  if (!checked.ok) {
    throw new RewardOpsError('invalid_kwargs', checked.message, { hint: checked.hint })
  }
}

/** Of an open batch without samples it is not known yet which rules score it: each kwarg must suit one of all. */
function refuseKwargsOfNoRule(kwargs: Record<string, unknown>): void {
  const all: AnyRule[] = [...listRules(), ...listAsyncRules()]
  for (const key of Object.keys(kwargs)) {
    const one = { [key]: kwargs[key] }
    const knowing = all.filter((rule) => key in rule.kwargs.shape)
    if (knowing.some((rule) => checkRuleKwargs([rule], one).ok)) continue
    refuseKwargs(checkRuleKwargs(knowing.length > 0 ? knowing : all, one))
  }
}
