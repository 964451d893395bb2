import type { RouteRequest } from '../../router/router-types.ts'
import { judgeSample, rewardOutcomeOf } from '../judge/judge-sample.ts'
import type { JudgeTemplate } from '../judge/judge-template.ts'
import { ruleByName, ruleForDataSource } from '../rules/registry.ts'
import { RuleTimeoutError } from '../rules/rule.ts'
import type { RewardManager, RewardOutcome } from './manager.ts'

/** Milliseconds a built-in rule may take for one sample; they are linear, 1 MB takes a few. */
const RULE_DEADLINE_MS = 5_000

/** Upstream's `naive` manager: each sample by the rule its data source selects, or by the reward model. */
export const naiveManager: RewardManager = {
  name: 'naive',

  runRule(sample, reward): RewardOutcome {
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
      const { score, extra } = rule.score({
        dataSource: sample.dataSource,
        solutionStr: sample.solutionStr,
        groundTruth: sample.groundTruth,
        extraInfo: sample.extraInfo,
        kwargs: reward.kwargs,
      })
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
          detail: `rule ${rule.name} gave ${score}`,
          attempts: null,
        }
      }
      return { ok: true, score, extra, attempts: null }
    } catch (error) {
      return {
        ok: false,
        reason: error instanceof RuleTimeoutError ? 'timeout' : 'function_error',
        detail: (error as Error).message,
        attempts: null,
      }
    }
  },

  async runModel(sample, context): Promise<RewardOutcome> {
    const { reward, router, signal, deadlineMs, group } = context
    const { prompt, solutionStr, dataSource, groundTruth, extraInfo } = sample
    const route: RouteRequest = {
      model: reward.model as string,
      timeoutMs: reward.timeoutMs,
      maxAttempts: reward.maxAttempts,
      urgent: context.urgent,
      priority: context.priority,
      run: context.run,
      key: context.key,
      ...(group === undefined ? {} : { group }),
      ...(signal ? { signal } : {}),
      ...(deadlineMs === undefined ? {} : { deadlineMs }),
    }
    if (reward.judge !== undefined) {
      const template = reward.judge as unknown as JudgeTemplate
      return rewardOutcomeOf(await judgeSample(router, { ...route, template, sample }))
    }
    const input = { prompt, response: solutionStr, dataSource, groundTruth, extraInfo }
    const result = await router.score({ ...route, input })
    return result.ok
      ? {
          ok: true,
          score: result.score,
          extra: result.extra ?? null,
          attempts: result.attempts,
        }
      : { ok: false, reason: result.reason, detail: result.detail, attempts: result.attempts }
  },
}
