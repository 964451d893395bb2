import { z } from 'zod'
import type { Phases, Strategy } from './strategies.ts'
import { BatchId } from './trainer.ts'

/** Rewards of one prediction at most, all steps together: about 40 ms of a server's loop. */
export const MAX_PLANNED_REWARDS = 131_072
/** Rewards replayed for one answer at most, all strategies and limits together: some 2 s, in pieces. */
export const MAX_REPLAYED_SAMPLES = 10_000_000
/** A saving below this share of a step is none: rewards vary more than that from step to step. */
export const NO_GAIN_SHARE = 0.01

const ms = z.number().min(0).max(86_400_000)

/** How long a reward takes, typed. Times in ms. */
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
    /** Of the logarithm: 0.5 has its 99th percentile at 3.2 medians, 1 at 10. */
    sigma: z.number().min(0).max(3),
  }),
  z.strictObject({ kind: z.literal('constant'), ms }),
])
export type TypedReward = z.infer<typeof TypedReward>

/** Numbers instead of a record. */
export const TypedSource = z.strictObject({
  kind: z.literal('typed'),
  prompts: z.int().min(1).max(65_536),
  groupSize: z.int().min(1).max(1_024),
  reward: TypedReward,
  /** Share of requests that fail after their time and are retried at once, up to `maxAttempts`. */
  failedShare: z.number().min(0).max(0.95).default(0),
  maxAttempts: z.int().min(1).max(20).default(4),
  seed: z.int().min(0).max(0xffff_ffff).default(1),
})
export type TypedSource = z.infer<typeof TypedSource>

/** Where the rewards' times come from. */
export const PlannerSource = z.discriminatedUnion('kind', [
  TypedSource,
  /** Every step is as this batch was. */
  z.strictObject({ kind: z.literal('batch'), batchId: BatchId }),
  /** The run's newest completed training batches, one a step; fewer than the steps are gone through again. */
  z.strictObject({ kind: z.literal('run'), run: z.string().min(1).max(256) }),
])
export type PlannerSource = z.infer<typeof PlannerSource>

/** `planner.plan`: what arrangements of rewards and training would cost a step. */
export const PlannerInput = z.strictObject({
  source: PlannerSource,
  /** Trainer time per step, which the service cannot measure. */
  phases: z.strictObject({ rolloutMs: ms, logProbMs: ms, updateMs: ms }),
  steps: z.int().min(1).max(32).default(7),
  /** Mini-batches per step. */
  miniBatches: z.int().min(1).max(256).default(4),
  /** Requests in flight per server; null: no limit. */
  limits: z.array(z.int().min(1).max(1_000_000).nullable()).min(1).max(6).default([256, null]),
  servers: z.array(z.int().min(1).max(10_000)).min(1).max(6).default([1]),
  /** The combination to draw; left out: the first. */
  show: z.strictObject({ limit: z.int().min(1).nullable(), servers: z.int().min(1) }).optional(),
})
export type PlannerInput = z.infer<typeof PlannerInput>

/** A strategy's prediction. Times in ms a step, on average. */
export interface PlannedStrategy {
  strategy: Strategy
  /** Filling and draining the pipeline included. */
  stepMs: number
  /** Of a step in the middle. */
  steadyMs: number
  /** That the trainer does nothing but wait for rewards. */
  waitMs: number
  /** Share of the barrier's step that it saves, under the same limit; negative: it takes longer. */
  saving: number
}

/** All strategies under one limit. */
export interface PlannedColumn {
  /** Requests in flight per server; null: no limit. */
  limit: number | null
  servers: number
  /** Rewards at once in all. */
  places: number | null
  /** No arrangement can make a step shorter on average. */
  boundMs: number
  boundBy: 'compute' | 'rewards'
  strategies: PlannedStrategy[]
  /** The simplest of those within 1 % of the shortest step. */
  best: Strategy
  /** No strategy saves 1 % of the barrier's step. */
  noGain: boolean
}

/** A stretch of the trainer's time; ms from the beginning. */
export interface PlannedSpan {
  what: 'rollout' | 'log_prob' | 'update' | 'wait'
  step: number
  fromMs: number
  toMs: number
}

/** The first steps under one strategy. */
export interface PlannedPicture {
  strategy: Strategy
  spans: PlannedSpan[]
  /** Mean of rewards in flight in equal stretches of `untilMs`. */
  inFlight: number[]
}

/** What was recorded, in figures. */
export interface PlannedRewards {
  /** A step. */
  samples: number
  groups: number
  meanMs: number
  p50Ms: number
  p99Ms: number
  maxMs: number
  /** All rewards of a step one after the other, on average. */
  workMs: number
  /** Batches that it is from, the oldest first; empty when typed. */
  batches: { batchId: string; step: number }[]
  /** Samples of those batches that have not ended: left out. */
  pending: number
  /** Samples without any call (scored before, or called off): they take no time. */
  withoutCall: number
  /** Median time from one batch's acceptance to the next one's: what a step took when it was recorded. */
  recordedStepMs: number | null
}

/** Answer of `planner.plan`. */
export interface PlannerDto {
  phases: Phases
  steps: number
  miniBatches: number
  rewards: PlannedRewards
  /** Limits × servers, in the order asked for. */
  columns: PlannedColumn[]
  shown: {
    limit: number | null
    servers: number
    untilMs: number
    pictures: PlannedPicture[]
  }
}
