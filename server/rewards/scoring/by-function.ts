import type { FunctionCallOptions } from '../functions/function-caller.ts'
import type {
  RewardContext,
  RewardOutcome,
  RewardSample,
  RewardTools,
} from '../managers/manager.ts'

/** Calls a custom reward function in a child process. */
export function scoreByFunction(
  sample: RewardSample,
  context: RewardContext,
): Promise<RewardOutcome> {
  const { reward, functions } = context
  if (reward.function === undefined) throw new Error('the reward names no function')
  return functions.score(reward.function, sample, {}, callOptions(context))
}

/** Derives the limits and context of a call of user code from the manager's context. */
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
