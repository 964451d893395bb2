import { z } from 'zod'
import type { GroupSignalCounts } from './group-signal.ts'
import type { RunMarkDto } from './marks.ts'
import type { BatchStatus } from './trainer.ts'

/** Steps that a run's page shows, the newest. */
export const MAX_STEPS = 1_000

/** `runs.get`. */
export const RunInput = z.strictObject({
  name: z.string().min(1).max(256),
  split: z.enum(['train', 'val']).default('train'),
})
export type RunInput = z.infer<typeof RunInput>

/** A row of the Runs page. */
export interface RunRowDto {
  name: string
  /** Batches of training rollouts; those of validation and those that scored older rollouts again are counted apart. */
  batches: number
  validationBatches: number
  rescoredBatches: number
  /** The highest step of a batch that is no rescore. */
  lastStep: number
  lastSubmittedAt: string
  /** Made up by `npm run seed`. */
  seeded: boolean
}

/** A step of a run: the last batch handed over for it. Statistics leave out failed and substituted samples. */
export interface RunStepDto {
  step: number
  batchId: string
  status: BatchStatus
  /** Further batches of this step and split, sent before. */
  others: number
  samples: number
  scored: number
  failed: number
  substituted: number
  groups: number
  retries: number
  /** Samples in the statistics; null while the batch has not ended, as quantiles and times. */
  n: number | null
  mean: number | null
  std: number | null
  min: number | null
  max: number | null
  /** 5, 25, 50, 75 and 95 %. */
  quantiles: [number, number, number, number, number] | null
  groupSignals: GroupSignalCounts | null
  /** Failed samples by reason. */
  reasons: Record<string, number>
  submittedAt: string
  /** From acceptance to the last sample's end. */
  waitMs: number | null
  /** Until the next step was handed over; null for the last one. */
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

/** How the scores of each step are spread: the share of a step's samples in each row, of the steps in order. */
export interface RunHeatDto {
  /** `values`: every score there is has a row. `bins`: equal ones, put together from each step's own 128; shares are then rounded. */
  kind: 'values' | 'bins'
  /** The score of each row, or the lower edge of each bin and the upper one of the last; ascending. */
  edges: number[]
  steps: { step: number; shares: number[] }[]
}

/** Everything that a run's page shows. */
export interface RunDto {
  name: string
  seeded: boolean
  createdAt: string
  split: 'train' | 'val'
  /** Batches of each split, without rescores. */
  splits: { split: 'train' | 'val'; batches: number }[]
  /** Over all batches of this split that are no rescores, those of a step that was sent again included. */
  batches: number
  samples: number
  scored: number
  failed: number
  /** Batches of this split that scored older rollouts again, and their samples: in none of the other counts. */
  rescored: { batches: number; samples: number }
  /** Steps before the {@link MAX_STEPS} shown. */
  earlier: number
  /** Batches that have ended, whose roll-up is still on its way. */
  pending: number
  steps: RunStepDto[]
  sources: RunSourceDto[]
  heat: RunHeatDto | null
  /** Where another reward began to score, by step; what people marked is in `marks.list`. */
  marks: RunMarkDto[]
}
