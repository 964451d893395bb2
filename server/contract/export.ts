import { z } from 'zod'
import { RESULT_COLUMNS, ROLLOUT_COLUMNS } from './csv-cells.ts'
import { SAMPLE_FILTER_NAMES, SAMPLE_FILTER_TEXT, type SampleFilter } from './sample-filter.ts'
import { SampleId } from './trainer.ts'

/** Where samples are exported: `GET /api/export/samples?batch=b12&format=csv`. */
export const EXPORT_PATH = '/api/export/samples'

/**
 * How an export is written: our JSON Lines, CSV with JSON in its cells, or upstream's `trainer.rollout_data_dir`
 * (`input`, `output`, `gts`, `score`, `step` and the extra columns).
 */
export const ExportFormat = z.enum(['jsonl', 'csv', 'verl'])
export type ExportFormat = z.infer<typeof ExportFormat>

/** Header of the answer: rows that follow, counted when it began; more may come of a batch that is open. With filters within batches it is not there: nobody counted. */
export const EXPORT_ROWS_HEADER = 'x-rewardops-rows'

/** Annotations of a sample as a column: JSON, a list of {label, note, author, createdAt}. Only where it is asked for. */
export const ANNOTATIONS_COLUMN = 'annotations'
/** In front of a key of the reward extra info that is a column of its own. */
export const EXTRA_COLUMN = 'rewardExtraInfo.'
/** Columns of an export, by their names. */
export const EXPORT_COLUMNS: readonly string[] = [
  ...ROLLOUT_COLUMNS,
  ...RESULT_COLUMNS,
  ANNOTATIONS_COLUMN,
]
/** The columns that need the texts to be read. */
export const TEXT_COLUMNS: readonly string[] = ['prompt', 'response', 'groundTruth', 'extraInfo']

/** `columns=run,score,rewardExtraInfo.acc`; in a key `,` and `%` are percent-encoded. */
const Columns = z
  .string()
  .transform((text) =>
    text.split(',').map((name) => name.replaceAll(/%2c/gi, ',').replaceAll('%25', '%')),
  )
  .pipe(
    z
      .array(
        z
          .string()
          .refine(
            (name) =>
              EXPORT_COLUMNS.includes(name) ||
              (name.startsWith(EXTRA_COLUMN) && name.length > EXTRA_COLUMN.length),
            {
              error: ({ input }) =>
                `there is no column "${input}": ${EXPORT_COLUMNS.join(', ')} and rewardExtraInfo.KEY are`,
            },
          ),
      )
      .min(1)
      .max(200)
      .refine((names) => new Set(names).size === names.length, 'names a column twice'),
  )

/** Columns as {@link ExportQuery} reads them. */
export function columnsText(columns: readonly string[]): string {
  return columns.map((name) => name.replaceAll('%', '%25').replaceAll(',', '%2C')).join(',')
}

/**
 * What is exported, as the address says it: the filter of the Samples page with the same names, and how it is written. Rows are in
 * order of batch and index.
 */
export const ExportQuery = z
  .strictObject({
    ...(Object.fromEntries(
      Object.entries(SAMPLE_FILTER_TEXT).map(([name, schema]) => [name, schema.optional()]),
    ) as {
      [Name in keyof typeof SAMPLE_FILTER_TEXT]: z.ZodOptional<(typeof SAMPLE_FILTER_TEXT)[Name]>
    }),
    format: ExportFormat.default('jsonl'),
    /** `kept`: where texts, or whole samples, were removed by retention, what is left is given; else that is refused. */
    texts: z.enum(['all', 'kept']).default('all'),
    columns: Columns.optional(),
    /** Goes on after this sample: the last one that arrived whole. */
    after: SampleId.optional(),
  })
  .refine((query) => SAMPLE_FILTER_NAMES.some((name) => query[name] !== undefined), {
    message: 'either batch or run must be given, or another filter of samples.list',
    path: ['batch'],
  })
  .refine(({ format, columns }) => format !== 'verl' || columns === undefined, {
    message: 'the verl dump has columns of its own',
    path: ['columns'],
  })
export type ExportQuery = z.infer<typeof ExportQuery>

/** Whether a filter says more than which batches are meant. */
export function narrowsWithinBatches(filter: SampleFilter): boolean {
  const { run, batch, step, stepTo, split, ...within } = filter
  return Object.values(within).some((value) => value !== undefined)
}
