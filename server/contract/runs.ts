import { z } from 'zod'
import { RunName, stepRange } from './fields.ts'
import type { GroupSignalCounts } from './group-signal.ts'
import type { RunMarkDto } from './marks.ts'
import type { RunChangeDto } from './run-table.ts'
import type { BatchStatus } from './trainer.ts'

/** Maximum number of steps for figures that cannot be merged into bins. Older steps are left out. */
export const MAX_STEPS = 2_000
/** Maximum number of points of a chart over steps, about one per pixel. More steps are sent as bins. */
export const MAX_POINTS = 1_000
/** Number of newest steps that `runs.get` sends in `recent`, never merged into bins. */
export const RECENT_STEPS = 25
/** Maximum number of runs that `runs.list` returns. Older runs are left out. */
export const MAX_LISTED_RUNS = 1_000

/** The input of `runs.get`. */
export const RunInput = z.strictObject({
  name: RunName,
  split: z.enum(['train', 'val']).default('train'),
  ...stepRange,
})
export type RunInput = z.infer<typeof RunInput>

/** A run of `runs.list`. */
export interface RunRowDto {
  name: string
  /** Training batches. Validation and rescored batches are counted separately. */
  batches: number
  validationBatches: number
  rescoredBatches: number
  /** The highest step, without rescored batches. */
  lastStep: number
  lastSubmittedAt: string
  /** Created by `npm run seed`. */
  seeded: boolean
}

/** Consecutive steps that are merged into one point. */
export interface StepBinDto {
  /** The last step of the bin; `step` is the first. */
  last: number
  /** The number of steps with a batch. */
  steps: number
  /** The lowest and the highest mean score of the bin's steps. */
  means: [number, number] | null
  /** The shortest and the longest reward wait of the bin's steps. */
  waitsMs: [number, number] | null
  /** The lowest and the highest share of failed samples of the bin's steps. */
  failedShares: [number, number] | null
}

/**
 * A step of a run, with the figures of its last batch, or a bin of several steps. Statistics leave out failed and
 * substituted samples. In a bin, counts are sums and times are medians over the steps. `mean` and `quantiles` are means
 * over the steps, weighted by samples. `std` and `meanError` are those of all samples of the bin together.
 */
export interface RunStepDto {
  step: number
  /** Null for a single step. */
  bin: StepBinDto | null
  /** The batch; for a bin, the batch of the last step. */
  batchId: string
  status: BatchStatus
  /** Number of earlier batches of this step and split. */
  others: number
  samples: number
  scored: number
  failed: number
  /** Samples whose score a failure policy set or removed. */
  substituted: number
  groups: number
  retries: number
  /** Samples in the statistics. Null until the batch has ended, like quantiles and times. */
  n: number | null
  mean: number | null
  std: number | null
  min: number | null
  max: number | null
  /** The 5th, 25th, 50th, 75th and 95th percentiles of the scores. */
  quantiles: [number, number, number, number, number] | null
  groupSignals: GroupSignalCounts | null
  /** Failed samples by reason. */
  reasons: Record<string, number>
  /** Samples in the statistics by verdict, the most frequent first; `verdict` is null for scorers that give none. */
  verdicts: { verdict: string | null; n: number }[]
  /** The standard error of the mean over groups; null with fewer than two groups. */
  meanError: number | null
  submittedAt: string
  /** The reward wait: from the acceptance of the batch until its last sample was scored or failed. */
  waitMs: number | null
  /** Time until the next step was submitted; null for the last step. */
  stepMs: number | null
  queueMsP50: number | null
  scoreMsP50: number | null
  scoreMsP95: number | null
}

/** The mean reward of one data source over the steps. */
export interface RunSourceDto {
  name: string
  /** Samples over all steps shown. */
  samples: number
  points: {
    step: number
    n: number
    mean: number
    q25: number
    q75: number
    failed: number
  }[]
}

/** The distribution of scores by step. */
export interface RunHeatDto {
  /**
   * `values`: one row per score. `bins`: one row per bin of equal width, computed from 128 bins per step, so shares are
   * approximate.
   */
  kind: 'values' | 'bins'
  /** The score of each row (`values`) or the bounds of the bins (`bins`), ascending. */
  edges: number[]
  /** `shares`: the share of the step's samples in each row. */
  steps: { step: number; shares: number[] }[]
}

/** The output of `runs.get`. */
export interface RunDto {
  name: string
  seeded: boolean
  createdAt: string
  /** Time at which the first batch of this split was submitted. Rescores do not count. Null if there is no batch. */
  startedAt: string | null
  split: 'train' | 'val'
  /** Batches of each split, without rescores. */
  splits: { split: 'train' | 'val'; batches: number }[]
  /** All batches of this split, without rescores. */
  batches: number
  samples: number
  scored: number
  failed: number
  /** Rescored batches of this split, which the other counts leave out. */
  rescored: { batches: number; samples: number }
  /** Steps before `from`, which are left out. */
  earlier: number
  /** Steps after `until`, which are left out. */
  later: number
  /**
   * The trend of the mean over the newest steps of this split, as in `runs.table`. Null for fewer than three steps, and
   * for the validation split of a run with training batches.
   */
  change: RunChangeDto | null
  /** Number of ended batches that `steps` does not include yet. */
  pending: number
  /** The steps in the range; more than 1,000 are sent as bins of equal width. */
  steps: RunStepDto[]
  /** The newest 25 steps in the range, never in bins. */
  recent: RunStepDto[]
  sources: RunSourceDto[]
  heat: RunHeatDto | null
  /**
   * Automatic marks: the reward changed, a server was registered or removed, a batch was rescored. `marks.list` has the
   * manual marks.
   */
  marks: RunMarkDto[]
}
