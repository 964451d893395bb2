import type { SampleCountDto } from '../../contract/sample-extras.ts'
import type { Database } from '../database.ts'
import {
  candidateBatches,
  isRescored,
  SampleConditions,
  type SampleFilter,
} from './sample-filter.ts'
import { type SampleCursor, sampleKeys } from './sample-list.ts'

/** Limits of a count that checks single samples. If a limit is reached, the count is a lower bound. */
const MAX_COUNTED = { samples: 524_288, ms: 500 }
/** Maximum number of samples that a statement checks. Such a statement takes about 50 ms. */
const MAX_PORTION = 65_536
const KEYS_AT_ONCE = 5_000

export async function sampleCount(
  db: Database,
  filter: SampleFilter,
  maxMs = MAX_COUNTED.ms,
): Promise<SampleCountDto> {
  const { run, batchId, step, stepTo, split, rescored, status, ...finer } = filter
  const byCounters =
    Object.values(finer).every((value) => value === undefined) &&
    status !== 'queued' &&
    status !== 'running'
  if (byCounters) return counted(db, { run, batchId, step, stepTo, split, rescored, status })
  return filter.text === undefined ? looked(db, filter, maxMs) : searched(db, filter, maxMs)
}

export async function batchSizes(
  db: Database,
  ids: readonly number[],
): Promise<Map<number, number>> {
  const rows = await db.rows<{ id: number; samples: number }>(
    'batch-sizes',
    'select id, samples from batch where id = any($1::int[])',
    [ids],
  )
  return new Map(rows.map(({ id, samples }) => [id, samples]))
}

async function counted(db: Database, filter: SampleFilter): Promise<SampleCountDto> {
  const { run, batchId, step, stepTo, split, rescored, status } = filter
  const column = status === 'scored' || status === 'failed' ? status : 'samples'
  const [row] = await db.adhoc<{ samples: number; batches: number }>(
    `select coalesce(sum(${column}), 0)::float8 as samples, count(*)::int as batches from batch
     where samples > 0 and samples_removed_at is null and ($1::text is null or run_id = (select id from run where name = $1)) and ($2::int is null or id = $2)
       and ($3::int is null or step between $3 and coalesce($4::int, $3)) and ($5::text is null or split = $5)
       and ${rescored === undefined ? 'true' : isRescored(rescored)}`,
    [run ?? null, batchId ?? null, step ?? null, stepTo ?? null, split ?? null],
  )
  return { ...row!, exact: true, searchedSamples: row!.samples }
}

async function looked(db: Database, filter: SampleFilter, maxMs: number): Promise<SampleCountDto> {
  const until = performance.now() + maxMs
  const count: SampleCountDto = { samples: 0, exact: false, searchedSamples: 0, batches: 0 }
  for (let fromId: number | null = null; ; ) {
    const { batches, nextBatchId: more } = await candidateBatches(db, filter, fromId)
    for (let at = 0; at < batches.length; ) {
      const ids: number[] = []
      let samples = 0
      while (
        at < batches.length &&
        (samples === 0 || samples + batches[at]!.samples <= MAX_PORTION)
      ) {
        samples += batches[at]!.samples
        ids.push(batches[at++]!.id)
      }
      const where = new SampleConditions(filter)
      const [row] = await db.adhoc<{ n: number }>(
        `select count(*)::int as n from sample s ${where.joins}
         where s.batch_id = any(${where.value(ids)}::int[]) ${where.sql}`,
        where.values,
      )
      count.samples += row!.n
      count.searchedSamples += samples
      count.batches += ids.length
      const done = at === batches.length && more === null
      if (!done && (count.searchedSamples >= MAX_COUNTED.samples || performance.now() > until))
        return count
    }
    if (more === null) return { ...count, exact: true }
    fromId = more
  }
}

async function searched(
  db: Database,
  filter: SampleFilter,
  maxMs: number,
): Promise<SampleCountDto> {
  const until = performance.now() + maxMs
  const count: SampleCountDto = { samples: 0, exact: false, searchedSamples: 0, batches: 0 }
  for (let cursor: SampleCursor | null = null; ; ) {
    const page = await sampleKeys(db, filter, { sort: 'newest', cursor, limit: KEYS_AT_ONCE })
    count.samples += page.keys.length
    count.searchedSamples += page.searched.samples
    count.batches += page.searched.batches
    cursor = page.next
    if (cursor === null) return { ...count, exact: true }
    if (performance.now() > until) return count
  }
}
