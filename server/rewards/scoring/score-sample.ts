import type { RewardContext, RewardOutcome, RewardSample } from '../managers/manager.ts'
import { scoreByComponents } from './by-components.ts'
import { scoreByFunction } from './by-function.ts'
import { scoreByModel } from './by-model.ts'
import { scoreByRule } from './by-rule.ts'
import { scoreByService } from './by-service.ts'

/** Never rejects: an internal error fails only this sample. */
export async function scoreSample(
  sample: RewardSample,
  context: RewardContext,
): Promise<RewardOutcome> {
  try {
    return await scoreByKind(sample, context)
  } catch (error) {
    const detail = (error as Error).message
    return { ok: false, reason: 'function_error', detail, attempts: null }
  }
}

async function scoreByKind(sample: RewardSample, context: RewardContext): Promise<RewardOutcome> {
  const { reward } = context
  switch (reward.kind) {
    case 'rule':
      return scoreByRule(sample, reward)
    case 'model':
      return scoreByModel(sample, context)
    case 'service':
      return scoreByService(sample, context)
    case 'combine':
      return scoreByComponents(sample, context, scoreSample)
    case 'function':
      return scoreByFunction(sample, context)
  }
}
