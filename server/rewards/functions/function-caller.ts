import type { FunctionRef, ResolvedReward } from '../../contract/resolved-reward.ts'
import type { SampleFailureReason } from '../../contract/sample-reason.ts'
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
  /** For what the function asks of the router, as of any call there. */
  route?: {
    urgent: boolean
    priority: number
    group: string | undefined
    deadlineMs: number | undefined
    maxAttempts: number
  }
  /** Processes that take one call at a time, so many (the manager `remote`); absent: shared ones, many side by side. */
  processes?: number
}

/** Of a manager class: what it wraps. */
export interface WrappedScorer {
  /** A function of the user's own is called in the manager's process. */
  function?: FunctionRef
  /** Anything else is scored here. */
  score(sample: RewardSample): Promise<RewardOutcome>
}

/** What a further method gave. */
export type MethodOutcome =
  | { ok: true; value: unknown }
  | { ok: false; reason: SampleFailureReason; detail: string }

/** Calls user code in child processes. Never rejects for what the code did. */
export interface FunctionCaller {
  /** One sample by the function; its own kwargs beside the batch's. */
  score(
    ref: FunctionRef,
    sample: RewardSample,
    kwargs: Record<string, unknown>,
    options: FunctionCallOptions,
  ): Promise<RewardOutcome>
  /** All members of a group in one call with lists; an outcome each, in their order. */
  scoreGroup(
    ref: FunctionRef,
    samples: readonly RewardSample[],
    options: FunctionCallOptions,
  ): Promise<RewardOutcome[]>
  /** One sample by a manager class of the user's own (`runSingle`). */
  runSingle(
    ref: FunctionRef,
    sample: RewardSample,
    wrapped: WrappedScorer,
    options: FunctionCallOptions,
  ): Promise<RewardOutcome>
  /**
   * Another method of the function's object, by the first of these names that it has; without names what scores, called
   * with something else than a sample (a whole group). It gets these arguments, and the call's context after them; what
   * it returns is handed over as it is. `sampleId` may name whatever it is for.
   */
  method(
    ref: FunctionRef,
    names: string[],
    args: unknown[],
    options: FunctionCallOptions,
  ): Promise<MethodOutcome>
  /** One sample by a built-in rule, in a process that can be killed. */
  scoreByRule(
    sample: RewardSample,
    reward: ResolvedReward,
    options: FunctionCallOptions,
  ): Promise<RewardOutcome>
}
