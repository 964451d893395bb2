import { z } from 'zod'
import type { Distribution } from './pages.ts'
import { BatchId, type BatchStatus } from './trainer.ts'

/** Samples of a batch at most that are compared one by one; larger ones are refused. */
export const MAX_COMPARED_SAMPLES = 131_072
/** Runs drawn over one another at most: as many as there are hues. */
export const MAX_COMPARED_RUNS = 8

/** `compare.pair`: two batches over the same rollouts, or over the same prompts. */
export const ComparePairInput = z
  .strictObject({ first: BatchId, second: BatchId })
  .refine(({ first, second }) => first !== second, {
    path: ['second'],
    message: 'must be another batch than first',
  })
export type ComparePairInput = z.infer<typeof ComparePairInput>

/** By what two rewards disagree about a sample: their advantages in its group, its places in the batch, or the scores as they are. */
export const DISAGREEMENT_MEASURES = ['advantage', 'rank', 'score'] as const
export type DisagreementMeasure = (typeof DISAGREEMENT_MEASURES)[number]

/** `compare.samples`: the samples of both batches, worst disagreement first. */
export const CompareSamplesInput = z.strictObject({
  first: BatchId,
  second: BatchId,
  by: z.enum(DISAGREEMENT_MEASURES).default('advantage'),
  /** Only samples with a flipped advantage sign. */
  signFlipped: z.boolean().default(false),
  /** Only samples of this group. */
  uid: z.string().max(4_096).optional(),
  cursor: z.string().max(64).nullish(),
  limit: z.int().min(1).max(200).default(50),
})
export type CompareSamplesInput = z.infer<typeof CompareSamplesInput>

/** `compare.groups`: the groups that both batches have, those first whose order differs most. */
export const CompareGroupsInput = z.strictObject({
  first: BatchId,
  second: BatchId,
  cursor: z.string().max(64).nullish(),
  limit: z.int().min(1).max(200).default(50),
})
export type CompareGroupsInput = z.infer<typeof CompareGroupsInput>

/** `compare.candidates`: what a batch can be compared with. */
export const CompareCandidatesInput = z.strictObject({
  batchId: BatchId.optional(),
  /** Without a batch: only rescores of this run. */
  run: z.string().max(256).optional(),
})
export type CompareCandidatesInput = z.infer<typeof CompareCandidatesInput>

/** `compare.runs`: up to eight runs over their steps; the others against the first. */
export const CompareRunsInput = z.strictObject({
  runs: z.array(z.string().min(1).max(256)).min(1).max(MAX_COMPARED_RUNS),
  split: z.enum(['train', 'val']).default('train'),
})
export type CompareRunsInput = z.infer<typeof CompareRunsInput>

/** A batch as a comparison shows it. */
export interface ComparedBatchDto {
  batchId: string
  run: string
  step: number
  split: 'train' | 'val'
  status: BatchStatus
  rewardName: string
  /** The source of the function that scored it; null: none of the user's own did. */
  rewardVersion: string | null
  /** What its rule or manager was told, as JSON of 200 characters at most; empty where nothing. */
  rewardOptions: string
  samples: number
  scored: number
  failed: number
  groups: number
  mean: number | null
  submittedAt: string
  rescoredFrom: string | null
}

/** Why samples are not compared. First and second are the batches. */
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

/** Why samples are not compared, in words. */
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

/** A batch's scores over the samples that are compared. */
export interface ComparedScores {
  mean: number | null
  /** With n − 1. */
  std: number | null
  min: number | null
  max: number | null
}

/** What one axis of the joint distribution is made of: each score there is, or the edges of equal bins. */
export type JointAxis =
  | { kind: 'values'; values: number[] }
  | { kind: 'bins' /** One more than bins. */; edges: number[] }

/** How many samples have which pair of scores. */
export interface JointDistribution {
  first: JointAxis
  second: JointAxis
  /** Place on the first axis, place on the second, samples; empty cells are left out. */
  cells: [first: number, second: number, samples: number][]
}

/** What is the same and what is not within groups. Over groups with at least two compared members. */
export interface ComparedGroups {
  n: number
  /** Samples of them. */
  samples: number
  /** Mean of Kendall's τ-b over the `tauGroups` where both rewards order at all. */
  tau: number | null
  tauGroups: number
  /** Pairs of members that both rewards order; of them, those ordered the other way round. */
  comparable: number
  reversed: number
  /** Pairs that the first, the second, or both hold for equal. */
  tiedFirst: number
  tiedSecond: number
  tiedBoth: number
  /** Groups of which no member is the best (or among the best) of both. */
  bestChanged: number
  /** No-signal groups with equal scores: in the first batch, the second, both. */
  noSignalFirst: number
  noSignalSecond: number
  noSignalBoth: number
  /** Samples by the sign of their advantage: [first][second], each −, 0, +. */
  signs: [number, number, number][]
  /** Samples whose advantage is positive by one and negative by the other. */
  signFlipped: number
}

/** A data source within a comparison. */
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

/** The prompts (uids) that both batches have, whatever was answered: each group's mean by the first against its mean by the second. */
export interface ComparedPrompts {
  n: number
  first: number | null
  second: number | null
  /** Mean of second − first over the prompts, and its 95 % interval (paired, 1.96 standard errors); null below two. */
  delta: number | null
  low: number | null
  high: number | null
}

/** Answer of `compare.pair`. Differences are second − first. */
export interface ComparePairDto {
  first: ComparedBatchDto
  second: ComparedBatchDto
  /** index: one is a rescore of the other's rollouts, sample by sample. response: by uid and text of the response. */
  joinedBy: 'index' | 'response'
  /** One of the two still scores: the numbers are of what both have. */
  isLive: boolean
  n: number
  unmatched: { reason: UnmatchedReason; samples: number }[]
  scores: { first: ComparedScores; second: ComparedScores }
  pearson: number | null
  /** Of ranks; equal scores share the average of theirs. */
  spearman: number | null
  /** Both give the same few scores: share of samples where they are equal, and Cohen's κ. */
  classes: { equal: number; kappa: number | null } | null
  /** Share of samples with a score of at most each value; exact at these values. */
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
  /** By GRPO, among the members of the group that are compared; null in a group with one. */
  firstAdvantage: number | null
  secondAdvantage: number | null
  /** Place in the batch from the lowest score (0) to the highest (1). */
  firstRank: number
  secondRank: number
  signFlipped: boolean
}

/** A group in both batches. */
export interface ComparedGroupDto {
  uid: string
  n: number
  tau: number | null
  comparable: number
  reversed: number
  bestChanged: boolean
  noSignalFirst: boolean
  noSignalSecond: boolean
  firstMean: number
  secondMean: number
  signFlipped: number
}

/** A page of a comparison's list, and how many there are in all. */
export interface ComparedPage<T> {
  items: T[]
  nextCursor: string | null
  total: number
}

/** Answer of `compare.candidates`. */
export interface CompareCandidatesDto {
  batch: ComparedBatchDto | null
  /** Batches of the same rollouts: what it was rescored from, and what was rescored from either. */
  sameRollouts: ComparedBatchDto[]
  /** Others of the same run and step, the newest 20. */
  sameStep: ComparedBatchDto[]
  /** Without a batch: the newest rescored batches with what they were rescored from. */
  recent: { first: ComparedBatchDto; second: ComparedBatchDto }[]
}

/** A run's steps as columns; statistics leave out failed and substituted samples. */
export interface ComparedRunDto {
  name: string
  seeded: boolean
  /** Steps before those shown. */
  earlier: number
  batchId: string[]
  step: number[]
  n: (number | null)[]
  mean: (number | null)[]
  std: (number | null)[]
  /** 5, 25, 50, 75, 95 %: five columns. */
  quantiles: (number | null)[][]
  /** Failed ÷ ended. */
  failedShare: (number | null)[]
  /** No-signal groups ÷ groups. */
  noSignalShare: (number | null)[]
  /** From acceptance to the last reward. */
  waitMs: (number | null)[]
}

/** The difference of two means at a step, other − first, and its 95 % interval. */
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

/** Answer of `compare.runs`. */
export interface CompareRunsDto {
  split: 'train' | 'val'
  runs: ComparedRunDto[]
  /** Names that no run has. */
  missing: string[]
  /** Each of the others against the first, at the steps that both have. */
  deltas: { run: string; steps: StepDelta[] }[]
  /** With two runs: the same by data source, the largest twelve. */
  sources: { name: string; steps: StepDelta[] }[]
}
