import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { whileKeyHolds } from '../admin/key-end.ts'
import type { Modules } from '../api/context.ts'
import { SURFACES } from '../api/surfaces.ts'
import { translateError } from '../api/trpc.ts'
import { batchNumber, sampleKey } from '../batches/batch-reader.ts'
import { describeIssues } from '../contract/describe-issues.ts'
import {
  ANNOTATIONS_COLUMN,
  EXPORT_PATH,
  EXPORT_ROWS_HEADER,
  EXPORTED_TEXT_COLUMNS,
  ExportQuery,
  narrowsWithinBatches,
} from '../contract/export.ts'
import { filterOfText, type SampleFilter as WrittenFilter } from '../contract/sample-filter.ts'
import { RewardOpsError } from '../errors.ts'
import type { Database } from '../store/database.ts'
import { annotationsOfBatch } from '../store/sql/annotations.ts'
import {
  type ExportedBatch,
  type ExportedRow,
  exportedBatches,
  exportedRows,
  exportSize,
  fittingIndexes,
  isKept,
} from '../store/sql/export.ts'
import type { SampleFilter } from '../store/sql/sample-filter.ts'
import type { Access } from './access.ts'
import type { ExportPage } from './export-cells.ts'
import { exportWriter } from './export-lines.ts'
import { callerGone } from './refuse.ts'

/**
 * Maximum number of samples per page. A page is written within 20 ms, so other calls on this event loop do not wait
 * long.
 */
const MAX_PAGE_ROWS = 500
/** A page takes no further sample after this many bytes of encoded texts. */
const PAGE_BYTES = 2 << 20
/** Maximum concurrent exports, each with up to two pages in memory. Further exports are refused as `busy`. */
const MAX_EXPORTS = 8

export interface ExportSources {
  /** A separate connection pool, because an export may read millions of samples. */
  db: Database
  access: Access
  scopes: Modules['scopes']
  readiness: Modules['readiness']
}

interface Place {
  batchId: number
  idx: number
}

/**
 * `GET /api/export/samples`: streams samples as JSON Lines, CSV, Parquet or verl's dump at the reader's pace. The server
 * keeps no position: an interrupted export is resumed with `after=` the last complete sample. If retention removes data
 * that the export has not read yet, the connection breaks, so that the file does not look complete.
 */
export function createExport({ db, access, scopes, readiness }: ExportSources) {
  let underWay = 0

  return async function onExport(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const url = new URL(req.url ?? '/', 'http://localhost')
    if (url.pathname !== EXPORT_PATH) {
      throw new RewardOpsError('not_found', `There is nothing at ${url.pathname.slice(0, 100)}.`)
    }
    const caller = access.admit(req, 'export')
    if (req.method !== 'GET' && req.method !== 'HEAD') {
      res.setHeader('allow', 'GET, HEAD')
      throw new RewardOpsError('method_not_allowed', `${EXPORT_PATH} accepts only GET.`)
    }
    const query = readQuery(url.searchParams)
    await scopes.check(caller, 'export', SURFACES.export, query).catch((error: unknown) => {
      throw translateError(error, readiness)
    })
    if (underWay >= MAX_EXPORTS) {
      throw new RewardOpsError('busy', `${MAX_EXPORTS} exports are already running.`, {
        retryAfterMs: 2_000,
      })
    }
    underWay++
    try {
      // When the key becomes invalid, the connection is destroyed, so that the file does not look complete.
      await whileKeyHolds(caller.ended, callerGone(res), (until) => send(query, req, res, until))
    } catch (error) {
      if (res.destroyed) return
      throw translateError(error, readiness)
    } finally {
      underWay--
    }
  }

  async function send(
    query: ExportQuery,
    req: IncomingMessage,
    res: ServerResponse,
    until: AbortSignal,
  ) {
    const { format: _, columns, texts, after, safe: __, ...text } = query
    const filter = filterOfText(text)
    const from = placeAfter(after)
    const chosen = choose(filter, columns, texts)
    const size = await exportSize(db, chosen.filter, from)
    if (until.aborted) return
    if (size.batches === 0) throw nothingThere(query)
    const removed = chosen.limits.bytes === null ? size.withoutSamples : size.withoutTexts
    if (removed > 0 && texts === 'all') {
      const what =
        size.withoutSamples === 0
          ? 'texts'
          : size.withoutSamples === removed
            ? 'samples'
            : 'texts or samples'
      throw new RewardOpsError(
        'removed_by_retention',
        size.batches === 1
          ? `The ${what} of ${query.batch ?? 'the batch'} were removed by retention.`
          : `The ${what} of ${removed} of these ${size.batches} batches were removed by retention.`,
        {
          hint: 'Add texts=kept to export the remaining data, with null for removed texts and without removed samples.',
        },
      )
    }
    const name = query.batch ?? 'samples'
    const writer = exportWriter(query)
    try {
      res.writeHead(200, {
        'content-type': writer.contentType,
        'content-disposition': `attachment; filename="${name}.${writer.ending}"`,
        ...(chosen.within ? {} : { [EXPORT_ROWS_HEADER]: size.samples }),
      })
      if (req.method === 'HEAD') {
        res.end()
        return
      }
      if (after === undefined) res.write(writer.head)
      for await (const page of readAhead(pages(chosen, from, size.lastId))) {
        if (until.aborted) return
        const part = await writer.page(page)
        if (part.length > 0 && !res.write(part)) await drained(res, until)
      }
      if (!until.aborted) res.end(await writer.end())
    } finally {
      await writer.close()
    }
  }

  async function* pages(
    chosen: Chosen,
    from: Place,
    lastId: number,
  ): AsyncGenerator<ExportPage, void, undefined> {
    for (let fromId: number | null = from.batchId; fromId !== null; ) {
      const { batches, next } = await exportedBatches(db, chosen.filter, fromId, lastId)
      for (const batch of batches) {
        const idx = batch.id === from.batchId ? from.idx : 0
        yield* chosen.within ? fitting(chosen, batch, idx) : whole(chosen, batch, idx)
        // Retention marks a batch before it deletes its rows, so an unmarked batch was complete when it was read.
        if (chosen.isComplete && !(await isKept(db, batch.id, chosen.limits.bytes !== null))) {
          throw new RewardOpsError(
            'removed_by_retention',
            `Data of b${batch.id} were removed by retention while they were exported.`,
          )
        }
      }
      fromId = next
    }
  }

  async function* whole(chosen: Chosen, batch: ExportedBatch, fromIdx: number) {
    for (let idx = fromIdx; ; ) {
      const rows = await exportedRows(db, batch, idx, chosen.limits)
      const last = rows.at(-1)
      if (last === undefined) return
      yield await annotated(chosen, batch, rows)
      idx = last.idx + 1
    }
  }

  async function* fitting(chosen: Chosen, batch: ExportedBatch, fromIdx: number) {
    for await (const found of fittingIndexes(db, batch, chosen.filter, fromIdx)) {
      // An empty page lets the caller check that the reader is still connected.
      if (found.length === 0) yield { batch, rows: [], annotations: new Map() } satisfies ExportPage
      for (let left = found; left.length > 0; ) {
        const rows = await exportedRows(db, batch, 0, chosen.limits, left)
        const last = rows.at(-1)
        if (last === undefined) break
        yield await annotated(chosen, batch, rows)
        left = left.filter((idx) => idx > last.idx)
      }
    }
  }

  async function annotated(
    chosen: Chosen,
    batch: ExportedBatch,
    rows: ExportedRow[],
  ): Promise<ExportPage> {
    const [first, last] = [rows[0], rows.at(-1)]
    const all =
      chosen.annotations && first !== undefined && last !== undefined
        ? await annotationsOfBatch(db, batch.id, first.idx, last.idx)
        : []
    return { batch, rows, annotations: Map.groupBy(all, ({ idx }) => idx) }
  }
}

interface Chosen {
  filter: SampleFilter
  /** True if the filter selects samples within batches rather than whole batches. */
  within: boolean
  limits: { rows: number; bytes: number | null }
  annotations: boolean
  /** True if the export fails instead of leaving out data that retention has removed. */
  isComplete: boolean
}

function choose(
  written: WrittenFilter,
  columns: readonly string[] | undefined,
  kept: ExportQuery['texts'],
): Chosen {
  const { batch, ...filter } = written
  const texts =
    columns === undefined || columns.some((name) => EXPORTED_TEXT_COLUMNS.includes(name))
  return {
    filter: { ...filter, batchId: batch === undefined ? undefined : batchNumber(batch) },
    within: narrowsWithinBatches(written),
    limits: { rows: MAX_PAGE_ROWS, bytes: texts ? PAGE_BYTES : null },
    annotations: columns?.includes(ANNOTATIONS_COLUMN) ?? false,
    isComplete: kept === 'all',
  }
}

async function* readAhead<T>(pages: AsyncGenerator<T, void, undefined>): AsyncGenerator<T> {
  try {
    let reading = pages.next()
    for (;;) {
      const page = await reading
      if (page.done) return
      reading = pages.next()
      // If the reader disconnects, nothing awaits this promise.
      reading.catch(() => {})
      yield page.value
    }
  } finally {
    await pages.return().catch(() => {})
  }
}

function readQuery(search: URLSearchParams): ExportQuery {
  const given: Record<string, string | string[]> = {}
  for (const [key, value] of search) {
    if (key === 'extra') given[key] = [...(given[key] ?? []), value]
    else if (key in given) throw new RewardOpsError('invalid_input', `${key}: is given twice`)
    else given[key] = value
  }
  const parsed = ExportQuery.safeParse(given)
  if (!parsed.success) throw new RewardOpsError('invalid_input', describeIssues(parsed.error))
  return parsed.data
}

function placeAfter(sample: string | undefined): Place {
  if (sample === undefined) return { batchId: 0, idx: 0 }
  const { batch_id: batchId, idx } = sampleKey(sample)
  return { batchId, idx: idx + 1 }
}

function nothingThere({ batch, run, step, split }: ExportQuery): RewardOpsError {
  if (batch !== undefined && step === undefined && split === undefined) {
    return new RewardOpsError('batch_not_found', `There is no batch ${batch}.`)
  }
  const steps =
    step === undefined
      ? ''
      : step.first === step.last
        ? ` of step ${step.first}`
        : ` of steps ${step.first} to ${step.last}`
  const where =
    run !== undefined
      ? `Run ${JSON.stringify(run)}`
      : batch !== undefined
        ? `Batch ${batch}`
        : 'The service'
  return new RewardOpsError(
    'not_found',
    `${where} has no batches${steps}${split === undefined ? '' : ` of split ${split}`}.`,
    { hint: 'batches.list shows existing batches.' },
  )
}

async function drained(res: ServerResponse, until: AbortSignal): Promise<void> {
  if (until.aborted) return
  await once(res, 'drain', { signal: until }).catch(() => {})
}
