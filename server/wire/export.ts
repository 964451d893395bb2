import { z } from 'zod'
import { BatchId, SampleId } from './trainer.ts'

/** Where samples are exported: `GET /api/export/samples?batch=b12&format=csv`. */
export const EXPORT_PATH = '/api/export/samples'

/**
 * How an export is written: our JSON Lines, CSV with JSON in its cells, or upstream's `trainer.rollout_data_dir`
 * (`input`, `output`, `gts`, `score`, `step` and the extra columns).
 */
export const ExportFormat = z.enum(['jsonl', 'csv', 'verl'])
export type ExportFormat = z.infer<typeof ExportFormat>

/** Header of the answer: rows that follow, counted when it began; more may come of a batch that is open. */
export const EXPORT_ROWS_HEADER = 'x-rewardops-rows'

const MOST_STEP = 2_147_483_647

/** One step, or a range with both ends: `7`, `0-99`. */
const StepRange = z
  .string()
  .regex(/^\d{1,10}(-\d{1,10})?$/, 'must be a step such as 7, or a range such as 0-99')
  .transform((text) => {
    const [first, last] = text.split('-').map((part) => Math.min(Number(part), MOST_STEP))
    return { first: first as number, last: last ?? (first as number) }
  })

/** What is exported, as the address says it; rows are in order of batch and index. */
export const ExportQuery = z
  .strictObject({
    batch: BatchId.optional(),
    run: z.string().min(1).max(256).optional(),
    step: StepRange.optional(),
    split: z.enum(['train', 'val']).optional(),
    format: ExportFormat.default('jsonl'),
    /** `kept`: where texts, or whole samples, were removed by retention, what is left is given; else that is refused. */
    texts: z.enum(['all', 'kept']).default('all'),
    /** Goes on after this sample: the last one that arrived whole. */
    after: SampleId.optional(),
  })
  .refine((query) => (query.batch === undefined) !== (query.run === undefined), {
    message: 'either batch or run must be given',
    path: ['batch'],
  })
export type ExportQuery = z.infer<typeof ExportQuery>
