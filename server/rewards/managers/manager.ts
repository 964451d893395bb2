import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import type { SampleFailureReason } from '../../contract/sample-reason.ts'
import type { AttemptRecord, RewardRouter } from '../../router/router-types.ts'
import type { FunctionCaller } from '../functions/function-caller.ts'
import type { CallLimits } from '../limits/call-limits.ts'

/** One rollout as a reward manager sees it. */
export interface RewardSample {
  dataSource: string
  prompt: string | { role: string; content: string }[]
  solutionStr: string
  groundTruth: unknown
  extraInfo: Record<string, unknown>
  /** Tokens of the response, where the trainer told. */
  responseLength?: number | null
}

/** What became of it: a score with its extra info, or a typed reason; never a score that stands for a failure. */
export type RewardOutcome = (
  | {
      ok: true
      score: number
      /** Before what a manager added to it (an overlong penalty); absent: the score itself. */
      rawScore?: number
      extra: Record<string, unknown> | null
    }
  | { ok: false; reason: SampleFailureReason; detail: string }
) & {
  /** null: no calls that are told one by one. */
  attempts: AttemptRecord[] | null
  /** Tokens that its calls used, where the answers told them all. */
  tokens?: number
  /** Waited for its turn before anything was done for it, ms; absent: as the first of its attempts says. */
  waitedMs?: number
}

/** What a process that scores has for it. */
export interface RewardTools {
  router: RewardRouter
  functions: FunctionCaller
  /** Of manager `rate_limited`. */
  limits: CallLimits
}

/** What a manager may use while it scores. */
export interface RewardContext extends RewardTools {
  reward: ResolvedReward
  signal: AbortSignal | undefined
  /** Somebody waits for this sample alone. */
  urgent: boolean
  /** Fair shares of a model are between runs. */
  run: string
  /** Samples of one group share their prompt, and a server's cache of it. */
  group: string | undefined
  /** Names the sample within its batch: what the `deterministic` policy goes by. */
  key: string
  /** As `b12-3`, where it is stored already; the one to blame for what a function does. */
  sampleId?: string
  priority: number
  /** Of its run's batches the one with the lowest number goes first. */
  order?: number
  /** What the batch's deadline leaves, ms; undefined without one. */
  deadlineMs: number | undefined
}

/**
 * Scores single samples (upstream: `RewardManagerBase.run_single`). `runRule` is the synchronous path of built-in
 * rules (`reward.kind` is `rule`), without a promise a sample; `run` takes every kind.
 */
export interface RewardManager {
  readonly name: string
  runRule(sample: RewardSample, reward: ResolvedReward): RewardOutcome
  run(sample: RewardSample, context: RewardContext): Promise<RewardOutcome>
  /** Of a manager that scores whole groups: all members in one call, an outcome each, in their order. */
  runGroup?(samples: RewardSample[], context: RewardContext): Promise<RewardOutcome[]>
}
