import { z } from 'zod'
import { EXPORTED_RESULT_COLUMNS, EXPORTED_ROLLOUT_COLUMNS } from './csv-cells.ts'
import { SAMPLE_FILTER_NAMES, SAMPLE_FILTER_TEXT, type SampleFilter } from './sample-filter.ts'
import { SampleId } from './trainer.ts'

/** The path of exports: `GET /api/export/samples?batch=b12&format=csv`. */
export const EXPORT_PATH = '/api/export/samples'

/**
 * Export formats: JSON Lines; CSV with JSON in its cells; Parquet, like CSV but with typed numbers, booleans and times;
 * the format of verl's `trainer.rollout_data_dir` (`input`, `output`, `gts`, `score`, `step` and the extra columns).
 */
export const ExportFormat = z.enum(['jsonl', 'csv', 'parquet', 'verl'])
export type ExportFormat = z.infer<typeof ExportFormat>

/**
 * Response header with the number of rows, counted at the start. An open batch may add more. The header is missing if
 * the filter selects samples within batches, because counting them needs a full search.
 */
export const EXPORT_ROWS_HEADER = 'x-rewardops-rows'

/** Optional column with the annotations of a sample: a JSON list of {label, note, author, createdAt}. */
export const ANNOTATIONS_COLUMN = 'annotations'
/** Prefix of a column with one key of the reward extra info. */
export const EXTRA_COLUMN = 'rewardExtraInfo.'
/** All columns that an export can have, besides those of the reward extra info. */
export const EXPORT_COLUMNS: readonly string[] = [
  ...EXPORTED_ROLLOUT_COLUMNS,
  ...EXPORTED_RESULT_COLUMNS,
  ANNOTATIONS_COLUMN,
]
/** Columns that retention empties when it removes texts. */
export const EXPORTED_TEXT_COLUMNS: readonly string[] = [
  'prompt',
  'response',
  'groundTruth',
  'extraInfo',
]

/**
 * The parameter `columns`, such as `columns=run,score,rewardExtraInfo.acc`. `,` and `%` within a key are
 * percent-encoded.
 */
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
                `there is no column "${input}"; known: ${EXPORT_COLUMNS.join(', ')}, rewardExtraInfo.KEY`,
            },
          ),
      )
      .min(1)
      .max(200)
      .refine((names) => new Set(names).size === names.length, 'must not name a column twice'),
  )

/** Writes columns as {@link ExportQuery} reads them. */
export function columnsText(columns: readonly string[]): string {
  return columns.map((name) => name.replaceAll('%', '%25').replaceAll(',', '%2C')).join(',')
}

/** The query of an export: the filter of the Samples page, and the format. Rows are in order of batch and index. */
export const ExportQuery = z
  .strictObject({
    ...(Object.fromEntries(
      Object.entries(SAMPLE_FILTER_TEXT).map(([name, schema]) => [name, schema.optional()]),
    ) as {
      [Name in keyof typeof SAMPLE_FILTER_TEXT]: z.ZodOptional<(typeof SAMPLE_FILTER_TEXT)[Name]>
    }),
    format: ExportFormat.default('jsonl'),
    /** If retention removed texts or samples: `kept` exports the remaining data, `all` refuses the export. */
    texts: z.enum(['all', 'kept']).default('all'),
    columns: Columns.optional(),
    /** `spreadsheet` adds `'` before formulas, so that spreadsheets do not evaluate them. An import keeps the `'`. */
    safe: z.literal('spreadsheet').optional(),
    /** Resumes after this sample, the last one that arrived completely. */
    after: SampleId.optional(),
  })
  .refine((query) => SAMPLE_FILTER_NAMES.some((name) => query[name] !== undefined), {
    message: 'either batch or run must be given, or another filter of samples.list',
    path: ['batch'],
  })
  .refine(({ format, columns }) => format !== 'verl' || columns === undefined, {
    message: 'the verl format has fixed columns',
    path: ['columns'],
  })
  .refine(({ format, safe }) => format === 'csv' || safe === undefined, {
    message: 'only CSV can be made safe for spreadsheets',
    path: ['safe'],
  })
  .refine(({ format, after }) => format !== 'parquet' || after === undefined, {
    message: 'a Parquet export cannot be resumed, because its footer describes all of its rows',
    path: ['after'],
  })
export type ExportQuery = z.infer<typeof ExportQuery>

/** Whether a filter selects samples within batches rather than whole batches. */
export function narrowsWithinBatches(filter: SampleFilter): boolean {
  const { run, batch, step, stepTo, split, rescored, ...within } = filter
  return Object.values(within).some((value) => value !== undefined)
}
