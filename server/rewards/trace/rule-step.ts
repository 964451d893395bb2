import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import type { TriedRule } from '../../contract/rewards.ts'
import type { RewardOutcome, RewardSample } from '../managers/manager.ts'
import type { AsyncRule } from '../rules/async-rule.ts'
import {
  asyncRuleForDataSource,
  listAsyncRules,
  ruleByName,
  ruleForDataSource,
} from '../rules/registry.ts'
import { ownKwargs, type Rule, type RuleExplanation, type RuleResult } from '../rules/rule.ts'
import { scoreByRule } from '../scoring/by-rule.ts'
import { scorerEnd } from './tried-end.ts'

const MAX_FORM_CHARS = 4_000

/**
 * Returns the steps by which a rule scored a sample. A rule that calls no service is run again; the steps of other
 * rules are taken from the outcome.
 */
export async function ruleStep(
  sample: RewardSample,
  reward: ResolvedReward,
  outcome: RewardOutcome,
): Promise<TriedRule> {
  const { rule: named } = reward
  const rule = named === undefined ? ruleForDataSource(sample.dataSource) : ruleByName(named)
  if (rule !== undefined) return pureStep(rule, sample, reward)
  const asking =
    named === undefined
      ? asyncRuleForDataSource(sample.dataSource)
      : listAsyncRules().find((one) => one.name === named)
  const extra = outcome.ok ? outcome.extra : null
  const text = (value: unknown) => (typeof value === 'string' ? value : null)
  return {
    kind: 'rule',
    rule: asking?.name ?? named ?? 'none',
    title: asking?.title ?? 'no rule',
    options: asking === undefined ? {} : optionsOf(asking, reward.kwargs),
    where: null,
    found: text(extra?.extracted),
    forms: [],
    comparison: null,
    verdict: text(extra?.reason),
    end: scorerEnd(outcome),
  }
}

async function pureStep(
  rule: Rule,
  sample: RewardSample,
  reward: ResolvedReward,
): Promise<TriedRule> {
  const { kwargs } = reward
  const input = { ...sample, kwargs }
  // Each step runs in its own turn of the event loop, because a sample that is built to be slow may take 100 ms, and
  // trainers' requests wait for the same loop.
  await nextTurn()
  const scored = scoreByRule(sample, reward)
  await nextTurn()
  const rescored = scored.ok ? attempt(() => rule.score(input)) : null
  await nextTurn()
  const explained = attempt(() => rule.explain(input))
  return {
    kind: 'rule',
    rule: rule.name,
    title: rule.title,
    options: optionsOf(rule, kwargs),
    where: explained?.where ?? null,
    found: cut(explained?.found ?? null),
    forms: (explained?.forms ?? []).map(({ step, response, groundTruth }) => ({
      step,
      response: cut(response),
      groundTruth: cut(groundTruth),
    })),
    comparison: explained?.comparison ?? null,
    verdict: rescored?.reason ?? null,
    end: scorerEnd(scored),
  }
}

function optionsOf(
  { kwargs }: Pick<Rule | AsyncRule, 'kwargs'>,
  given: Record<string, unknown>,
): Record<string, unknown> {
  const parsed = kwargs.safeParse(ownKwargs(kwargs, given))
  return parsed.success ? (parsed.data as Record<string, unknown>) : ownKwargs(kwargs, given)
}

/** Returns null if the rule throws because it cannot score the sample. The sample's outcome shows the reason. */
function attempt<T extends RuleResult | RuleExplanation>(work: () => T): T | null {
  try {
    return work()
  } catch {
    return null
  }
}

function cut(text: string | null): string | null {
  if (text === null || text.length <= MAX_FORM_CHARS) return text
  return `${text.slice(0, MAX_FORM_CHARS)}… (${text.length} characters)`
}
