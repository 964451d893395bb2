import { nearestName } from '../nearest-name.ts'
import type { AsyncRule } from './async-rule.ts'
import { codeRule } from './code.ts'
import { geo3kRule } from './geo3k.ts'
import { gsm8kRule } from './gsm8k.ts'
import { mathBoxedRule } from './math-boxed.ts'
import { mathDapoRule } from './math-dapo.ts'
import { mathVerifyRule } from './math-verify.ts'
import { numinaRule } from './numina.ts'
import { explainKwargsError, ownKwargs, type Rule } from './rule.ts'
import { searchR1Rule } from './search-r1.ts'

/** The rules in the order of verl's `default_compute_score`, then those that are selected only by name. */
const rules: readonly Rule[] = [
  gsm8kRule,
  mathBoxedRule,
  mathDapoRule,
  numinaRule,
  geo3kRule,
  searchR1Rule,
  mathVerifyRule,
]

const asyncRules: readonly AsyncRule[] = [codeRule]

const exact = new Map<string, Rule>()
const prefixes: { prefix: string; rule: Rule }[] = []
for (const rule of rules) {
  for (const source of rule.dataSources) {
    if (source.endsWith('*')) prefixes.push({ prefix: source.slice(0, -1), rule })
    else if (!exact.has(source)) exact.set(source, rule)
  }
}

export function ruleForDataSource(dataSource: string): Rule | undefined {
  return exact.get(dataSource) ?? prefixes.find(({ prefix }) => dataSource.startsWith(prefix))?.rule
}

/** Finds a rule by the name in `reward.function`. A rule that is named there scores every data source. */
export function ruleByName(name: string): Rule | undefined {
  return rules.find((rule) => rule.name === name)
}

export function asyncRuleForDataSource(dataSource: string): AsyncRule | undefined {
  return asyncRules.find((rule) => rule.dataSources.includes(dataSource))
}

export function asyncRuleByName(name: string): AsyncRule | undefined {
  return asyncRules.find((rule) => rule.name === name)
}

export function listAsyncRules(): readonly AsyncRule[] {
  return asyncRules
}

/** All built-in rules except those that call a service, in order of lookup. */
export function listRules(): readonly Rule[] {
  return rules
}

/** The data sources of {@link listRules}, for error messages; prefixes are written as `aime*`. */
export function listRuleDataSources(): readonly string[] {
  return rules.flatMap((rule) => rule.dataSources)
}

/**
 * Checks a batch's kwargs against the rules its data sources select: each key must be known to at least one of them,
 * and valid for every rule that knows it. Called once per batch, without the reward manager's own keys.
 */
export function checkRuleKwargs(
  forRules: readonly Pick<Rule, 'name' | 'kwargs'>[],
  kwargs: Record<string, unknown>,
): { ok: true } | { ok: false; message: string; hint: string } {
  const known = [...new Set(forRules.flatMap((rule) => Object.keys(rule.kwargs.shape)))]
  const names = forRules.map((rule) => rule.name).join(', ')
  for (const key of Object.keys(kwargs)) {
    if (known.includes(key)) continue
    const nearest = nearestName(key, known)
    return {
      ok: false,
      message:
        `unknown kwarg ${JSON.stringify(key)}` +
        (nearest === undefined ? '' : `, did you mean ${JSON.stringify(nearest)}?`),
      hint:
        forRules.length === 0
          ? 'No rule scores this batch, so it takes no kwargs for one.'
          : `Known to ${names}: ${known.join(', ')}.`,
    }
  }
  for (const rule of forRules) {
    const result = rule.kwargs.safeParse(ownKwargs(rule.kwargs, kwargs))
    if (!result.success) {
      return { ok: false, ...explainKwargsError(rule.name, rule.kwargs, result.error) }
    }
  }
  return { ok: true }
}
