import type { FunctionRef, ResolvedReward } from '../../contract/resolved-reward.ts'
import type { SampleFailureReason } from '../../contract/sample-reason.ts'
import type { RewardOutcome, RewardSample } from '../managers/manager.ts'

export interface FunctionCallOptions {
  /**
   * Time limit, ms, from the call's start in a process. If the call blocks its process for longer, the process is
   * killed; otherwise only the call fails.
   */
  timeoutMs: number
  signal: AbortSignal | undefined
  run: string
  /** The sample's id, such as `b12-3`; errors name the sample if its call ends the process. */
  sampleId: string
  /** Options of the function's own calls to the router. */
  route?: {
    urgent: boolean
    priority: number
    group: string | undefined
    deadlineMs: number | undefined
    maxAttempts: number
  }
  /**
   * Number of processes that take one call at a time (the manager `remote`). If absent, the call runs in a shared
   * process with concurrent calls.
   */
  processes?: number
}

export interface WrappedScorer {
  /** The wrapped custom function, called in the manager's process; absent for other scorers. */
  function?: FunctionRef
  /** Scores in the worker, for a scorer that is not a custom function. */
  score(sample: RewardSample): Promise<RewardOutcome>
}

export type MethodOutcome =
  | { ok: true; value: unknown }
  | { ok: false; reason: SampleFailureReason; detail: string }

/** Calls user code in child processes. Never rejects because of user code. */
export interface FunctionCaller {
  /** Scores one sample by the function. The function's own kwargs override `kwargs`. */
  score(
    ref: FunctionRef,
    sample: RewardSample,
    kwargs: Record<string, unknown>,
    options: FunctionCallOptions,
  ): Promise<RewardOutcome>
  /** Scores all members of a group in one call with lists; returns one outcome per member, in order. */
  scoreGroup(
    ref: FunctionRef,
    samples: readonly RewardSample[],
    options: FunctionCallOptions,
  ): Promise<RewardOutcome[]>
  runSingle(
    ref: FunctionRef,
    sample: RewardSample,
    wrapped: WrappedScorer,
    options: FunctionCallOptions,
  ): Promise<RewardOutcome>
  /**
   * Calls another method of the function's object: the first existing one of `names`, or the scoring method if `names`
   * is empty. It receives `args` and the call's context; its value is returned unchanged. The `sampleId` of the options
   * may be any name for the logs.
   */
  method(
    ref: FunctionRef,
    names: string[],
    args: unknown[],
    options: FunctionCallOptions,
  ): Promise<MethodOutcome>
  scoreByRule(
    sample: RewardSample,
    reward: ResolvedReward,
    options: FunctionCallOptions,
  ): Promise<RewardOutcome>
}
