import type { Database } from '../database.ts'
import { JOINED_RESULT_COLUMNS, type SampleRow } from './batch-view.ts'
import {
  type CandidateBatch,
  candidateBatches,
  SampleConditions,
  type SampleFilter,
} from './sample-filter.ts'
import { type SampleKey, searchTexts } from './sample-texts.ts'

/**
 * Maximum number of samples checked for a page. Samples of a batch are not checked if its counters and roll-ups show
 * that none can match. The limit keeps a page at 40 to 120 ms, even with 10,000,000 samples stored.
 */
export const MAX_SEARCHED_SAMPLES = 131_072
/**
 * Limits of the texts read for one page of a search. The limit in bytes alone is not enough, because 32 MiB of short
 * texts take 400 ms. The time limit leaves 100 ms of a page's 300 ms for the other statements.
 */
const MAX_READ = { samples: 65_536, bytes: 32 << 20, ms: 200 }
/** Number of samples that one statement of a text search selects in order of arrival. */
const PICKED_TO_READ = 2_048
/** Number of samples that one statement of a text search selects in any other order. */
const PUT_IN_ORDER_TO_READ = 16_384
/** Number of samples whose texts the first statement reads. */
const FIRST_READ = 256
/** Maximum number of samples whose texts a statement reads. */
const MAX_PORTION = 2_048
const READ_BYTES = 4 << 20
/**
 * Number of samples that the first statement of a list in order of arrival checks. Each further statement checks twice
 * as many.
 */
const FIRST_CHECKED = 8_192

export type SampleSort = 'newest' | 'worst' | 'best' | 'slowest'

const KEYS: Record<Exclude<SampleSort, 'newest'>, { key: string; direction: 'asc' | 'desc' }> = {
  worst: { key: 's.score', direction: 'asc' },
  best: { key: 's.score', direction: 'desc' },
  slowest: { key: 's.score_ms::float8', direction: 'desc' },
}

/** The start of a page: after a sample or, in order of arrival, at a batch that was not checked yet. */
export type SampleCursor =
  | { after: { batchId: number; idx: number; key: number | null }; fromBatch: number }
  | { fromBatch: number }

export interface SamplesSearched {
  batches: number
  samples: number
  /** The oldest checked batch, or null if none was checked. */
  oldest: number | null
  /** True if no older batch can contain a matching sample. */
  all: boolean
  /**
   * For a text search: the number of samples whose texts were checked, the bytes of these texts, and the number of
   * samples whose texts were removed.
   */
  texts: { samples: number; bytes: number; dropped: number } | null
}

export interface SampleListRow extends SampleRow {
  labels: string[] | null
}

export interface SamplePage {
  rows: SampleListRow[]
  next: SampleCursor | null
  searched: SamplesSearched
}

export interface SampleKeyPage extends Omit<SamplePage, 'rows'> {
  keys: PickedSample[]
}

interface PageOptions {
  cursor: SampleCursor | null
  limit: number
  maxSamples?: number
  /** For a text search. */
  maxRead?: { samples: number; bytes: number; ms: number }
}

export async function sampleList(
  db: Database,
  filter: SampleFilter,
  options: PageOptions & { sort: SampleSort },
): Promise<SamplePage> {
  const { keys, ...page } = await sampleKeys(db, filter, options)
  return { rows: await rowsOf(db, keys), ...page }
}

export async function sampleKeys(
  db: Database,
  filter: SampleFilter,
  options: PageOptions & { sort: SampleSort },
): Promise<SampleKeyPage> {
  return options.sort === 'newest'
    ? inOrderOfArrival(db, filter, options)
    : inOrderOfKey(db, filter, { ...options, sort: options.sort })
}

async function inOrderOfArrival(
  db: Database,
  filter: SampleFilter,
  { cursor, limit, maxSamples = MAX_SEARCHED_SAMPLES, maxRead = MAX_READ }: PageOptions,
): Promise<SampleKeyPage> {
  const { batches, nextBatchId: more } = await candidateBatches(
    db,
    filter,
    cursor?.fromBatch ?? null,
  )
  const reading = filter.text === undefined ? null : new TextSearch(db, filter.text, maxRead)
  const found: PickedSample[] = []
  let looked = 0
  let at = 0
  let portion = FIRST_CHECKED
  let after = cursor !== null && 'after' in cursor ? cursor.after : null
  while (at < batches.length && found.length <= limit && looked < maxSamples && !reading?.isSpent) {
    const from = at
    let samples = 0
    // Texts are read batch by batch. Within a batch the index returns the samples in order, and each selection
    // continues after the previous one.
    while (
      at < batches.length &&
      (samples === 0 || (samples < portion && filter.text === undefined))
    ) {
      samples += (batches[at] as CandidateBatch).samples
      at++
    }
    const chosen = batches.slice(from, at)
    const pick = (most: number) => {
      const where = new SampleConditions(filter)
      if (after !== null) {
        where.and(
          `(s.batch_id, s.idx) < (${where.value(after.batchId)}, ${where.value(after.idx)})`,
        )
      }
      const of =
        chosen.length === 1
          ? `s.batch_id = ${where.value(chosen[0]?.id)}`
          : `s.batch_id = any(${where.value(chosen.map(({ id }) => id))}::int[])`
      return db.adhoc<PickedSample>(
        `select s.batch_id, s.idx, null::float8 as key from sample s ${where.joins}
         where ${of} ${where.sql}
         order by s.batch_id desc, s.idx desc limit ${where.value(most)}`,
        where.values,
      )
    }
    looked += samples
    portion *= 2
    if (reading === null) {
      found.push(...(await pick(limit + 1 - found.length)))
      continue
    }
    for (;;) {
      const picked = await pick(PICKED_TO_READ)
      const { hits, last } = await reading.among(picked, chosen, limit + 1 - found.length)
      found.push(...hits)
      if (last !== null) after = placeOf(last)
      if (picked.length < PICKED_TO_READ && last === (picked.at(-1) ?? null)) break
      if (found.length > limit || reading.isSpent) break
    }
  }
  const page = found.slice(0, limit)
  const last = page.at(-1)
  const unseen = batches[at]?.id ?? null
  // A text search may have stopped within a batch.
  const stopped = reading?.isSpent && after !== null && found.length <= limit ? after : null
  const next: SampleCursor | null =
    found.length > limit && last !== undefined
      ? { after: placeOf(last), fromBatch: last.batch_id }
      : stopped !== null
        ? { after: stopped, fromBatch: stopped.batchId }
        : unseen !== null
          ? { fromBatch: unseen }
          : more !== null
            ? { fromBatch: more }
            : null
  return {
    keys: page,
    next,
    searched: {
      batches: at,
      samples: reading?.samples ?? looked,
      oldest: stopped?.batchId ?? batches[at - 1]?.id ?? null,
      all: stopped === null && unseen === null && more === null,
      ...textsSearched(reading),
    },
  }
}

async function inOrderOfKey(
  db: Database,
  filter: SampleFilter,
  {
    sort,
    cursor,
    limit,
    maxSamples = MAX_SEARCHED_SAMPLES,
    // Half of the time limit, because sorting takes the other half.
    maxRead = { ...MAX_READ, ms: MAX_READ.ms / 2 },
  }: PageOptions & { sort: keyof typeof KEYS },
): Promise<SampleKeyPage> {
  // The first page determines which batches are sorted. Batches that arrive later are not included.
  const { batches, nextBatchId: more } = await candidateBatches(
    db,
    filter,
    cursor?.fromBatch ?? null,
  )
  let samples = 0
  let count = 0
  for (const batch of batches) {
    if (count > 0 && samples + batch.samples > maxSamples) break
    samples += batch.samples
    count++
  }
  const chosen = batches.slice(0, count)
  const { key, direction } = KEYS[sort]
  let after = cursor !== null && 'after' in cursor ? cursor.after : null
  const pick = (most: number) => {
    const where = new SampleConditions(filter)
    where.and(`${key} is not null`)
    if (after !== null) {
      const { batchId, idx, key: value } = after
      const beyond = direction === 'asc' ? '>' : '<'
      const at = where.value(value)
      where.and(
        `(${key} ${beyond} ${at} or (${key} = ${at} and (s.batch_id, s.idx) < (${where.value(batchId)}, ${where.value(idx)})))`,
      )
    }
    return db.adhoc<PickedSample>(
      `select s.batch_id, s.idx, ${key} as key from sample s ${where.joins}
       where s.batch_id = any(${where.value(chosen.map(({ id }) => id))}::int[]) ${where.sql}
       order by ${key} ${direction}, s.batch_id desc, s.idx desc limit ${where.value(most)}`,
      where.values,
    )
  }
  const newest = cursor?.fromBatch ?? chosen[0]?.id ?? 0
  const reading = filter.text === undefined ? null : new TextSearch(db, filter.text, maxRead)
  let found: PickedSample[] = []
  let stopped = false
  if (chosen.length > 0 && reading === null) found = await pick(limit + 1)
  while (chosen.length > 0 && reading !== null) {
    const picked = await pick(PUT_IN_ORDER_TO_READ)
    const { hits, last } = await reading.among(picked, chosen, limit + 1 - found.length)
    found.push(...hits)
    if (last !== null) after = placeOf(last)
    if (picked.length < PUT_IN_ORDER_TO_READ && last === (picked.at(-1) ?? null)) break
    stopped = found.length <= limit && reading.isSpent
    if (stopped || found.length > limit) break
  }
  const page = found.slice(0, limit)
  const last = page.at(-1)
  return {
    keys: page,
    next:
      found.length > limit && last !== undefined
        ? { after: placeOf(last), fromBatch: newest }
        : stopped && after !== null
          ? { after, fromBatch: newest }
          : null,
    searched: {
      batches: count,
      samples,
      oldest: chosen.at(-1)?.id ?? null,
      all: !stopped && count === batches.length && more === null,
      ...textsSearched(reading),
    },
  }
}

interface PickedSample extends SampleKey {
  /** The sort key, or null in order of arrival. */
  key: number | null
}

function placeOf({ batch_id, idx, key }: PickedSample) {
  return { batchId: batch_id, idx, key }
}

/** Reads the texts of samples in order, until enough of them match or the page's limit is reached. */
class TextSearch {
  readonly #db: Database
  readonly #text: string
  readonly #most: { samples: number; bytes: number; ms: number }
  /** End of the time limit, which starts with the first search, ms. */
  #until = Number.POSITIVE_INFINITY
  samples = 0
  bytes = 0
  dropped = 0

  constructor(db: Database, text: string, most: { samples: number; bytes: number; ms: number }) {
    this.#db = db
    this.#text = text
    this.#most = most
  }

  get isSpent(): boolean {
    const { samples, bytes } = this.#most
    const late = this.samples > 0 && performance.now() >= this.#until
    return this.samples >= samples || this.bytes >= bytes || late
  }

  /** The samples with the text, at most `enough`, and the last sample checked. */
  async among(
    picked: readonly PickedSample[],
    batches: readonly CandidateBatch[],
    enough: number,
  ): Promise<{ hits: PickedSample[]; last: PickedSample | null }> {
    this.#until = Math.min(this.#until, performance.now() + this.#most.ms)
    const buckets = new Map(batches.map(({ id, bucket }) => [id, bucket]))
    const hits: PickedSample[] = []
    let last: PickedSample | null = null
    let portion = FIRST_READ
    for (let from = 0; from < picked.length && hits.length < enough && !this.isSpent; ) {
      const part = picked.slice(from, from + portion)
      const seen = await searchTexts(
        this.#db,
        this.#text,
        part.map((one) => ({ ...one, bucket: buckets.get(one.batch_id)! })),
      )
      this.samples += part.length
      this.bytes += seen.bytes
      this.dropped += seen.dropped
      for (const [i, one] of part.entries()) {
        if (hits.length === enough) break
        if (seen.hits[i]) hits.push(one)
        last = one
      }
      from += part.length
      // The longer the texts are on average, the smaller the next portion.
      const each = Math.max(1, this.bytes / Math.max(1, this.samples))
      portion = Math.max(16, Math.min(portion * 2, MAX_PORTION, Math.floor(READ_BYTES / each)))
    }
    return { hits, last }
  }
}

function textsSearched(reading: TextSearch | null): Pick<SamplesSearched, 'texts'> {
  if (reading === null) return { texts: null }
  const { samples, bytes, dropped } = reading
  return { texts: { samples, bytes, dropped } }
}

/**
 * The selected samples with all columns of the table, in order. `offset 0` makes Postgres look up each row by its key.
 * Without `offset 0` and without statistics, as in a database one minute old, 101 rows of a batch of 512 took 2 s.
 */
async function rowsOf(db: Database, picked: readonly PickedSample[]): Promise<SampleListRow[]> {
  if (picked.length === 0) return []
  return db.rows<SampleListRow>(
    'sample-rows',
    `select ${JOINED_RESULT_COLUMNS}, s.batch_id, b.run, b.step, b.split, b.rescored_from, s.data_source, s.ended_at,
       (select json_agg(l.label order by l.label) from (
          select distinct label from sample_annotation where batch_id = s.batch_id and idx = s.idx) l) as labels
     from unnest($1::int[], $2::int[]) with ordinality as p(batch_id, idx, place)
     cross join lateral (
       select * from sample where batch_id = p.batch_id and idx = p.idx offset 0) s
     cross join lateral (
       select step, split, rescored_from, (select name from run where id = run_id) as run from batch where id = s.batch_id offset 0) b
     cross join lateral (
       select uid from sample_group where batch_id = s.batch_id and no = s.group_no offset 0) g
     left join lateral (select name from server where id = s.server_id offset 0) v on true
     order by p.place`,
    [picked.map((p) => p.batch_id), picked.map((p) => p.idx)],
  )
}
