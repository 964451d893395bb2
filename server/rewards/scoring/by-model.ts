import type { RouteRequest } from '../../router/router-types.ts'
import { FINDING_KEY, readFinding } from '../functions/read-result.ts'
import { judgeSample, rewardOutcomeOf } from '../judge/judge-sample.ts'
import type { JudgeTemplate } from '../judge/judge-template.ts'
import type { RewardContext, RewardOutcome, RewardSample } from '../managers/manager.ts'
import { tokenRewards } from './token-rewards.ts'

export async function scoreByModel(
  sample: RewardSample,
  context: RewardContext,
): Promise<RewardOutcome> {
  const { reward, router, signal, deadlineMs, group, order, trace } = context
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
    ...(order === undefined ? {} : { order }),
    ...(signal ? { signal } : {}),
    ...(trace ? { trace } : {}),
    ...(deadlineMs === undefined ? {} : { deadlineMs }),
  }
  if (reward.judge !== undefined) {
    const template = reward.judge as unknown as JudgeTemplate
    return rewardOutcomeOf(await judgeSample(router, { ...route, template, sample }))
  }
  const input = {
    ...{ prompt, response: solutionStr, dataSource, groundTruth, extraInfo },
    ...(sample.messages ? { messages: sample.messages } : {}),
  }
  const needsTokenOffsets = reward.tokenScores === true
  const result = await router.score({
    ...route,
    input,
    ...(needsTokenOffsets && { needsTokenOffsets }),
  })
  const { attempts } = result
  if (!result.ok) return { ok: false, reason: result.reason, detail: result.detail, attempts }
  // Custom scorers (`http`) may give a verdict and turn and span rewards, as functions do.
  const { [FINDING_KEY]: given, ...extra } = result.extra ?? {}
  const read = readFinding(given)
  if (!read.ok) return { ok: false, reason: 'function_error', detail: read.problem, attempts }
  const { finding } = read
  return {
    ok: true,
    score: result.score,
    extra: result.extra === undefined || Object.keys(extra).length === 0 ? null : extra,
    ...finding,
    ...(needsTokenOffsets && {
      rewards: { turns: [], spans: [], tokens: tokenRewards(result, sample), ...finding.rewards },
    }),
    attempts,
    ...(result.promptTokens === null ? {} : { tokens: result.promptTokens }),
  }
}
