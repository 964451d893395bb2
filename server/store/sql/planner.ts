import type { Database } from '../database.ts'

export interface PlannableBatch {
  id: number
  run: string
  step: number
  samples: number
  submitted_at: Date
  completed_at: Date | null
}

export async function plannableBatch(
  db: Database,
  id: number,
): Promise<PlannableBatch | undefined> {
  const [row] = await db.rows<PlannableBatch>(
    'plannable-batch',
    `select batch.id, run.name as run, step, samples, submitted_at, completed_at
     from batch join run on run.id = batch.run_id where batch.id = $1`,
    [id],
  )
  return row
}

/** A run's newest completed training batches, newest first, or null if the run does not exist. */
export async function plannableBatches(
  db: Database,
  run: string,
  limit: number,
): Promise<PlannableBatch[] | null> {
  const [known] = await db.rows<{ id: number }>(
    'run-by-name',
    'select id from run where name = $1',
    [run],
  )
  if (known === undefined) return null
  return db.rows(
    'plannable-batches',
    `select id, $3 as run, step, samples, submitted_at, completed_at from batch
     where run_id = $1 and split = 'train' and status = 'completed' and samples > 0 and rescored_from is null
     order by id desc limit $2`,
    [known.id, limit, run],
  )
}

/** The latencies of a batch's scored and failed samples, in order of their indexes. */
export interface RecordedLatencies {
  /** Time from the first dispatch to the result, retries and their pauses included, ms; 0 if there was no call. */
  scoreMs: Float64Array
  groupNo: Int32Array
  pending: number
  /** Maximum number of samples that were between first dispatch and result at the same time. */
  concurrency: number
}

/**
 * Latencies of a batch. They are read as two texts, which takes 60 ms of the caller's event loop for 65,536 samples;
 * rows would take 250 ms.
 */
export async function recordedLatencies(
  db: Database,
  batchId: number,
  limit: number,
): Promise<RecordedLatencies> {
  const [row] = await db.rows<{
    ms: string | null
    groups: string | null
    pending: number
    concurrency: number
  }>(
    'recorded-latencies',
    `with s as materialized (
       select idx, group_no, status, score_ms,
         coalesce(extract(epoch from dispatched_at) * 1000, 0)::float8 as dispatched_ms
       from sample where batch_id = $1 order by idx limit $2)
     select string_agg(coalesce(score_ms, 0)::text, ',' order by idx) filter (where status >= 2) as ms,
       string_agg(group_no::text, ',' order by idx) filter (where status >= 2) as groups,
       (count(*) filter (where status < 2))::int as pending,
       (select coalesce(max(n), 0)::int from (
          select sum(change) over (order by at, change) as n
          from s, lateral (values (dispatched_ms, 1), (dispatched_ms + score_ms, -1)) of(at, change)
          where score_ms > 0) c) as concurrency
     from s`,
    [batchId, limit],
  )
  const { ms, groups, pending, concurrency } = row as NonNullable<typeof row>
  return {
    scoreMs: Float64Array.from(ms === null ? [] : ms.split(','), Number),
    groupNo: Int32Array.from(groups === null ? [] : groups.split(','), Number),
    pending,
    concurrency,
  }
}
