import type { FunctionRef } from '../../wire/resolved-reward.ts'
import type { RewardOutcome, RewardSample } from '../managers/manager.ts'

/** How a call of user code is bounded, and for whom it is. */
export interface FunctionCallOptions {
  /** From when it is dispatched to a process, ms; over it the process is killed. */
  timeoutMs: number
  signal: AbortSignal | undefined
  /** Names the samples in logs and to the function's logger. */
  run: string
  /** The sample's id, as `b12-3`: the culprit's, where one brings its process down. */
  sampleId: string
}

/** Calls user code in child processes. Never rejects for what the code did. */
export interface FunctionCaller {
  /** One sample by the function; its own kwargs beside the batch's. */
  score(
    ref: FunctionRef,
    sample: RewardSample,
    kwargs: Record<string, unknown>,
    options: FunctionCallOptions,
  ): Promise<RewardOutcome>
}
