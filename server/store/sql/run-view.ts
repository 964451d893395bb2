import type { GroupSignalCounts } from '../../contract/group-signal.ts'
import type { BatchStatus } from '../../contract/trainer.ts'
import type { Database } from '../database.ts'

/** Maximum number of data sources shown per run, largest first. */
const MAX_SOURCES = 12

/** A run with its totals in a split. */
export interface RunRow {
  id: number
  name: string
  seeded: boolean
  created_at: Date
  batches_train: number
  batches_val: number
  samples: number
  scored: number
  failed: number
  rescored_batches: number
  rescored_samples: number
}

/** A run with its totals; rescores are counted separately. */
export async function runByName(
  db: Database,
  name: string,
  split: 'train' | 'val',
): Promise<RunRow | undefined> {
  const [row] = await db.rows<RunRow>(
    'run-by-name-with-totals',
    `select run.id, run.name, run.seeded, run.created_at,
       (count(*) filter (where split = 'train' and rescored_from is null))::int as batches_train,
       (count(*) filter (where split = 'val' and rescored_from is null))::int as batches_val,
       coalesce(sum(samples) filter (where split = $2 and rescored_from is null), 0)::float8 as samples,
       coalesce(sum(scored) filter (where split = $2 and rescored_from is null), 0)::float8 as scored,
       coalesce(sum(failed) filter (where split = $2 and rescored_from is null), 0)::float8 as failed,
       (count(*) filter (where split = $2 and rescored_from is not null))::int as rescored_batches,
       coalesce(sum(samples) filter (where split = $2 and rescored_from is not null), 0)::float8 as rescored_samples
     from run left join batch on batch.run_id = run.id where run.name = $1 group by run.id`,
    [name, split],
  )
  return row
}

/** A step's batch with its roll-up. */
export interface RunStepRow {
  id: number
  step: number
  status: BatchStatus
  others: number
  samples: number
  scored: number
  failed: number
  groups: number
  retries: number
  mean: number | null
  std: number | null
  min: number | null
  max: number | null
  group_signals: GroupSignalCounts | null
  submitted_at: Date
  completed_at: Date | null
  rolled_up: boolean
  reward_name: string
  /** Changes with any part of the reward. */
  reward_hash: string
  substituted: number | null
  n: number | null
  quantiles: number[] | null
  bin_values: number[] | null
  bin_counts: number[] | null
  queue_ms: number[] | null
  score_ms: number[] | null
  reasons: Record<string, number> | null
  verdicts: { verdict: string | null; n: number }[] | null
  mean_error: number | null
}

/** The newest steps of a run, in order, with each step's last batch. Rescores are excluded. */
export async function runSteps(
  db: Database,
  runId: number,
  split: 'train' | 'val',
  limit: number,
  until = 2_147_483_647,
): Promise<RunStepRow[]> {
  return db.rows(
    'run-steps',
    `with last as materialized (
       select max(id) as id, count(*)::int - 1 as others from batch
       where run_id = $1 and split = $2 and rescored_from is null and step <= $4 group by step order by step desc limit $3)
     select b.id, b.step, b.status, last.others, b.samples, b.scored, b.failed, b.groups, b.retries, b.mean, b.std, b.min, b.max,
       b.group_signals, b.submitted_at, b.completed_at, b.rolled_up, b.reward_name, md5(b.reward::text) as reward_hash,
       r.substituted, (select sum(n) from unnest(r.bin_counts) n)::int as n, r.quantiles, r.bin_values, r.bin_counts,
       r.queue_ms, r.score_ms, r.reasons, r.verdicts, r.mean_error
     from last join batch b on b.id = last.id
     left join batch_roll_up r on r.batch_id = b.id and r.data_source = '' and b.rolled_up
     order by b.step`,
    [runId, split, limit, until],
  )
}

/** The numbers of steps before `first` and after `last`. Rescores are excluded. */
export async function stepsOutside(
  db: Database,
  runId: number,
  split: 'train' | 'val',
  first: number,
  last: number,
): Promise<{ earlier: number; later: number }> {
  const [row] = await db.rows<{ earlier: number; later: number }>(
    'steps-outside',
    `select (count(distinct step) filter (where step < $3))::int as earlier,
       (count(distinct step) filter (where step > $4))::int as later
     from batch where run_id = $1 and split = $2 and rescored_from is null`,
    [runId, split, first, last],
  )
  return row!
}

/** A server of a run's models that was registered or removed during the run. */
export interface ServerChangeRow {
  name: string
  model: string
  at: Date
  is_removal: boolean
}

/** Changes of the servers of the models of a batch, oldest first. */
export async function serverChanges(
  db: Database,
  batchId: number,
  from: Date,
  to: Date,
  limit: number,
): Promise<ServerChangeRow[]> {
  return db.rows(
    'run-server-changes',
    `with models as materialized (
       select m #>> '{}' as model from batch, jsonb_path_query(reward, '$.**.model') m
       where id = $1 and jsonb_typeof(m) = 'string')
     select name, model, at, is_removal from (
       select name, model, registered_at as at, false as is_removal from server
       union all select name, model, removed_at, true from server where removed_at is not null) e
     where model in (select model from models) and at > $2 and at <= $3 order by at limit $4`,
    [batchId, from, to, limit],
  )
}

/** A rescored batch of a run. */
export interface RescoreRow {
  step: number
  submitted_at: Date
  reward_name: string
}

/** The newest rescores of a run from step `first` to `last`. */
export async function rescoresOfSteps(
  db: Database,
  runId: number,
  split: 'train' | 'val',
  range: { first: number; last: number; limit: number },
): Promise<RescoreRow[]> {
  return db.rows(
    'run-rescores-of-steps',
    `select step, submitted_at, reward_name from batch
     where run_id = $1 and split = $2 and rescored_from is not null and step between $3 and $4 order by id desc limit $5`,
    [runId, split, range.first, range.last, range.limit],
  )
}

/** The roll-up of a data source at one step. */
export interface SourceRow {
  batch_id: number
  data_source: string
  samples: number
  failed: number
  n: number
  mean: number
  q25: number
  q75: number
}

/** The roll-ups of these batches for their largest data sources. */
export async function sourcesOfBatches(
  db: Database,
  batchIds: readonly number[],
): Promise<SourceRow[]> {
  return db.rows(
    'sources-of-batches',
    `with r as materialized (
       select batch_id, data_source, samples, failed, bin_counts, mean, quantiles from batch_roll_up
       where batch_id = any($1::int[]) and data_source <> ''),
     largest as (select data_source from r group by 1 order by sum(samples) desc, 1 limit ${MAX_SOURCES})
     select batch_id, data_source, samples, failed, (select sum(n) from unnest(bin_counts) n)::int as n, mean,
       quantiles[2] as q25, quantiles[4] as q75
     from r where data_source in (select data_source from largest) and mean is not null order by batch_id`,
    [batchIds],
  )
}
