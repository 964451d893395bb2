import { z } from 'zod'
import { Cursor, RunName, Step, storableText } from './fields.ts'
import type { Distribution } from './pages.ts'
import { BatchId, type BatchStatus } from './trainer.ts'

/** Maximum number of samples of a batch that is compared sample by sample; larger batches are refused. */
export const MAX_COMPARED_SAMPLES = 131_072
/** Maximum number of runs per comparison: one for each of the eight hues of the charts. */
export const MAX_COMPARED_RUNS = 8

/** The input of `compare.pair`: two batches with the same rollouts, or the same prompts. */
export const ComparePairInput = z
  .strictObject({ first: BatchId, second: BatchId })
  .refine(({ first, second }) => first !== second, {
    path: ['second'],
    message: 'must be a batch other than first',
  })
export type ComparePairInput = z.infer<typeof ComparePairInput>

/** Measures of disagreement: the difference of advantages, of ranks in the batch, or of scores. */
export const DISAGREEMENT_MEASURES = ['advantage', 'rank', 'score'] as const
export type DisagreementMeasure = (typeof DISAGREEMENT_MEASURES)[number]

/** A cell of the joint distribution: its indexes on the first and the second axis, from 0. */
const JointCellIndex = z.tuple([z.int().min(0).max(31), z.int().min(0).max(31)])
export type JointCellIndex = z.infer<typeof JointCellIndex>

/** The input of `compare.samples`, which lists the strongest disagreement first. */
export const CompareSamplesInput = z.strictObject({
  first: BatchId,
  second: BatchId,
  /** The measure of disagreement. */
  by: z.enum(DISAGREEMENT_MEASURES).default('advantage'),
  /** Only samples with a flipped advantage sign. */
  signFlipped: z.boolean().default(false),
  /** Only samples of this group. */
  uid: storableText(4_096).optional(),
  /** Only samples of a cell of the joint distribution, given by its indexes on the first and the second axis. */
  cell: JointCellIndex.optional(),
  cursor: Cursor.nullish(),
  limit: z.int().min(1).max(200).default(50),
})
export type CompareSamplesInput = z.infer<typeof CompareSamplesInput>

/** The input of `compare.groups`, which lists the lowest Kendall τ first. */
export const CompareGroupsInput = z.strictObject({
  first: BatchId,
  second: BatchId,
  cursor: Cursor.nullish(),
  limit: z.int().min(1).max(200).default(50),
})
export type CompareGroupsInput = z.infer<typeof CompareGroupsInput>

/** The input of `compare.candidates`, which lists the batches that a batch can be compared with. */
export const CompareCandidatesInput = z.strictObject({
  batchId: BatchId.optional(),
  /** Without `batchId`: only rescores of this run. */
  run: storableText(256).optional(),
})
export type CompareCandidatesInput = z.infer<typeof CompareCandidatesInput>

/** The input of `compare.runs`: up to eight runs. */
export const CompareRunsInput = z.strictObject({
  /** Names of runs. All other runs are compared with the first run. */
  runs: z.array(RunName).min(1).max(MAX_COMPARED_RUNS),
  split: z.enum(['train', 'val']).default('train'),
  /** The first step. Default: the oldest step. */
  from: Step.optional(),
  /** The last step. Default: the newest step. */
  until: Step.optional(),
})
export type CompareRunsInput = z.infer<typeof CompareRunsInput>

/** A batch of a comparison, with the reward that scored it. */
export interface ComparedBatchDto {
  batchId: string
  run: string
  step: number
  split: 'train' | 'val'
  status: BatchStatus
  rewardName: string
  /** For custom functions: the version; otherwise null. */
  rewardVersion: string | null
  /** The options of the rule or manager, as JSON of at most 200 characters. Empty if there are none. */
  rewardOptions: string
  samples: number
  scored: number
  failed: number
  groups: number
  mean: number | null
  submittedAt: string
  rescoredFrom: string | null
}

/** Reasons why samples are not compared. `first` and `second` are the batches. */
export const UNMATCHED_REASONS = [
  'failed_first',
  'failed_second',
  'failed_both',
  'substituted',
  'pending',
  'other_response',
  'only_first',
  'only_second',
] as const
export type UnmatchedReason = (typeof UNMATCHED_REASONS)[number]

/** The meaning of each reason, as the Compare page shows it. */
export const UNMATCHED_TEXT: Record<UnmatchedReason, string> = {
  failed_first: 'Failed in the first, scored in the second.',
  failed_second: 'Scored in the first, failed in the second.',
  failed_both: 'Failed in both.',
  substituted: 'A failure policy substituted or dropped the score.',
  pending: 'Not scored yet.',
  other_response:
    'The group is in both batches, but no sample of the other batch has the same response.',
  only_first: 'The group is only in the first batch.',
  only_second: 'The group is only in the second batch.',
}

/** Scores of a batch over the compared samples. */
export interface ComparedScores {
  mean: number | null
  /** The standard deviation (n − 1). */
  std: number | null
  min: number | null
  max: number | null
}

/**
 * An axis of the joint distribution: every distinct score, or the edges of bins of equal width (one more edge than
 * bins).
 */
export type JointAxis = { kind: 'values'; values: number[] } | { kind: 'bins'; edges: number[] }

/** The number of samples with each pair of scores. */
export interface JointDistribution {
  first: JointAxis
  second: JointAxis
  /** Index on the first axis, index on the second, samples. Empty cells are left out. */
  cells: [first: number, second: number, samples: number][]
}

/** Agreement within the groups that have at least two compared samples. */
export interface ComparedGroups {
  /** Groups with at least two compared samples. */
  n: number
  /** Compared samples in the `n` groups. */
  samples: number
  /** Mean Kendall τ-b over the `tauGroups` groups that have different scores in each of the two batches. */
  tau: number | null
  tauGroups: number
  /** Pairs of samples whose scores differ in both batches. */
  comparable: number
  /** Discordant pairs among the comparable pairs. */
  reversed: number
  /** Pairs with equal scores in the first batch. */
  tiedFirst: number
  tiedSecond: number
  tiedBoth: number
  /** Groups without a sample that is best, or tied for best, in both batches. */
  bestChanged: number
  /** Groups whose scores are all equal in the first batch. */
  noSignalFirst: number
  noSignalSecond: number
  noSignalBoth: number
  /** Samples by the signs of their two advantages: `signs[first][second]`, where index 0 is −, 1 is 0 and 2 is +. */
  signs: [number, number, number][]
  /** Samples whose advantage is positive in one batch and negative in the other. */
  signFlipped: number
}

/** A data source of a comparison, with its mean score in each batch. */
export interface ComparedSource {
  name: string
  n: number
  first: number | null
  second: number | null
  tau: number | null
  tauGroups: number
  comparable: number
  reversed: number
}

/** Prompts (uids) of both batches, compared by the mean scores of their groups. */
export interface ComparedPrompts {
  n: number
  first: number | null
  second: number | null
  /**
   * Mean of second − first over the prompts. `low` and `high` bound its 95 % confidence interval (paired, 1.96 standard
   * errors). Null for fewer than two prompts.
   */
  delta: number | null
  low: number | null
  high: number | null
}

/** The output of `compare.pair`. Differences are second − first. */
export interface ComparePairDto {
  first: ComparedBatchDto
  second: ComparedBatchDto
  /** `index`: the batches have the same rollouts. `response`: samples are matched by uid and response. */
  joinedBy: 'index' | 'response'
  /** True if a batch is still being scored. The figures cover the samples that are scored in both batches. */
  isLive: boolean
  n: number
  unmatched: { reason: UnmatchedReason; samples: number }[]
  scores: { first: ComparedScores; second: ComparedScores }
  pearson: number | null
  /** Spearman's rank correlation; equal scores share their average rank. */
  spearman: number | null
  /**
   * The share of samples with equal scores, and Cohen's κ. Null unless both batches have few distinct scores and share
   * at least one of them.
   */
  classes: { equal: number; kappa: number | null } | null
  /** The cumulative distributions: the exact share of samples with a score of at most each value. */
  cdf: { values: number[]; first: number[]; second: number[] }
  joint: JointDistribution | null
  delta: { score: ComparedScores & { distribution: Distribution } }
  groups: ComparedGroups
  sources: ComparedSource[]
  prompts: ComparedPrompts
}

/** A sample in both batches. */
export interface ComparedSampleDto {
  firstId: string
  secondId: string
  uid: string
  dataSource: string
  first: number
  second: number
  /** GRPO's advantage among the compared samples of the group; null for a single sample. */
  firstAdvantage: number | null
  secondAdvantage: number | null
  /** Rank in the batch, from 0 (lowest score) to 1 (highest). */
  firstRank: number
  secondRank: number
  signFlipped: boolean
}

/** A group in both batches, with the figures of its compared samples. */
export interface ComparedGroupDto {
  uid: string
  /** Samples that both rewards scored. */
  n: number
  /** Kendall τ-b, or null if all scores of the group are equal in one of the batches. */
  tau: number | null
  /** Pairs of samples whose scores differ in both batches. */
  comparable: number
  /** Discordant pairs among the comparable pairs. */
  reversed: number
  /** True if no sample is best, or tied for best, in both batches. */
  bestChanged: boolean
  /** True if all scores of the group are equal in the first batch. */
  noSignalFirst: boolean
  noSignalSecond: boolean
  firstMean: number
  secondMean: number
  /** Samples whose advantage is positive in one batch and negative in the other. */
  signFlipped: number
}

/** A page of a comparison, with the number of items on all pages. */
export interface ComparedPage<T> {
  items: T[]
  nextCursor: string | null
  total: number
}

/** Maximum number of suggested batches or pairs, newest first. */
export const MAX_SUGGESTED = 20

/** The output of `compare.candidates`. */
export interface CompareCandidatesDto {
  batch: ComparedBatchDto | null
  /** Batches with the same rollouts: the source of the batch, and the rescores of the batch and of its source. */
  sameRollouts: ComparedBatchDto[]
  /** Other batches of the run and step, the newest 20. */
  sameStep: ComparedBatchDto[]
  /** Without `batchId`: the newest 20 rescored batches with their sources. */
  recent: { first: ComparedBatchDto; second: ComparedBatchDto }[]
}

/**
 * The steps, or bins of steps, of a run as columns. Statistics leave out failed and substituted samples. In bins, means
 * and quantiles are weighted by samples, and waits are medians.
 */
export interface ComparedRunDto {
  name: string
  seeded: boolean
  /** The reward of the last batch, and a hash that changes whenever the reward changes. Null if there is no batch. */
  reward: { name: string; version: string } | null
  /** The batch; for a bin, the batch of the last step. */
  batchId: string[]
  /** The step; for a bin, the first step. */
  step: number[]
  n: (number | null)[]
  mean: (number | null)[]
  std: (number | null)[]
  /** For a bin: the lowest and the highest mean score of its steps; null for a single step. */
  means: ([number, number] | null)[]
  /** Five columns: the 5th, 25th, 50th, 75th and 95th percentiles of the scores. */
  quantiles: (number | null)[][]
  /** Failed samples ÷ (scored + failed samples). */
  failedShare: (number | null)[]
  /** No-signal groups ÷ groups. */
  noSignalShare: (number | null)[]
  /** The reward wait: from the acceptance of the batch to its last reward. */
  waitMs: (number | null)[]
}

/** The difference of two mean scores at a step, other − first, with its 95 % confidence interval. */
export interface StepDelta {
  step: number
  delta: number
  low: number
  high: number
  nFirst: number
  nOther: number
  firstBatch: string
  otherBatch: string
}

/** The output of `compare.runs`. */
export interface CompareRunsDto {
  split: 'train' | 'val'
  /** Steps per point. If a run has over 1,000 steps, the points are bins that cover the same steps in all runs. */
  width: number
  runs: ComparedRunDto[]
  /** Requested names of runs that do not exist. */
  missing: string[]
  /** Each other run compared with the first, at the steps that both runs have. */
  deltas: { run: string; steps: StepDelta[] }[]
  /** With two runs: the differences by data source, for the twelve largest data sources. */
  sources: { name: string; steps: StepDelta[] }[]
}
