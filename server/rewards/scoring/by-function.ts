import type { FunctionCallOptions } from '../functions/function-caller.ts'
import type {
  RewardContext,
  RewardOutcome,
  RewardSample,
  RewardTools,
} from '../managers/manager.ts'

export function scoreByFunction(
  sample: RewardSample,
  context: RewardContext,
): Promise<RewardOutcome> {
  const { reward, functions } = context
  if (reward.function === undefined) throw new Error('the reward names no function')
  return functions.score(reward.function, sample, {}, callOptions(context))
}

export function callOptions(context: Omit<RewardContext, keyof RewardTools>): FunctionCallOptions {
  const { reward, signal, run, key, sampleId, urgent, priority, group, deadlineMs } = context
  const { timeoutMs, maxAttempts, processes } = reward
  return {
    timeoutMs,
    signal,
    run,
    sampleId: sampleId ?? key,
    route: { urgent, priority, group, deadlineMs, maxAttempts },
    ...(processes === undefined ? {} : { processes }),
  }
}
