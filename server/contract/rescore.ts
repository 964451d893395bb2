import { z } from 'zod'
import { SampleFilter } from './sample-filter.ts'
import { RescoreInput, type SubmitResult } from './trainer.ts'

/** Of a batch, samples that one call may choose; more are rescored as the whole batch. */
export const MAX_SELECTED_SAMPLES = 100_000

/** Which samples of a batch are rescored: by their index, by their group, or by a filter. */
export const RescoreSelection = z
  .strictObject({
    indexes: z.array(z.int().min(0).max(2_147_483_647)).min(1).max(10_000).optional(),
    uids: z.array(z.string().min(1).max(512)).min(1).max(1_000).optional(),
    filter: SampleFilter.omit({ batch: true, run: true, step: true, stepTo: true }).optional(),
    /** Include the other samples of the groups. A reward over whole groups always includes them. */
    wholeGroups: z.boolean().default(true),
  })
  .refine(
    ({ indexes, uids, filter }) =>
      [indexes, uids, filter].filter((one) => one !== undefined).length === 1,
    { message: 'one of indexes, uids and filter must be given', path: ['indexes'] },
  )
export type RescoreSelection = z.infer<typeof RescoreSelection>

/** `batches.rescore`, of all of a batch or of some of its samples. */
export const RescoreSomeInput = RescoreInput.extend({ select: RescoreSelection.optional() })
export type RescoreSomeInput = z.infer<typeof RescoreSomeInput>

/** What `batches.rescore` answers; of a part of a batch also how many were chosen and how many came along with their groups. */
export interface RescoreResult extends SubmitResult {
  selected?: number
  addedGroupMembers?: number
}

/** `samples.byBatch`: in which batches the samples that fit lie. */
export interface SamplesByBatchDto {
  batches: { batchId: string; samples: number; ofBatch: number }[]
  /** There are more that fit than are told. */
  hasMore: boolean
}
