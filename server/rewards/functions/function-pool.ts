import type { RewardOutcome } from '../managers/manager.ts'
import type { FunctionCaller } from './function-caller.ts'

/** The child processes that run user code for one worker. */
export class FunctionPool implements FunctionCaller {
  /** Samples that may be held for them now. */
  get room(): number {
    return 0
  }

  async score(): Promise<RewardOutcome> {
    const detail = 'reward functions of one’s own are not part of this version'
    return { ok: false, reason: 'function_error', detail, attempts: null }
  }
}
