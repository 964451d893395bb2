import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import type { SampleFailureReason } from '../../contract/sample-reason.ts'
import type { PartRewards } from '../../contract/trainer.ts'
import type { ChatTurn } from '../../contract/turn-text.ts'
import type { AttemptRecord, RewardRouter } from '../../router/router-types.ts'
import type { SampleTrace } from '../../trace-context.ts'
import type { FunctionCaller } from '../functions/function-caller.ts'
import type { CallLimits } from '../limits/call-limits.ts'
import type { Sandboxes } from '../sandboxes.ts'

export interface RewardSample {
  dataSource: string
  prompt: string | ChatTurn[]
  /** The response as text; for a trajectory, the text of all its messages (`responseText`). */
  solutionStr: string
  /** The messages of the response; absent or null if the response is plain text. */
  messages?: ChatTurn[] | null
  groundTruth: unknown
  extraInfo: Record<string, unknown>
  /** Number of tokens of the response, if the trainer sent it. */
  responseLength?: number | null
}

/** A class by which samples are counted and filtered, and the extracted answer. */
export interface Verdict {
  /** A class in one or two words: `equal`, `different`, `no answer`, … */
  verdict: string
  /** The answer found in the response; null if there is none. */
  extracted: string | null
}

/** A failure never has a score. */
export type RewardOutcome = (
  | {
      ok: true
      score: number
      /** The score before the manager's additions (an overlong penalty); absent if it equals the score. */
      rawScore?: number
      extra: Record<string, unknown> | null
      verdict?: Verdict
      rewards?: PartRewards
    }
  | {
      ok: false
      reason: SampleFailureReason
      detail: string
      /** For a composite reward: the outcomes of its components, in order; undefined for components not run. */
      components?: readonly (RewardOutcome | undefined)[]
    }
) & {
  /** The scorer's calls to servers; null if they are not recorded individually. */
  attempts: AttemptRecord[] | null
  /** Tokens used by the scorer's calls; absent unless every call reported them. */
  tokens?: number
  /** Time that the sample waited before its scoring began, ms; if absent, the sample waited until its first attempt. */
  waitedMs?: number
}

export interface RewardTools {
  router: RewardRouter
  functions: FunctionCaller
  limits: CallLimits
  sandboxes: Sandboxes
}

export interface RewardContext extends RewardTools {
  reward: ResolvedReward
  signal: AbortSignal | undefined
  /** Whether a caller waits for this one sample rather than for a batch. */
  urgent: boolean
  /** Name of the run; runs get fair shares of a model. */
  run: string
  /** The sample's group. Samples of a group share a prompt and so benefit from a server's prefix cache. */
  group: string | undefined
  /** Identifies the sample within its batch, for the `deterministic` policy. */
  key: string
  /** The sample's id, such as `b12-3`, if the sample is stored already; failures of functions name the id. */
  sampleId?: string
  priority: number
  /** Among batches of a run, the lowest number is scored first. */
  order?: number
  /** Remaining time of the batch's deadline, ms; undefined if it has none. */
  deadlineMs: number | undefined
  trace?: SampleTrace | undefined
}

/**
 * Scores single samples (verl: `RewardManagerBase.run_single`). `runRule` is the synchronous path of built-in
 * rules (`reward.kind` is `rule`), without a promise per sample; `run` handles every kind.
 */
export interface RewardManager {
  readonly name: string
  runRule(sample: RewardSample, reward: ResolvedReward): RewardOutcome
  run(sample: RewardSample, context: RewardContext): Promise<RewardOutcome>
  /** Scores a whole group in one call, for managers that support it; returns one outcome per member, in order. */
  runGroup?(samples: RewardSample[], context: RewardContext): Promise<RewardOutcome[]>
}
