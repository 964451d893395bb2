import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import type { RewardOutcome, RewardSample, Verdict } from '../managers/manager.ts'
import { ruleByName, ruleForDataSource } from '../rules/registry.ts'
import { type RuleResult, RuleTimeoutError } from '../rules/rule.ts'

/** Time limit of a built-in rule for one sample, ms. Rules take a few ms per MB, in linear time. */
const RULE_DEADLINE_MS = 5_000

export function scoreByRule(sample: RewardSample, reward: ResolvedReward): RewardOutcome {
  const { rule: name } = reward
  const rule = name === undefined ? ruleForDataSource(sample.dataSource) : ruleByName(name)
  if (!rule) {
    return {
      ok: false,
      reason: 'function_error',
      detail:
        name === undefined
          ? `no rule scores dataSource "${sample.dataSource}"`
          : `there is no rule ${name}`,
      attempts: null,
    }
  }
  const startedAt = performance.now()
  try {
    const result = rule.score({
      dataSource: sample.dataSource,
      solutionStr: sample.solutionStr,
      groundTruth: sample.groundTruth,
      extraInfo: sample.extraInfo,
      kwargs: reward.kwargs,
    })
    const { score, extra } = result
    if (performance.now() - startedAt > Math.min(RULE_DEADLINE_MS, reward.timeoutMs)) {
      return {
        ok: false,
        reason: 'timeout',
        detail: `rule ${rule.name} took longer than its deadline`,
        attempts: null,
      }
    }
    if (!Number.isFinite(score)) {
      return {
        ok: false,
        reason: 'non_finite',
        detail: `rule ${rule.name} returned ${score}`,
        attempts: null,
      }
    }
    return { ok: true, score, extra, verdict: verdictOf(result), attempts: null }
  } catch (error) {
    return {
      ok: false,
      reason: error instanceof RuleTimeoutError ? 'timeout' : 'function_error',
      detail: (error as Error).message,
      attempts: null,
    }
  }
}

export function verdictOf({ reason, verdict = reason, extracted }: RuleResult): Verdict {
  return { verdict, extracted }
}
