import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { ExportFormat } from '../../../server/contract/export.ts'
import type { BatchSummary, Page } from '../../../server/contract/trainer.ts'
import { defineCommand } from '../command.ts'
import { usageError } from '../exit-codes.ts'
import {
  type DownloadOptions,
  type DownloadQuery,
  download,
  downloadParquet,
  leaving,
} from '../export/download.ts'
import { type ExportTarget, FileTarget, StreamTarget } from '../export/targets.ts'
import { splitOption } from '../option-values.ts'
import { number, Pace, showProgress } from '../progress.ts'
import { parquetRowCount } from '../rollouts/parquet-rows.ts'
import { FILTER_OPTIONS, filterOf } from '../sample-filter-options.ts'
import type { ServiceClient } from '../service-client.ts'
import { AWAY_MS, batchIdOf } from '../wait-batch.ts'

const DRAW_MS = 100

export const command = defineCommand({
  name: 'export',
  summary: 'write rollouts with their rewards as JSON Lines, CSV, Parquet or a verl dump',
  usage: '(--batch ID | --run NAME | a filter) [options]',
  details: `Without --out, the rows are written to stdout. A file is named FILE.part until it is complete. With --format verl,
--out is a folder with one file per step, as in verl's trainer.rollout_data_dir. With --run, it has no validation
samples and no samples of rescores, unless --split or --rescored select them.
Exported files can be imported again. The filters are those of the Samples page; samples must match all of them.`,
  options: {
    batch: { type: 'string', value: 'ID', help: 'this batch' },
    run: { type: 'string', value: 'NAME', help: 'all batches of this run' },
    step: { type: 'string', value: 'N', help: 'this step of the run, or a range such as 0-99' },
    split: {
      type: 'string',
      value: 'SPLIT',
      help: 'train or val (default: both; with --format verl and --run: train)',
    },
    ...FILTER_OPTIONS,
    kept: {
      type: 'boolean',
      help: 'include samples whose texts retention removed; their texts are null',
    },
    columns: {
      type: 'string',
      value: 'NAMES',
      help: 'these columns, separated by commas; rewardExtraInfo.KEY and annotations are columns too',
    },
    format: { type: 'string', value: 'FORMAT', help: 'jsonl (default), csv, parquet or verl' },
    out: { type: 'string', short: 'o', value: 'FILE', help: 'file to write (default: stdout)' },
    resume: { type: 'boolean', help: 'continue a FILE.part after its last complete row' },
    force: { type: 'boolean', help: 'overwrite an existing file' },
  },
  async run({ values, output, service, signal }) {
    const format = ExportFormat.safeParse(values.format ?? 'jsonl')
    if (!format.success)
      throw usageError(`--format ${values.format}: expected jsonl, csv, parquet or verl`)
    if (values.step !== undefined && !/^\d{1,10}(-\d{1,10})?$/.test(values.step)) {
      throw usageError(`--step ${values.step}: expected a step such as 7, or a range such as 0-99`)
    }
    if (values.resume && values.out === undefined) throw usageError('--resume needs --out FILE.')
    if (values.resume && values.force) throw usageError('--resume and --force exclude each other.')
    if (output.json && values.out === undefined) {
      throw usageError(
        '--json needs --out FILE, because the rows are written to stdout without it.',
      )
    }
    const isDump = format.data === 'verl'
    const isParquet = format.data === 'parquet'
    if (isParquet && values.resume) {
      throw usageError(
        '--resume cannot be used with --format parquet, because the end of the file describes all of its rows.',
      )
    }
    if (isParquet && values.out === undefined && output.stdout.isTTY) {
      throw usageError('--format parquet needs --out FILE, because the file is not text.')
    }
    const split =
      splitOption(values.split) ?? (isDump && values.run !== undefined ? 'train' : undefined)
    const filter = filterOf(values)
    if (values.batch !== undefined) filter.set('batch', batchIdOf(values.batch))
    if (split !== undefined) filter.set('split', split)
    // A rescore has the rollouts of its source batch, so the file of the step would contain them twice.
    if (isDump && values.batch === undefined && values.run !== undefined) {
      if (!filter.has('rescored')) filter.set('rescored', 'false')
    }
    if (filter.size === 0) {
      throw usageError('export needs --batch ID, --run NAME or another filter.')
    }
    if (isDump && values.batch === undefined && values.run === undefined) {
      throw usageError(
        '--format verl needs --batch ID or --run NAME, because it writes one file per step.',
      )
    }
    if (isDump && values.columns !== undefined) {
      throw usageError('--columns cannot be used with --format verl, whose columns are fixed.')
    }
    const query: DownloadQuery = {
      format: format.data,
      filter,
      ...(values.columns === undefined ? {} : { columns: columnsOf(values.columns) }),
      kept: values.kept === true,
    }
    const client = await service()
    const parts = await partsOf(client, query, values.out)
    const how = { resume: values.resume === true, force: values.force === true }
    const startedAt = performance.now()
    let rows = 0
    let before = 0
    let skipped = 0
    for (const part of parts) {
      const target =
        part.path === null
          ? new StreamTarget(output.stdout)
          : await FileTarget.open(part.path, format.data, { ...how, columns: query.columns })
      if (target === null) {
        skipped++
        continue
      }
      const done = await one(client, part.query, target)
      rows += done.rows
      before += done.before
    }
    const seconds = Math.round(performance.now() - startedAt) / 1_000
    if (values.out === undefined) return
    output.line(
      `${number(rows + before)} rows in ${parts.length === 1 ? parts[0]?.path : `${number(parts.length)} files under ${values.out}`}` +
        `${before > 0 ? `, ${number(before)} of them already written` : ''}${skipped > 0 ? `; ${number(skipped)} already complete` : ''}`,
    )
    output.data({
      rows: rows + before,
      before,
      complete: skipped,
      seconds,
      files: parts.map(({ path }) => path),
    })
    return

    async function one(client: ServiceClient, query: DownloadQuery, target: ExportTarget) {
      // On a terminal, the bar would be drawn between the rows.
      const quiet = target instanceof StreamTarget && output.stdout.isTTY === true
      const progress = showProgress('export', quiet ? { write() {} } : output.stderr)
      const pace = new Pace()
      let drawnAt = Number.NEGATIVE_INFINITY
      let total = 0
      try {
        const options: DownloadOptions = {
          retryForMs: AWAY_MS,
          signal,
          onRetry: (why) =>
            output.note(
              `${why} ${isParquet ? 'Starting over.' : 'Continuing after the last row.'}`,
            ),
          onProgress: (now, of) => {
            total = Math.max(now, of ?? now)
            if (performance.now() - drawnAt < DRAW_MS) return
            drawnAt = performance.now()
            progress.update({
              done: now,
              total,
              note: of === null ? 'bytes' : pace.note(now, total),
            })
          },
        }
        if (isParquet) {
          await downloadParquet(client, query, target, options)
          await target.finish()
          const rows = target instanceof FileTarget ? await parquetRowCount(target.path) : 0
          progress.end({ done: total, total, note: 'bytes' })
          return { rows, before: 0 }
        }
        const done = await download(client, query, target, options)
        await target.finish()
        progress.end({ done: done.before + done.rows, total, note: 'rows' })
        return done
      } catch (error) {
        throw await leaving(error, target)
      }
    }
  },
})

/** Adds `batchId` and `index`, which an export needs to resume. */
function columnsOf(text: string): string[] {
  const names = text.split(',').map((name) => name.trim())
  return [...['batchId', 'index'].filter((name) => !names.includes(name)), ...names]
}

/** Returns the files to write, each with its query. A verl dump has one file per step. A null path means stdout. */
async function partsOf(
  client: ServiceClient,
  query: DownloadQuery,
  out: string | undefined,
): Promise<{ path: string | null; query: DownloadQuery }[]> {
  if (out === undefined) return [{ path: null, query }]
  if (query.format !== 'verl') return [{ path: out, query }]
  await mkdir(out, { recursive: true, mode: 0o700 })
  const steps = await stepsOf(client, query)
  // The request is made although no batch matches, because the service's error names the cause.
  if (steps.length === 0)
    return [{ path: join(out, `${query.filter.get('step') ?? 'none'}.jsonl`), query }]
  return steps.map((step) => {
    const filter = new URLSearchParams(query.filter)
    filter.set('step', String(step))
    return { path: join(out, `${step}.jsonl`), query: { ...query, filter } }
  })
}

async function stepsOf(client: ServiceClient, { filter }: DownloadQuery): Promise<number[]> {
  const batchId = filter.get('batch')
  if (batchId !== null) {
    const { step } = await client.query<BatchSummary>('batches.get', { batchId })
    return [step]
  }
  const split = filter.get('split')
  const rescored = filter.get('rescored')
  const [first = 0, last = first] = (filter.get('step') ?? `0-${Number.MAX_SAFE_INTEGER}`)
    .split('-')
    .map(Number)
  const steps = new Set<number>()
  for (let cursor: string | null = null; ; ) {
    const page: Page<BatchSummary> = await client.query('batches.list', {
      run: filter.get('run'),
      ...(split === null ? {} : { split }),
      ...(rescored === null ? {} : { rescored: rescored === 'true' }),
      cursor,
      limit: 200,
    })
    for (const { step } of page.items) if (step >= first && step <= last) steps.add(step)
    cursor = page.nextCursor
    if (cursor === null) return [...steps].sort((a, b) => a - b)
  }
}
