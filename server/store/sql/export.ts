import type { SampleFailureReason } from '../../wire/sample-reason.ts'
import type { Database } from '../database.ts'

/** A batch to be exported. */
export interface ExportedBatch {
  id: number
  run: string
  step: number
  split: 'train' | 'val'
  samples: number
  text_bucket: string
}

/** Which batches are exported. */
export interface ExportSelection {
  batchId: number | null
  run: string | null
  /** Both included; null: every step. */
  steps: { first: number; last: number } | null
  split: 'train' | 'val' | null
}

/** Postgres's largest integer. */
const MAX_ID = 2_147_483_647

const FROM_SELECTED = `from batch join run on run.id = batch.run_id
  where batch.id > $1 and batch.id <= $2 and ($3::int is null or batch.id = $3) and ($4::text is null or run.name = $4)
    and ($5::int is null or step between $5 and $6) and ($7::text is null or split = $7)`

function valuesOf(selection: ExportSelection, afterId: number, lastId: number): unknown[] {
  const { batchId, run, steps, split } = selection
  // Of one batch nothing else is looked at.
  const [after, last] =
    batchId === null
      ? [afterId, lastId]
      : [Math.max(afterId, batchId - 1), Math.min(lastId, batchId)]
  return [after, last, batchId, run, steps?.first ?? null, steps?.last ?? null, split]
}

/**
 * How many samples a selection has from a sample on, its last batch (what comes later is not part of the export), and of how
 * many batches retention took the texts.
 */
export async function exportSize(
  db: Database,
  selection: ExportSelection,
  from: { batchId: number; idx: number },
): Promise<{ batches: number; lastId: number; rows: number; removed: number }> {
  const [row] = await db.rows<{
    batches: number
    last_id: number | null
    rows: string
    removed: number
  }>(
    'export-size',
    `select count(*)::int as batches, max(batch.id) as last_id,
       (count(*) filter (where texts_removed_at is not null and batch.id >= $8))::int as removed,
       coalesce(sum(case when batch.id < $8 or samples_removed_at is not null then 0 when batch.id = $8 then greatest(samples - $9, 0) else samples end), 0)
         as rows
     ${FROM_SELECTED}`,
    [...valuesOf(selection, 0, MAX_ID), from.batchId, from.idx],
  )
  const { batches, last_id, rows, removed } = row!
  return { batches, lastId: last_id ?? 0, rows: Number(rows), removed }
}

/** Batches of a selection in order of their number, after one and up to another. */
export async function exportedBatches(
  db: Database,
  selection: ExportSelection,
  afterId: number,
  lastId: number,
  limit: number,
): Promise<ExportedBatch[]> {
  return db.rows<ExportedBatch>(
    'exported-batches',
    `select batch.id, run.name as run, step, split, samples, text_bucket::text as text_bucket
     ${FROM_SELECTED} order by batch.id limit $8`,
    [...valuesOf(selection, afterId, lastId), limit],
  )
}

/** A sample with everything that is told of it; its texts as they are stored. */
export interface ExportedRow {
  idx: number
  uid: string
  data_source: string
  response_length: number | null
  status: number
  score: number | null
  raw_score: number | null
  reason: SampleFailureReason | null
  substituted: boolean
  /** JSON. */
  reward_extra: string | null
  queue_ms: number | null
  score_ms: number | null
  attempts: number
  server_name: string | null
  /** Null: its texts were dropped with their day. */
  prompt: string | null
  response: string | null
  ground_truth: string | null
  extra_info: string | null
  encoding: number | null
}

type SampleColumns = Omit<ExportedRow, 'uid' | keyof Texts> & { group_no: number }
type Texts = Pick<ExportedRow, 'prompt' | 'response' | 'ground_truth' | 'extra_info' | 'encoding'>

const NO_TEXTS: Texts = {
  prompt: null,
  response: null,
  ground_truth: null,
  extra_info: null,
  encoding: null,
}

/**
 * Samples of a batch from an index on, in its order: at most `limit`, and no more after `bytes` of texts, so that a page of
 * long rollouts is as light as one of short ones. Rows of samples that have ended never change: pages read one after the
 * other are what one snapshot would show, and no transaction stays open while a slow reader takes them.
 *
 * Put together here: joined by Postgres before it has statistics, every sample is compared with every text of the page.
 */
export async function exportedRows(
  db: Database,
  batch: Pick<ExportedBatch, 'id' | 'text_bucket'>,
  fromIdx: number,
  limit: number,
  bytes: number,
): Promise<ExportedRow[]> {
  const until = Math.min(MAX_ID, fromIdx + limit)
  const [samples, texts] = await Promise.all([
    db.rows<SampleColumns>(
      'exported-samples',
      `select idx, group_no, data_source, response_length, status, score, raw_score, reason, substituted,
         reward_extra::text as reward_extra, queue_ms, score_ms, attempts,
         (select name from server v where v.id = server_id) as server_name
       from sample where batch_id = $1 and idx >= $2 and idx < $3 order by batch_id, idx`,
      [batch.id, fromIdx, until],
    ),
    db.rows<Texts & { idx: number }>(
      'exported-texts',
      // Lengths are read from the texts' headers: those beyond the page are never fetched.
      `select idx, prompt, response, ground_truth, extra_info, encoding
       from (select *, sum(octet_length(prompt) + octet_length(response) + coalesce(octet_length(ground_truth), 0)
                 + coalesce(octet_length(extra_info), 0))
               over (order by idx rows between unbounded preceding and 1 preceding) as before
             from sample_text where bucket = $1 and batch_id = $2 and idx >= $3 and idx < $4) t
       where coalesce(before, 0) < $5 order by idx`,
      [batch.text_bucket, batch.id, fromIdx, until, bytes],
    ),
  ])
  const textOf = new Map(texts.map((text) => [text.idx, text]))
  const lastText = texts.at(-1)
  // Without a text all were dropped with their day; else the page ends with the last that fits.
  const page = lastText === undefined ? samples : samples.filter(({ idx }) => idx <= lastText.idx)
  const uids = await uidsOf(db, batch.id, [...new Set(page.map(({ group_no }) => group_no))])
  return page.map((sample) => ({
    ...sample,
    ...(textOf.get(sample.idx) ?? NO_TEXTS),
    uid: uids.get(sample.group_no) ?? '',
  }))
}

async function uidsOf(db: Database, batchId: number, nos: number[]): Promise<Map<number, string>> {
  if (nos.length === 0) return new Map()
  // Planned each time: a plan made while there were few groups walks through all of the batch.
  const rows = await db.adhoc<{ no: number; uid: string }>(
    'select no, uid from sample_group where batch_id = $1 and no = any($2::int[])',
    [batchId, nos],
  )
  return new Map(rows.map(({ no, uid }) => [no, uid]))
}
