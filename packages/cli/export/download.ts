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

export interface DownloadQuery {
  format: ExportFormat
  /** The samples to export, as query parameters of the service. */
  filter: URLSearchParams
  /** Default all. `batchId` and `index` are required, because an export needs them to resume. */
  columns?: readonly string[]
  /** Includes samples whose texts were removed by retention. */
  kept?: boolean
}

const PAUSE_MS = 500

export interface DownloadOptions {
  /** How long an unavailable service is retried, counted from the last data received. */
  retryForMs: number
  signal: AbortSignal
  /** `done` counts rows. For a Parquet file it counts bytes, and `total` is null. */
  onProgress: (done: number, total: number | null) => void
  onRetry: (why: string) => void
}

/**
 * Writes whole rows, no faster than the target accepts them. After a broken connection it continues after the last
 * written row.
 * @returns the rows written by this call (`rows`) and those already in the target (`before`), without a CSV header
 * @throws CliError
 */
export async function download(
  client: ServiceClient,
  query: DownloadQuery,
  target: ExportTarget,
  options: DownloadOptions,
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
    // The CSV header is written together with the first row. If the connection breaks before that row, the next answer
    // contains the header again.
    const held: Buffer[] = []
    const write = async () => {
      for (const bytes of held.splice(0)) await target.write(bytes)
    }
    try {
      const answer = await client.stream(addressOf(query, after), signal)
      const total = before + rows + Number(answer.headers[EXPORT_ROWS_HEADER] ?? 0)
      for await (const chunk of answer.body as AsyncIterable<Buffer>) {
        held.push(...tracker.push(chunk))
        if (tracker.rows > head) {
          await write()
          lastRow = tracker.lastRow
        }
        lastRowAt = performance.now()
        options.onProgress(before + rows + counted(), total)
      }
      await write()
      return { rows: rows + counted(), before }
    } catch (error) {
      rows += counted()
      await retryAfter(error, client, lastRowAt, options)
    }
  }
}

/**
 * Like {@link download}, for a Parquet file. After a broken connection, the download starts over, because the end of a
 * Parquet file describes all of its rows.
 * @throws CliError
 */
export async function downloadParquet(
  client: ServiceClient,
  query: DownloadQuery,
  target: ExportTarget,
  options: DownloadOptions,
): Promise<void> {
  let lastPartAt = performance.now()
  for (;;) {
    let bytes = 0
    try {
      const answer = await client.stream(addressOf(query, null), options.signal)
      for await (const chunk of answer.body as AsyncIterable<Buffer>) {
        await target.write(chunk)
        bytes += chunk.length
        lastPartAt = performance.now()
        options.onProgress(bytes, null)
      }
      return
    } catch (error) {
      const canRestart = bytes === 0 || (await target.restart())
      if (!canRestart) throw client.brokenOff(error, options.signal)
      await retryAfter(error, client, lastPartAt, options)
    }
  }
}

async function retryAfter(
  error: unknown,
  client: ServiceClient,
  lastDataAt: number,
  { retryForMs, signal, onRetry }: DownloadOptions,
): Promise<void> {
  const failure = client.brokenOff(error, signal)
  const mayHelp = failure.exitCode === EXIT.unreachable
  if (!mayHelp || performance.now() - lastDataAt > retryForMs) throw failure
  onRetry(failure.message)
  await pause(PAUSE_MS, signal)
  if (signal.aborted) throw interrupted()
}

function addressOf({ format, filter, columns, kept }: DownloadQuery, after: string | null) {
  const search = new URLSearchParams({ format })
  for (const [name, value] of filter) search.append(name, value)
  if (columns !== undefined) search.set('columns', columnsText(columns))
  if (kept) search.set('texts', 'kept')
  if (after !== null) search.set('after', after)
  return `${EXPORT_PATH}?${search}`
}

/** Adds the location of the rows received so far to the error. */
export async function leaving(error: unknown, target: ExportTarget): Promise<unknown> {
  const where = await target.leave()
  if (!(error instanceof CliError) || where === null) return error
  return new CliError(error.exitCode, `${error.message} ${where}`, error.reason)
}
