import { callOptions } from '../scoring/by-function.ts'
import { scoreByRule } from '../scoring/by-rule.ts'
import { scoreSample } from '../scoring/score-sample.ts'
import type { RewardContext, RewardManager, RewardOutcome, RewardSample } from './manager.ts'

/**
 * verl's `batch` manager: one function call with lists scores a whole group, so that its responses can be
 * compared. The worker calls `runGroup` with every member of a group. A batch without a function is refused when it
 * is submitted.
 */
export const batchManager: RewardManager = {
  name: 'batch',
  runRule: scoreByRule,
  run: async (sample, context) =>
    context.reward.function === undefined
      ? scoreSample(sample, context)
      : ((await runGroup([sample], context))[0] as RewardOutcome),
  runGroup,
}

async function runGroup(samples: RewardSample[], context: RewardContext): Promise<RewardOutcome[]> {
  const ref = context.reward.function
  if (ref === undefined) throw new Error('the reward names no function')
  return context.functions.scoreGroup(ref, samples, callOptions(context))
}
