import { callOptions } from '../scoring/by-function.ts'
import { scoreSample } from '../scoring/score-sample.ts'
import type { RewardManager } from './manager.ts'

/** The `manager` of a batch whose manager is a custom class. */
export const MODULE_MANAGER = 'module'

/**
 * A custom manager class (verl: source `importlib`): its `runSingle` is called in a child process, and may call the
 * scorer that the batch names.
 */
export const moduleManager: RewardManager = {
  name: MODULE_MANAGER,
  runRule() {
    const detail = 'a manager class ran in the synchronous path'
    return { ok: false, reason: 'function_error', detail, attempts: null }
  },
  async run(sample, context) {
    const { function: ref, wraps } = context.reward
    if (ref === undefined || wraps === undefined) {
      const detail = 'the reward names no manager class'
      return { ok: false, reason: 'function_error', detail, attempts: null }
    }
    const wrapped = {
      ...(wraps.function === undefined ? {} : { function: wraps.function }),
      score: (inner: typeof sample) => scoreSample(inner, { ...context, reward: wraps }),
    }
    return context.functions.runSingle(ref, sample, wrapped, callOptions(context))
  },
}
