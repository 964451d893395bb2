import {
  columnsText,
  EXPORT_PATH,
  EXPORT_ROWS_HEADER,
  type ExportFormat,
} from '../../../server/contract/export.ts'
import { CliError, EXIT } from '../exit-codes.ts'
import { interrupted, pause, type ServiceClient } from '../service-client.ts'
import { sampleOfRow } from './last-sample.ts'
import { RowTracker } from './row-tracker.ts'
import type { ExportTarget } from './targets.ts'

/** What is exported. */
export interface DownloadQuery {
  format: ExportFormat
  /** Which samples, by the names of the service's filter. */
  filter: URLSearchParams
  /** These instead of all; `batchId` and `index` are among them, by which it goes on after a break. */
  columns?: readonly string[]
  /** What retention left, where it took texts. */
  kept?: boolean
}

const PAUSE_MS = 500

/**
 * Writes an export to its target, in whole rows and no faster than it takes them. A connection that breaks is made again, and
 * goes on after the last row that was written.
 * @param retryForMs how long a service that gives nothing is asked again
 * @returns rows that were written now, and those there were before; a header is none
 * @throws CliError
 */
export async function download(
  client: ServiceClient,
  query: DownloadQuery,
  target: ExportTarget,
  options: {
    retryForMs: number
    signal: AbortSignal
    onProgress: (rows: number, total: number) => void
    onRetry: (why: string) => void
  },
): Promise<{ rows: number; before: number }> {
  const { format } = query
  const { signal } = options
  const header = format === 'csv' ? 1 : 0
  const before = Math.max(0, target.before.rows - header)
  let lastRow = target.before.lastRow
  let rows = 0
  let lastRowAt = performance.now()
  for (;;) {
    const after = lastRow === null ? null : sampleOfRow(lastRow, format, query.columns)
    const tracker = new RowTracker(format === 'csv')
    const head = after === null ? header : 0
    const counted = () => Math.max(0, tracker.rows - head)
    try {
      const answer = await client.stream(addressOf(query, after), signal)
      const total = before + rows + Number(answer.headers[EXPORT_ROWS_HEADER] ?? 0)
      for await (const chunk of answer.body as AsyncIterable<Buffer>) {
        for (const bytes of tracker.push(chunk)) await target.write(bytes)
        if (tracker.lastRow !== null) lastRow = tracker.lastRow
        lastRowAt = performance.now()
        options.onProgress(before + rows + counted(), total)
      }
      return { rows: rows + counted(), before }
    } catch (error) {
      rows += counted()
      const told = client.brokenOff(error, signal)
      const mayHelp = told.exitCode === EXIT.unreachable
      if (!mayHelp || performance.now() - lastRowAt > options.retryForMs) throw told
      options.onRetry(told.message)
      await pause(PAUSE_MS, signal)
      if (signal.aborted) throw interrupted()
    }
  }
}

function addressOf({ format, filter, columns, kept }: DownloadQuery, after: string | null) {
  const search = new URLSearchParams({ format })
  for (const [name, value] of filter) search.append(name, value)
  if (columns !== undefined) search.set('columns', columnsText(columns))
  if (kept) search.set('texts', 'kept')
  if (after !== null) search.set('after', after)
  return `${EXPORT_PATH}?${search}`
}

/** Adds to what is told where the rows that arrived are. */
export async function leaving(error: unknown, target: ExportTarget): Promise<unknown> {
  const where = await target.leave()
  if (!(error instanceof CliError) || where === null) return error
  return new CliError(error.exitCode, `${error.message} ${where}`, error.reason)
}
