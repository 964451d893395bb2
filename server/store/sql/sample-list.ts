import type { Database } from '../database.ts'
import { RESULT_COLUMNS, type SampleRow } from './batch-view.ts'

/**
 * Samples of many batches, by filters and in an order. Batches that cannot have a fitting sample are passed over by their
 * counters and roll-ups; of the others at most so many samples are looked at for one page, so that a page costs the
 * same wherever it is: 40 to 120 ms for {@link MOST_LOOKED_AT} with 10,000,000 samples stored.
 */
export const MOST_LOOKED_AT = 131_072
/** Batches considered for one page. */
const MOST_BATCHES = 2_000
/** In the order of arrival, samples looked at by one statement at first; then twice as many each time. */
const FIRST_LOOK = 8_192

/** How samples can be ordered. */
export type SampleSort = 'newest' | 'worst' | 'best' | 'slowest'

/** By what, and which way, each order goes; `newest` needs no key. */
const KEYS: Record<Exclude<SampleSort, 'newest'>, { key: string; direction: 'asc' | 'desc' }> = {
  worst: { key: 's.score', direction: 'asc' },
  best: { key: 's.score', direction: 'desc' },
  slowest: { key: 's.score_ms::float8', direction: 'desc' },
}

/** Filters of the Samples page, as SQL sees them. */
export interface SampleFilter {
  run?: string | undefined
  batchId?: number | undefined
  step?: number | undefined
  uid?: string | undefined
  dataSource?: string | undefined
  status?: 'queued' | 'running' | 'scored' | 'failed' | undefined
  reason?: string | undefined
  server?: string | undefined
  scoreMin?: number | undefined
  scoreMax?: number | undefined
}

/** Where a page begins: behind a sample, or, of samples in the order of arrival, at a batch that was not looked at yet. */
export type SampleCursor =
  | { after: { batchId: number; idx: number; key: number | null }; fromBatch: number }
  | { fromBatch: number }

/** What was looked at for a page. */
export interface SamplesSearched {
  batches: number
  samples: number
  /** The oldest batch of them; null: none. */
  oldest: number | null
  /** There is no older batch that may have a fitting sample. */
  all: boolean
}

/** A page of samples. */
export interface SamplePage {
  rows: SampleRow[]
  next: SampleCursor | null
  searched: SamplesSearched
}

interface Candidate {
  id: number
  samples: number
}

interface PageOptions {
  cursor: SampleCursor | null
  limit: number
  /** Default {@link MOST_LOOKED_AT}. */
  mostLookedAt?: number
}

/** A page of samples and what was looked at for it. */
export async function sampleList(
  db: Database,
  filter: SampleFilter,
  options: PageOptions & { sort: SampleSort },
): Promise<SamplePage> {
  return options.sort === 'newest'
    ? inOrderOfArrival(db, filter, options)
    : inOrderOfKey(db, filter, { ...options, sort: options.sort })
}

async function inOrderOfArrival(
  db: Database,
  filter: SampleFilter,
  { cursor, limit, mostLookedAt = MOST_LOOKED_AT }: PageOptions,
): Promise<SamplePage> {
  const { batches, more } = await candidates(db, filter, cursor?.fromBatch ?? null)
  const found: PickedSample[] = []
  let looked = 0
  let at = 0
  let portion = FIRST_LOOK
  const after = cursor !== null && 'after' in cursor ? cursor.after : null
  while (at < batches.length && found.length <= limit && looked < mostLookedAt) {
    const from = at
    let samples = 0
    while (at < batches.length && (samples === 0 || samples < portion)) {
      samples += (batches[at] as Candidate).samples
      at++
    }
    const ids = batches.slice(from, at).map(({ id }) => id)
    const where = new Conditions(filter)
    if (after !== null) {
      where.and(`(s.batch_id, s.idx) < (${where.value(after.batchId)}, ${where.value(after.idx)})`)
    }
    found.push(
      ...(await db.adhoc<PickedSample>(
        `select s.batch_id, s.idx, null::float8 as key from sample s ${where.joins}
         where s.batch_id = any(${where.value(ids)}::int[]) ${where.sql}
         order by s.batch_id desc, s.idx desc limit ${where.value(limit + 1 - found.length)}`,
        where.values,
      )),
    )
    looked += samples
    portion *= 2
  }
  const page = found.slice(0, limit)
  const last = page.at(-1)
  const unseen = batches[at]?.id ?? null
  const next: SampleCursor | null =
    found.length > limit && last !== undefined
      ? { after: { batchId: last.batch_id, idx: last.idx, key: null }, fromBatch: last.batch_id }
      : unseen !== null
        ? { fromBatch: unseen }
        : more !== null
          ? { fromBatch: more }
          : null
  return {
    rows: await rowsOf(db, page),
    next,
    searched: {
      batches: at,
      samples: looked,
      oldest: batches[at - 1]?.id ?? null,
      all: unseen === null && more === null,
    },
  }
}

async function inOrderOfKey(
  db: Database,
  filter: SampleFilter,
  { sort, cursor, limit, mostLookedAt = MOST_LOOKED_AT }: PageOptions & { sort: keyof typeof KEYS },
): Promise<SamplePage> {
  // The first page says which batches are put in order; those that came since are not mixed in.
  const { batches, more } = await candidates(db, filter, cursor?.fromBatch ?? null)
  let samples = 0
  let count = 0
  for (const batch of batches) {
    if (count > 0 && samples + batch.samples > mostLookedAt) break
    samples += batch.samples
    count++
  }
  const chosen = batches.slice(0, count)
  const { key, direction } = KEYS[sort]
  const where = new Conditions(filter)
  where.and(`${key} is not null`)
  if (cursor !== null && 'after' in cursor) {
    const { batchId, idx, key: value } = cursor.after
    const beyond = direction === 'asc' ? '>' : '<'
    const at = where.value(value)
    where.and(
      `(${key} ${beyond} ${at} or (${key} = ${at} and (s.batch_id, s.idx) < (${where.value(batchId)}, ${where.value(idx)})))`,
    )
  }
  const found =
    chosen.length === 0
      ? []
      : await db.adhoc<PickedSample>(
          `select s.batch_id, s.idx, ${key} as key from sample s ${where.joins}
           where s.batch_id = any(${where.value(chosen.map(({ id }) => id))}::int[]) ${where.sql}
           order by ${key} ${direction}, s.batch_id desc, s.idx desc limit ${where.value(limit + 1)}`,
          where.values,
        )
  const page = found.slice(0, limit)
  const last = page.at(-1)
  const newest = cursor?.fromBatch ?? chosen[0]?.id ?? 0
  return {
    rows: await rowsOf(db, page),
    next:
      found.length > limit && last !== undefined
        ? {
            after: { batchId: last.batch_id, idx: last.idx, key: last.key },
            fromBatch: newest,
          }
        : null,
    searched: {
      batches: count,
      samples,
      oldest: chosen.at(-1)?.id ?? null,
      all: count === batches.length && more === null,
    },
  }
}

interface PickedSample {
  batch_id: number
  idx: number
  key: number | null
}

/** The newest batches, from `fromId` down, that may have a fitting sample; `more`: one that was not reached. */
async function candidates(
  db: Database,
  filter: SampleFilter,
  fromId: number | null,
): Promise<{ batches: Candidate[]; more: number | null }> {
  const values: unknown[] = []
  const arg = (value: unknown) => {
    values.push(value)
    return `$${values.length}`
  }
  const where = ['b.samples > 0']
  if (filter.batchId !== undefined) where.push(`b.id = ${arg(filter.batchId)}`)
  if (fromId !== null) where.push(`b.id <= ${arg(fromId)}`)
  if (filter.run !== undefined)
    where.push(`b.run_id = (select id from run where name = ${arg(filter.run)})`)
  if (filter.step !== undefined) where.push(`b.step = ${arg(filter.step)}`)
  if (filter.status === 'failed' || filter.reason !== undefined) where.push('b.failed > 0')
  if (filter.status === 'scored') where.push('b.scored > 0')
  if (filter.status === 'queued' || filter.status === 'running')
    where.push('b.scored + b.failed < b.samples')
  // A batch that was not rolled up yet may have anything.
  if (filter.scoreMin !== undefined)
    where.push(`(not b.rolled_up or b.max is null or b.max >= ${arg(filter.scoreMin)})`)
  if (filter.scoreMax !== undefined)
    where.push(`(not b.rolled_up or b.min is null or b.min <= ${arg(filter.scoreMax)})`)
  if (filter.reason !== undefined) {
    where.push(
      `(not b.rolled_up or exists (select 1 from batch_roll_up r where r.batch_id = b.id and r.data_source = '' and r.reasons ? ${arg(filter.reason)}))`,
    )
  }
  if (filter.dataSource !== undefined) {
    // Of more than 64 data sources the smaller ones have no roll-up.
    where.push(
      `(not b.rolled_up or exists (select 1 from batch_roll_up r where r.batch_id = b.id and r.data_source = ${arg(filter.dataSource)})
        or (select count(*) from batch_roll_up r where r.batch_id = b.id) > 64)`,
    )
  }
  if (filter.uid !== undefined) {
    where.push(
      `exists (select 1 from sample_group g where g.batch_id = b.id and g.uid = ${arg(filter.uid)})`,
    )
  }
  const rows = await db.adhoc<Candidate>(
    `select b.id, b.samples from batch b where ${where.join(' and ')}
     order by b.id desc limit ${arg(MOST_BATCHES + 1)}`,
    values,
  )
  return { batches: rows.slice(0, MOST_BATCHES), more: rows[MOST_BATCHES]?.id ?? null }
}

/** What a sample must be, of those of the batches chosen. */
class Conditions {
  readonly values: unknown[] = []
  #sql = ''
  joins = ''

  constructor(filter: SampleFilter) {
    if (filter.uid !== undefined) {
      this.joins = `join sample_group g on g.batch_id = s.batch_id and g.no = s.group_no and g.uid = ${this.value(filter.uid)}`
    }
    if (filter.dataSource !== undefined) {
      this.and(`s.data_source = ${this.value(filter.dataSource)}`)
    }
    if (filter.status === 'scored') this.and('s.status = 2')
    if (filter.status === 'failed') this.and('s.status = 3')
    if (filter.status === 'queued' || filter.status === 'running') {
      const held =
        'exists (select 1 from claim c where c.batch_id = s.batch_id and s.idx between c.first_idx and c.last_idx)'
      // Status 1 waits for its group's post-processing.
      this.and(
        filter.status === 'running'
          ? `s.status < 2 and (s.status = 1 or ${held})`
          : `s.status = 0 and not ${held}`,
      )
    }
    if (filter.reason !== undefined) this.and(`s.reason = ${this.value(filter.reason)}`)
    if (filter.server !== undefined) {
      this.and(
        `s.server_id = any(array(select id from server where name = ${this.value(filter.server)}))`,
      )
    }
    if (filter.scoreMin !== undefined) this.and(`s.score >= ${this.value(filter.scoreMin)}`)
    if (filter.scoreMax !== undefined) this.and(`s.score <= ${this.value(filter.scoreMax)}`)
  }

  get sql(): string {
    return this.#sql
  }

  value(value: unknown): string {
    this.values.push(value)
    return `$${this.values.length}`
  }

  and(condition: string): void {
    this.#sql += ` and ${condition}`
  }
}

/**
 * The samples picked, with all that the table shows of them, in their order. Each is looked up by its key, in the order
 * written (`offset 0`): left to a planner without statistics, as in a database of a minute's age, 101 rows of a batch of 512 took 2 s.
 * The order by number keeps the group's look-up off the index by uid, which would read all groups of the batch.
 */
async function rowsOf(db: Database, picked: readonly PickedSample[]): Promise<SampleRow[]> {
  if (picked.length === 0) return []
  return db.rows<SampleRow>(
    'sample-rows',
    `select ${RESULT_COLUMNS}, s.batch_id, b.run, b.step, s.data_source, s.ended_at
     from unnest($1::int[], $2::int[]) with ordinality as p(batch_id, idx, place)
     cross join lateral (
       select * from sample where batch_id = p.batch_id and idx = p.idx offset 0) s
     cross join lateral (
       select step, (select name from run where id = run_id) as run from batch where id = s.batch_id offset 0) b
     cross join lateral (
       select uid from sample_group where batch_id = s.batch_id and no between s.group_no and s.group_no
       order by no limit 1) g
     left join lateral (select name from server where id = s.server_id offset 0) v on true
     order by p.place`,
    [picked.map((p) => p.batch_id), picked.map((p) => p.idx)],
  )
}
