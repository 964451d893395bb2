import { z } from 'zod'
import { RunName, Step, storableText } from './fields.ts'

/** If both step ranges together have more samples than this, steps are resampled instead of groups. */
export const MAX_SAMPLES_BY_GROUP = 131_072

/** The key under which a breakdown combines all parts that it does not list. */
export const OTHERS = '(others)'

/** Minimum number of steps in a search for sudden changes. Fewer steps do not show how much the mean usually varies. */
export const MIN_SHIFT_STEPS = 11

const StepRange = z
  .strictObject({ from: Step, to: Step })
  .refine(({ from, to }) => from <= to, { path: ['to'], message: 'must not be below from' })

/**
 * The input of `runs.changes`: two ranges of steps. Without them, the service compares the steps before and after the
 * largest sudden change, or the newest steps if there is no such change.
 */
export const ChangesInput = z
  .strictObject({
    name: RunName,
    split: z.enum(['train', 'val']).default('train'),
    before: StepRange.optional(),
    after: StepRange.optional(),
    /** Only samples of this data source. */
    dataSource: storableText(512).optional(),
  })
  .refine(({ before, after }) => (before === undefined) === (after === undefined), {
    path: ['after'],
    message: 'and before must be given together',
  })
export type ChangesInput = z.infer<typeof ChangesInput>

/** The breakdowns: each splits the change of the mean into parts that add up to it. */
export const DIMENSIONS = ['outcome', 'dataSource', 'component', 'prompt'] as const
export type Dimension = (typeof DIMENSIONS)[number]

/** A range of steps. Only scored samples that are not substituted count. */
export interface ChangeRangeDto {
  from: number
  to: number
  steps: number
  batchIds: string[]
  groups: number
  samples: number
  mean: number | null
  /**
   * Mean response length, in tokens; null if no lengths were sent, and for more than {@link MAX_SAMPLES_BY_GROUP}
   * samples.
   */
  meanLength: number | null
  /** Pearson correlation of length and score. */
  lengthCorrelation: number | null
}

/**
 * A contribution to the change, with its 95 % confidence interval. Bounds are null for component weights, for the part
 * `(penalty, post-processing)`, and if a range has fewer than two groups or steps to resample.
 */
export interface ContributionDto {
  value: number
  low: number | null
  high: number | null
}

/**
 * A part of a breakdown, in both ranges; `mean` is null if there are no samples. The `share` of a component is its
 * weight.
 */
export interface ChangePartDto {
  /**
   * The verdict (empty if there is none), the data source or the component. For prompts, the ranges in which they occur
   * (`both`, `before` or `after`), or `none` for samples without a prompt key. `(others)` combines the less frequent
   * parts. `(penalty, post-processing)` is the change that the components of a composite reward do not explain.
   */
  key: string
  before: { n: number; share: number; mean: number | null }
  after: { n: number; share: number; mean: number | null }
  /** The contribution from the change in the part's share or, for a component, in its weight. */
  mix: ContributionDto
  /** The contribution from the change in the part's mean. */
  within: ContributionDto
  total: ContributionDto
}

/** The change of the mean, split by one dimension into parts that add up to it. The largest contribution is first. */
export interface BreakdownDto {
  dimension: Dimension
  parts: ChangePartDto[]
  /** The sum of the `mix` of all parts. */
  mix: ContributionDto
  /** The reason why there are no parts, or null if there are parts. */
  missing: string | null
}

/** A prompt that occurs in both ranges. */
export interface ChangedPromptDto {
  /** The key of the prompt, as in `prompts.list`. */
  key: string
  /** A batch in the range `after` that contains the prompt; `uid` is the prompt's group in it. */
  batchId: string
  uid: string
  before: number
  after: number
  /** The prompt's contribution to the change. */
  contribution: number
}

/** A sudden change of the mean, between two steps and the two after them. */
export interface SuddenChangeDto {
  before: { from: number; to: number }
  after: { from: number; to: number }
  /** The change in the average of the steps' mean scores. */
  change: number
}

/** The output of `runs.changes`. */
export interface ChangesDto {
  /**
   * How the ranges were chosen. `given`: by the caller. `largest`: around the largest sudden change. `latest`: the
   * latest steps, because no step stands out. `unsearched`: the latest steps, because fewer than 11 steps have a mean.
   */
  chosen: 'given' | 'largest' | 'latest' | 'unsearched'
  /** The eight largest sudden changes of the run, in the order of steps. */
  suddenChanges: SuddenChangeDto[]
  before: ChangeRangeDto
  after: ChangeRangeDto
  /** The change of the mean; null if a range has no counted sample. */
  change: ContributionDto | null
  /**
   * The resampling unit of the intervals: `group`, or `step` with more than 131,072 samples. Intervals of components
   * come from a ratio estimator, which resamples steps if there are more than 32,768 samples.
   */
  unit: 'group' | 'step'
  breakdowns: BreakdownDto[]
  /** The part that explains most of the change, or null if no part stands out. */
  standsOut: { dimension: Dimension; key: string; by: 'mix' | 'within' | 'total' } | null
  /** Samples that the mean leaves out, by failure reason or `substituted`; empty with more than 131,072 samples. */
  excluded: { reason: string; before: number; after: number }[]
  /** The prompts with the largest contributions, of those that occur in both ranges. */
  prompts: ChangedPromptDto[]
  /** True if the reward changed within a range or between the ranges. */
  rewardChanged: boolean
  /** All data sources of both ranges: the values that the input `dataSource` can have. */
  dataSources: string[]
}
