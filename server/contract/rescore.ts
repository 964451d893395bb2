import { z } from 'zod'
import { Int4, name } from './fields.ts'
import { SampleFilter } from './sample-filter.ts'
import { RescoreInput, type SubmitResult } from './trainer.ts'

/** Maximum number of samples that one call can select. To rescore more, rescore the whole batch. */
export const MAX_SELECTED_SAMPLES = 100_000

/** Selects samples of a batch by index, group or filter. */
export const RescoreSelection = z
  .strictObject({
    indexes: z.array(Int4).min(1).max(10_000).optional(),
    /** Uids of whole groups. */
    uids: z.array(name(512)).min(1).max(1_000).optional(),
    /** The filter of samples.list, within the batch. */
    filter: SampleFilter.omit({ batch: true, run: true, step: true, stepTo: true }).optional(),
    /** Include the other samples of the same groups. A reward that scores whole groups always includes them. */
    wholeGroups: z.boolean().default(true),
  })
  .refine(
    ({ indexes, uids, filter }) =>
      [indexes, uids, filter].filter((one) => one !== undefined).length === 1,
    { message: 'one of indexes, uids and filter must be given', path: ['indexes'] },
  )
export type RescoreSelection = z.infer<typeof RescoreSelection>

/** The input of `batches.rescore`, for a whole batch or for selected samples. */
export const RescoreSomeInput = RescoreInput.extend({
  /** Rescore only these samples; give one of `indexes`, `uids` and `filter`. */
  select: RescoreSelection.optional(),
})
export type RescoreSomeInput = z.infer<typeof RescoreSomeInput>

/** The output of `batches.rescore`. */
export interface RescoreResult extends SubmitResult {
  /** With `select`: number of selected samples. */
  selected?: number
  /** With `select`: number of samples that are also rescored because their groups have selected samples. */
  addedGroupMembers?: number
}

/** The output of `samples.byBatch`: matching samples by batch; `ofBatch` counts all samples of the batch. */
export interface SamplesByBatchDto {
  batches: { batchId: string; samples: number; ofBatch: number }[]
  /** True if more batches match. */
  hasMore: boolean
}
