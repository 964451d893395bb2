import { DETAIL_FIELDS, type DetailFields } from '../../contract/sample-fields.ts'
import type { SampleFailureReason } from '../../contract/sample-reason.ts'
import type { Database } from '../database.ts'
import { selectFields } from '../sample-columns.ts'
import { loadImages } from '../stored-images.ts'
import { candidateBatches, SampleConditions, type SampleFilter } from './sample-filter.ts'
import { searchTexts } from './sample-texts.ts'

export interface ExportedBatch {
  id: number
  run: string
  step: number
  split: 'train' | 'val'
  samples: number
  text_bucket: string
  /** Times in exports are texts in UTC, to the microsecond. */
  submitted_at: string
  completed_at: string | null
}

const momentOf = (column: string) =>
  `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`

/** Postgres's largest integer. */
const MAX_ID = 2_147_483_647

/** Maximum number of samples that one statement checks. */
const MAX_CHECKED = 65_536
/** Maximum number of indexes that one statement returns. */
const KEYS_AT_ONCE = 2_048

/**
 * The size of an export that continues from a given sample. The filter's run, batch, steps, split and `rescored` select
 * the batches. `batches` and `lastId` cover all of these batches; the other counts cover only the part from the given
 * sample on. Batches after `lastId` are not exported.
 */
export async function exportSize(
  db: Database,
  filter: SampleFilter,
  from: { batchId: number; idx: number },
): Promise<{
  batches: number
  lastId: number
  samples: number
  withoutTexts: number
  withoutSamples: number
}> {
  const { run, batchId, step, stepTo, split, rescored } = filter
  const [row] = await db.rows<{
    batches: number
    last_id: number | null
    samples: number
    without_texts: number
    without_samples: number
  }>(
    'export-size',
    `select count(*)::int as batches, max(id) as last_id,
       (count(*) filter (where texts_removed_at is not null and id >= $6))::int as without_texts,
       (count(*) filter (where samples_removed_at is not null and id >= $6))::int as without_samples,
       coalesce(sum(case when id < $6 or samples_removed_at is not null then 0 when id = $6 then greatest(samples - $7, 0) else samples end), 0)::float8
         as samples
     from batch where ($1::text is null or run_id = (select id from run where name = $1)) and id between coalesce($2::int, 0) and coalesce($2::int, ${MAX_ID})
       and ($3::int is null or step between $3 and coalesce($4::int, $3)) and ($5::text is null or split = $5)
       and ($8::bool is null or (rescored_from is not null) = $8)`,
    [
      run ?? null,
      batchId ?? null,
      step ?? null,
      stepTo ?? null,
      split ?? null,
      from.batchId,
      from.idx,
      rescored ?? null,
    ],
  )
  const { batches, last_id, samples, without_texts, without_samples } = row!
  return {
    ...{ batches, lastId: last_id ?? 0, samples },
    ...{ withoutTexts: without_texts, withoutSamples: without_samples },
  }
}

/** Whether retention has removed neither the samples of a batch nor, if `texts` is true, their texts. */
export async function isKept(db: Database, batchId: number, texts: boolean): Promise<boolean> {
  const rows = await db.rows(
    'is-kept',
    `select 1 from batch where id = $1 and samples_removed_at is null and (not $2 or texts_removed_at is null)`,
    [batchId, texts],
  )
  return rows.length > 0
}

/** Batches between two ids that may have a matching sample, in order of id. */
export async function exportedBatches(
  db: Database,
  filter: SampleFilter,
  fromId: number,
  lastId: number,
): Promise<{ batches: ExportedBatch[]; next: number | null }> {
  const { batches, nextBatchId: more } = await candidateBatches(db, filter, fromId, 'oldest')
  const ids = batches.filter(({ id }) => id <= lastId).map(({ id }) => id)
  const rows = await db.rows<ExportedBatch>(
    'exported-batches',
    `select b.id, r.name as run, b.step, b.split, b.samples, b.text_bucket::text as text_bucket,
       ${momentOf('b.submitted_at')} as submitted_at, ${momentOf('b.completed_at')} as completed_at
     from unnest($1::int[]) with ordinality as p(id, place)
     cross join lateral (select * from batch where id = p.id offset 0) b
     cross join lateral (select name from run where id = b.run_id offset 0) r order by p.place`,
    [ids],
  )
  return { batches: rows, next: more !== null && more <= lastId ? more : null }
}

/**
 * The indexes of a batch's matching samples, in portions, starting at `fromIdx`. A text search reads the samples'
 * texts. Empty portions let the caller check during a long search whether its client is still connected.
 */
export async function* fittingIndexes(
  db: Database,
  batch: Pick<ExportedBatch, 'id' | 'text_bucket'>,
  filter: SampleFilter,
  fromIdx: number,
): AsyncGenerator<number[], void, undefined> {
  for (let from = fromIdx; ; ) {
    const where = new SampleConditions(filter)
    const until = from + MAX_CHECKED
    const rows = await db.adhoc<{ idx: number }>(
      `select s.idx from sample s ${where.joins}
       where s.batch_id = ${where.value(batch.id)} and s.idx >= ${where.value(from)} and s.idx < ${where.value(Math.min(MAX_ID, until))}
       ${where.sql} order by s.batch_id, s.idx limit ${where.value(KEYS_AT_ONCE)}`,
      where.values,
    )
    const found = rows.map(({ idx }) => idx)
    if (filter.text === undefined) yield found
    else yield* withText(db, batch, filter.text, found)
    if (found.length === KEYS_AT_ONCE) from = (found.at(-1) as number) + 1
    else {
      const [last] = await db.rows<{ idx: number }>(
        'last-index',
        'select idx from sample where batch_id = $1 order by batch_id desc, idx desc limit 1',
        [batch.id],
      )
      if (last === undefined || last.idx < until) return
      from = until
    }
  }
}

/** The indexes of samples that contain `text`. Each statement reads about 4 MiB of texts. */
async function* withText(
  db: Database,
  batch: Pick<ExportedBatch, 'id' | 'text_bucket'>,
  text: string,
  indexes: readonly number[],
): AsyncGenerator<number[], void, undefined> {
  let portion = 256
  for (let from = 0; from < indexes.length; ) {
    const part = indexes.slice(from, from + portion)
    const { hits, bytes } = await searchTexts(
      db,
      text,
      part.map((idx) => ({ batch_id: batch.id, idx, bucket: batch.text_bucket })),
    )
    yield part.filter((_, i) => hits[i])
    from += part.length
    portion = Math.max(
      16,
      Math.min(2_048, Math.floor((4 << 20) / Math.max(1, bytes / part.length))),
    )
  }
}

export interface ExportedRow extends DetailFields {
  idx: number
  uid: string
  data_source: string
  status: number
  score: number | null
  raw_score: number | null
  reason: SampleFailureReason | null
  substituted: boolean
  /** JSON. */
  reward_extra: string | null
  verdict: string | null
  extracted: string | null
  /** JSON. */
  rewards: string | null
  queue_ms: number | null
  score_ms: number | null
  attempts: number
  server_name: string | null
  dispatched_at: string | null
  ended_at: string | null
  /** Completion number and time of its group; null before completion. */
  group_seq: number | null
  group_completed_at: string | null
  /** Null if the texts were removed with their day's partition. */
  prompt: string | null
  response: string | null
  ground_truth: string | null
  extra_info: string | null
  encoding: number | null
}

type SampleColumns = Omit<ExportedRow, keyof Group | keyof Texts> & { group_no: number }
type Group = Pick<ExportedRow, 'uid' | 'group_seq' | 'group_completed_at'>
type Texts = Pick<ExportedRow, 'prompt' | 'response' | 'ground_truth' | 'extra_info' | 'encoding'>

const NO_TEXTS: Texts = {
  prompt: null,
  response: null,
  ground_truth: null,
  extra_info: null,
  encoding: null,
}

/** Bytes counted for a text with images, so that a page holds few such texts. */
const BYTES_WITH_IMAGES = 1 << 20

/**
 * Returns samples of a batch in order, starting at an index: at most `limits.rows` samples, and none after
 * `limits.bytes` of texts. If `only` is set, only samples with these indexes are returned. Rows of scored and failed
 * samples never change, so consecutive pages equal one snapshot, and no transaction stays open for a slow reader.
 *
 * Samples and texts are joined here, because Postgres without statistics would compare every sample with every text.
 * @param limits if `bytes` is null, rows have no texts
 */
export async function exportedRows(
  db: Database,
  batch: Pick<ExportedBatch, 'id' | 'text_bucket'>,
  fromIdx: number,
  limits: { rows: number; bytes: number | null },
  only: readonly number[] | null = null,
): Promise<ExportedRow[]> {
  const wanted = only?.slice(0, limits.rows) ?? null
  const first = wanted?.[0] ?? fromIdx
  const until = Math.min(
    MAX_ID,
    wanted === null ? fromIdx + limits.rows : (wanted.at(-1) ?? -1) + 1,
  )
  const [samples, texts] = await Promise.all([
    db.rows<SampleColumns>(
      'exported-samples',
      `select idx, group_no, data_source, ${selectFields(DETAIL_FIELDS)}, status, score, raw_score, reason, substituted,
         reward_extra::text as reward_extra, verdict, extracted, rewards::text as rewards, queue_ms, score_ms, attempts,
         (select name from server v where v.id = server_id) as server_name,
         ${momentOf('dispatched_at')} as dispatched_at, ${momentOf('ended_at')} as ended_at
       from sample where batch_id = $1 and idx >= $2 and idx < $3 and ($4::int[] is null or idx = any($4::int[]))
       order by batch_id, idx`,
      [batch.id, first, until, wanted],
    ),
    limits.bytes === null
      ? []
      : db.rows<Texts & { idx: number }>(
          'exported-texts',
          // Lengths come from the texts' headers; texts beyond the page are never fetched.
          `select idx, prompt, response, ground_truth, extra_info, encoding
           from (select *, sum(octet_length(prompt) + octet_length(response) + coalesce(octet_length(ground_truth), 0)
                     + coalesce(octet_length(extra_info), 0) + case when encoding & 48 <> 0 then ${BYTES_WITH_IMAGES} else 0 end)
                   over (order by idx rows between unbounded preceding and 1 preceding) as before
                 from sample_text where bucket = $1 and batch_id = $2 and idx >= $3 and idx < $4
                   and ($6::int[] is null or idx = any($6::int[]))) t
           where coalesce(before, 0) < $5 order by idx`,
          [batch.text_bucket, batch.id, first, until, limits.bytes, wanted],
        ),
  ])
  await loadImages(db, texts, { mayBeGone: true })
  const textOf = new Map(texts.map((text) => [text.idx, text]))
  const lastText = texts.at(-1)
  // The page ends with the last text that fits. If there is no text, texts were removed or not requested.
  const page = lastText === undefined ? samples : samples.filter(({ idx }) => idx <= lastText.idx)
  const groups = await groupsOf(db, batch.id, [...new Set(page.map(({ group_no }) => group_no))])
  return page.map((sample) => ({
    ...sample,
    ...(textOf.get(sample.idx) ?? NO_TEXTS),
    ...(groups.get(sample.group_no) ?? { uid: '', group_seq: null, group_completed_at: null }),
  }))
}

async function groupsOf(db: Database, batchId: number, nos: number[]): Promise<Map<number, Group>> {
  if (nos.length === 0) return new Map()
  // The statement is planned at each call, because a cached plan made for few groups would scan the whole batch every
  // time.
  const rows = await db.adhoc<Group & { no: number }>(
    `select no, uid, seq as group_seq, ${momentOf('completed_at')} as group_completed_at
     from sample_group where batch_id = $1 and no = any($2::int[])`,
    [batchId, nos],
  )
  return new Map(rows.map(({ no, ...group }) => [no, group]))
}
