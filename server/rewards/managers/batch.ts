import { callOptions } from '../scoring/by-function.ts'
import { scoreByRule } from '../scoring/by-rule.ts'
import { scoreSample } from '../scoring/score-sample.ts'
import type { RewardContext, RewardManager, RewardOutcome, RewardSample } from './manager.ts'

/**
 * Upstream's `batch` manager: one call with lists for a whole group, so that its answers can be compared or judged
 * together. The worker calls `runGroup` with every member of a group; acceptance checks that there is a function.
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
  if (ref === undefined) throw new Error('its reward names no function')
  return context.functions.scoreGroup(ref, samples, callOptions(context))
}
