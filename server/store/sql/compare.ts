import type { GroupSignalCounts } from '../../contract/group-signal.ts'
import type { Database } from '../database.ts'
import type { StepsOfRun } from './run-view.ts'

/** Maximum number of batches, newest first, that are searched for rescores. */
const MAX_SEARCHED = 5_000

/** A page of a batch's samples as columns, in order of index. */
export interface ComparedColumns {
  /** 0: pending, 1: scored, 2: failed, 3: substituted by a failure policy. */
  state: number[]
  score: (number | null)[]
  group_no: number[]
  data_source: string[]
}

/**
 * Samples `from` to `to` (excluded) as one JSON text, because rows would take five times as long on the server's
 * event loop.
 */
export async function comparedColumns(
  db: Database,
  batchId: number,
  from: number,
  to: number,
): Promise<ComparedColumns> {
  const [row] = await db.rows<{ c: ComparedColumns }>(
    'compared-columns',
    `select json_build_object('state', coalesce(json_agg(state), '[]'), 'score', coalesce(json_agg(score), '[]'),
       'group_no', coalesce(json_agg(group_no), '[]'), 'data_source', coalesce(json_agg(data_source), '[]')) as c
     from (select case when status < 2 then 0 when status = 3 then 2 when substituted or score is null then 3 else 1 end as state,
             score, group_no, data_source
           from sample where batch_id = $1 and idx >= $2 and idx < $3 order by batch_id, idx) s`,
    [batchId, from, to],
  )
  return row!.c
}

/** The uids of groups `from` to `to` (excluded), in order of number. */
export async function comparedUids(
  db: Database,
  batchId: number,
  from: number,
  to: number,
): Promise<string[]> {
  const [row] = await db.rows<{ uids: string[] }>(
    'compared-uids',
    `select coalesce(json_agg(uid order by no), '[]') as uids from sample_group
     where batch_id = $1 and no >= $2 and no < $3`,
    [batchId, from, to],
  )
  return row!.uids
}

/**
 * 53 bits of the hash of each response, in order of index; null if the text was removed. Postgres reads the texts, in
 * 20 ms per 1,024 texts of 4 kB, and sends only the hashes.
 */
export async function responseHashes(
  db: Database,
  batchId: number,
  bucket: string,
  from: number,
  to: number,
): Promise<(number | null)[]> {
  const [row] = await db.rows<{ hashes: (number | null)[] }>(
    'response-hashes',
    `select coalesce(json_agg(hash), '[]') as hashes from (
       select (select hashtextextended(t.response, 0) & 9007199254740991 from sample_text t
               where t.bucket = $2::date and t.batch_id = s.batch_id and t.idx = s.idx) as hash
       from sample s where s.batch_id = $1 and s.idx >= $3 and s.idx < $4 order by s.batch_id, s.idx) h`,
    [batchId, bucket, from, to],
  )
  return row!.hashes
}

/**
 * The other batches with the same rollouts: the original batch, all rescores of the original, and rescores of those
 * rescores.
 */
export async function batchesOfSameRollouts(
  db: Database,
  batchId: number,
  limit: number,
): Promise<number[]> {
  const rows = await db.rows<{ id: number }>(
    'batches-of-same-rollouts',
    `with recursive up(id, origin, depth) as (
       select id, rescored_from, 0 from batch where id = $1
       union all select b.id, b.rescored_from, up.depth + 1 from up join batch b on b.id = up.origin where up.depth < 20),
     down(id, depth) as (
       select id, 0 from (select id from up order by depth desc limit 1) root
       union all select b.id, down.depth + 1 from down join batch b on b.rescored_from = down.id where down.depth < 20)
     select id from down where id <> $1 order by id limit $2`,
    [batchId, limit],
  )
  return rows.map(({ id }) => id)
}

/** A batch and its chain of origins, with their numbers of samples. */
export async function rescoreChain(
  db: Database,
  batchId: number,
): Promise<{ id: number; samples: number }[]> {
  return db.rows(
    'rescore-chain',
    `with recursive up(id, origin, samples, depth) as (
       select id, rescored_from, samples, 0 from batch where id = $1
       union all select b.id, b.rescored_from, b.samples, up.depth + 1
       from up join batch b on b.id = up.origin where up.depth < 20)
     select id, samples from up order by depth`,
    [batchId],
  )
}

export async function batchesOfSameStep(
  db: Database,
  batchId: number,
  limit: number,
): Promise<number[]> {
  const rows = await db.rows<{ id: number }>(
    'batches-of-same-step',
    `select b.id from (select run_id, step, split from batch where id = $1) a
     join batch b on b.run_id = a.run_id and b.step = a.step and b.split = a.split
     where b.id <> $1 order by b.id desc limit $2`,
    [batchId, limit],
  )
  return rows.map(({ id }) => id)
}

export async function newestRescores(
  db: Database,
  run: string | null,
  limit: number,
): Promise<{ id: number; origin: number }[]> {
  return db.rows(
    'newest-rescores',
    `select id, rescored_from as origin from (
       select id, rescored_from from batch
       where $1::text is null or run_id = (select id from run where name = $1) order by id desc limit ${MAX_SEARCHED}) b
     where rescored_from is not null order by id desc limit $2`,
    [run, limit],
  )
}

export interface RunColumns {
  batch: number[]
  step: number[]
  rolled_up: boolean[]
  n: (number | null)[]
  mean: (number | null)[]
  std: (number | null)[]
  mean_error: (number | null)[]
  quantiles: (number[] | null)[]
  scored: number[]
  failed: number[]
  group_signals: (GroupSignalCounts | null)[]
  wait_ms: (number | null)[]
}

export interface NamedRunRow {
  id: number
  name: string
  seeded: boolean
  reward_name: string | null
  reward_hash: string | null
}

export async function runsByName(db: Database, names: readonly string[]): Promise<NamedRunRow[]> {
  return db.rows(
    'runs-by-name',
    `select run.id, run.name, run.seeded, r.reward_name, r.reward_hash
     from run left join run_roll_up r on r.run_id = run.id where run.name = any($1::text[])`,
    [[...names]],
  )
}

export async function runColumns(
  db: Database,
  { runId, split, first, last }: StepsOfRun,
): Promise<RunColumns> {
  const [row] = await db.rows<{ c: RunColumns }>(
    'run-columns',
    `with last as materialized (
       select max(id) as id from batch
       where run_id = $1 and split = $2 and rescored_from is null and step between $3 and $4 group by step),
     s as materialized (
       select b.id, b.step, b.rolled_up, b.mean, b.std, r.mean_error, b.scored, b.failed, b.group_signals,
         extract(epoch from b.completed_at - b.submitted_at)::float8 * 1000 as wait_ms, r.quantiles,
         (select sum(n) from unnest(r.bin_counts) n)::int as n
       from last join batch b on b.id = last.id
       left join batch_roll_up r on r.batch_id = b.id and r.data_source = '' and b.rolled_up)
     select json_build_object(
       'batch', coalesce(json_agg(id order by step), '[]'), 'step', coalesce(json_agg(step order by step), '[]'),
       'rolled_up', coalesce(json_agg(rolled_up order by step), '[]'), 'n', coalesce(json_agg(n order by step), '[]'),
       'mean', coalesce(json_agg(mean order by step), '[]'), 'std', coalesce(json_agg(std order by step), '[]'),
       'mean_error', coalesce(json_agg(mean_error order by step), '[]'),
       'quantiles', coalesce(json_agg(quantiles order by step), '[]'),
       'scored', coalesce(json_agg(scored order by step), '[]'), 'failed', coalesce(json_agg(failed order by step), '[]'),
       'group_signals', coalesce(json_agg(group_signals order by step), '[]'),
       'wait_ms', coalesce(json_agg(wait_ms order by step), '[]')) as c from s`,
    [runId, split, first, last],
  )
  return row!.c
}

export interface SourceStepRow {
  batch_id: number
  data_source: string
  samples: number
  n: number
  mean: number
  mean_error: number | null
}

export async function sourceSteps(
  db: Database,
  batchIds: readonly number[],
  most: number,
): Promise<SourceStepRow[]> {
  return db.rows(
    'source-steps',
    `with r as materialized (
       select batch_id, data_source, samples, bin_counts, mean, mean_error from batch_roll_up
       where batch_id = any($1::int[]) and data_source <> ''),
     largest as (select data_source from r group by 1 order by sum(samples) desc, 1 limit $2)
     select batch_id, data_source, samples, (select sum(n) from unnest(bin_counts) n)::int as n, mean, mean_error
     from r where data_source in (select data_source from largest) and mean is not null order by batch_id`,
    [[...batchIds], most],
  )
}
