import { callOptions } from '../scoring/by-function.ts'
import { scoreSample } from '../scoring/score-sample.ts'
import type { RewardManager } from './manager.ts'

/** What a batch has in `manager` whose manager is a class of the user's own. */
export const MODULE_MANAGER = 'module'

/**
 * A manager class of the user's own (upstream: source `importlib`): its `runSingle` is called in a child process, and
 * scores by whatever else the batch names.
 */
export const moduleManager: RewardManager = {
  name: MODULE_MANAGER,
  runRule() {
    const detail = 'a manager class was asked to run where it cannot wait'
    return { ok: false, reason: 'function_error', detail, attempts: null }
  },
  async run(sample, context) {
    const { function: ref, wraps } = context.reward
    if (ref === undefined || wraps === undefined) {
      const detail = 'its manager class is not named'
      return { ok: false, reason: 'function_error', detail, attempts: null }
    }
    const wrapped = {
      ...(wraps.function === undefined ? {} : { function: wraps.function }),
      score: (inner: typeof sample) => scoreSample(inner, { ...context, reward: wraps }),
    }
    return context.functions.runSingle(ref, sample, wrapped, callOptions(context))
  },
}
