import { z } from 'zod'
import { RunName } from './fields.ts'
import type { Phases, Strategy } from './strategies.ts'
import { BatchId } from './trainer.ts'

/** Maximum number of rewards per prediction, over all steps. Replaying them blocks the event loop for about 40 ms. */
export const MAX_PLANNED_REWARDS = 131_072
/**
 * Maximum number of rewards replayed per call, over all strategies and limits. The replay takes about 2 s, in slices
 * between which other calls run.
 */
export const MAX_REPLAYED_SAMPLES = 10_000_000
/** Savings below this share of the step time count as none, because reward times vary more than that between steps. */
export const NO_GAIN_SHARE = 0.01

const ms = z.number().min(0).max(86_400_000)

/** The distribution of the time that one reward takes. */
export const TypedReward = z.discriminatedUnion('kind', [
  z
    .strictObject({ kind: z.literal('uniform'), fromMs: ms, toMs: ms })
    .refine(({ fromMs, toMs }) => fromMs <= toMs, {
      path: ['toMs'],
      message: 'must not be below fromMs',
    }),
  z.strictObject({
    kind: z.literal('lognormal'),
    medianMs: ms,
    /**
     * Standard deviation of the time's logarithm. With 0.5, the 99th percentile is 3.2 times the median; with 1, 10
     * times.
     */
    sigma: z.number().min(0).max(3),
  }),
  z.strictObject({ kind: z.literal('constant'), ms }),
])
export type TypedReward = z.infer<typeof TypedReward>

/** Entered numbers instead of recorded batches. */
export const TypedSource = z.strictObject({
  kind: z.literal('typed'),
  prompts: z.int().min(1).max(65_536),
  /** Samples per prompt. */
  groupSize: z.int().min(1).max(1_024),
  reward: TypedReward,
  /**
   * Share of requests that fail. A failed request takes its full time and is retried immediately, up to `maxAttempts`.
   */
  failedShare: z.number().min(0).max(0.95).default(0),
  maxAttempts: z.int().min(1).max(20).default(4),
  /** The seed of the random numbers. */
  seed: z.int().min(0).max(0xffff_ffff).default(1),
})
export type TypedSource = z.infer<typeof TypedSource>

/** The source of the reward times. */
export const PlannerSource = z.discriminatedUnion('kind', [
  TypedSource,
  /** Every step repeats this batch. */
  z.strictObject({ kind: z.literal('batch'), batchId: BatchId }),
  /** The newest completed training batches of the run, one per step; repeated if the plan has more steps. */
  z.strictObject({ kind: z.literal('run'), run: RunName }),
])
export type PlannerSource = z.infer<typeof PlannerSource>

/** The input of `planner.plan`, which predicts step times for several strategies. */
export const PlannerInput = z.strictObject({
  /** The source of the reward times: entered numbers, a batch or a run. */
  source: PlannerSource,
  /**
   * Trainer times per step. The recorded trainer time is the recorded step time minus the recorded reward wait. The
   * part of the trainer time that the given times do not cover is split over the omitted times, in the ratio
   * 40 : 43 : 120. If no trainer time is recorded, omitted times are 40, 43 and 120 s.
   */
  phases: z.strictObject({
    rolloutMs: ms.optional(),
    logProbMs: ms.optional(),
    updateMs: ms.optional(),
  }),
  steps: z.int().min(1).max(32).default(7),
  /** Mini-batches per step. */
  miniBatches: z.int().min(1).max(256).default(4),
  /**
   * Limits to predict for, in requests in flight per server. Null means no limit. Default: two limits, the recorded
   * concurrency (256 for entered numbers) and no limit.
   */
  limits: z.array(z.int().min(1).max(1_000_000).nullable()).min(1).max(6).optional(),
  /** Server counts to predict for. */
  servers: z.array(z.int().min(1).max(10_000)).min(1).max(6).default([1]),
  /**
   * The combination of limit and servers to show. If it is omitted, or if `limits` or `servers` does not contain it,
   * the first combination is shown.
   */
  show: z.strictObject({ limit: z.int().min(1).nullable(), servers: z.int().min(1) }).optional(),
})
export type PlannerInput = z.infer<typeof PlannerInput>

/** The prediction for one of the strategies in docs/planner.md. Times are means per step. */
export interface PlannedStrategy {
  strategy: Strategy
  /** The step time, including filling and draining the pipeline. */
  stepMs: number
  /** The step time while the pipeline is full. */
  steadyMs: number
  /** Time in which the trainer only waits for rewards. */
  waitMs: number
  /**
   * The share of the step time of `barrier` that the strategy saves under the same limit. Negative if the strategy is
   * slower.
   */
  saving: number
}

/** All strategies under one limit and one number of servers. */
export interface PlannedColumn {
  /** Requests in flight per server. Null means no limit. */
  limit: number | null
  servers: number
  /** Slots over all servers. Null means no limit. */
  slots: number | null
  /** The lower bound of the mean step time, for any strategy. */
  boundMs: number
  boundBy: 'trainer' | 'rewards'
  strategies: PlannedStrategy[]
  /**
   * The simplest strategy whose step time exceeds the shortest step time by less than 1 % of the step time of
   * `barrier`.
   */
  best: Strategy
  /** True if no strategy saves 1 % or more of the step time of `barrier`. */
  noGain: boolean
}

/** A period of the trainer's time, in ms from the start of the first step. */
export interface PlannedSpan {
  what: 'rollout' | 'log_prob' | 'update' | 'wait'
  step: number
  fromMs: number
  toMs: number
}

/** The chart of the first steps under one strategy. */
export interface PlannedPicture {
  strategy: Strategy
  spans: PlannedSpan[]
  /** Mean number of rewards in flight in each of several equal intervals up to `untilMs`. */
  inFlight: number[]
}

/** Figures of the reward times. */
export interface PlannedRewards {
  /** Samples per step. */
  samples: number
  groups: number
  meanMs: number
  p50Ms: number
  p99Ms: number
  maxMs: number
  /** The sum of a step's reward times, on average. */
  workMs: number
  /** The recorded batches, oldest first; empty for entered numbers. */
  batches: { batchId: string; step: number }[]
  /** Samples of the recorded batches that are left out because they have not been scored or failed yet. */
  pending: number
  /** Samples without a request, because they came with a score or were cancelled. They take no time. */
  withoutCall: number
  /** The most rewards that a recorded batch had in flight at the same time; null for entered numbers. */
  recordedConcurrency: number | null
  /**
   * Recorded step time: the median time between the acceptance of two successive batches. If the source is a batch, the
   * newest batches of its run are used.
   */
  recordedStepMs: number | null
  /** Recorded reward wait: median time from the acceptance of a batch until its last sample was scored or failed. */
  recordedWaitMs: number | null
}

/** The output of `planner.plan`. */
export interface PlannerDto {
  phases: Phases
  /** The source of the omitted trainer times, or `input` if none was omitted. */
  phasesFrom: 'input' | 'record' | 'assumption'
  /** The source of the limits, or `input` if they were given. */
  limitsFrom: 'input' | 'record' | 'assumption'
  steps: number
  miniBatches: number
  rewards: PlannedRewards
  /** One column per limit and number of servers, in the order of the input. */
  columns: PlannedColumn[]
  shown: {
    limit: number | null
    servers: number
    untilMs: number
    pictures: PlannedPicture[]
  }
}
