import type { GroupSignalCounts } from '../../contract/group-signal.ts'
import type { BatchStatus } from '../../contract/trainer.ts'
import type { Database } from '../database.ts'

export const MAX_SOURCES = 12

export interface RunRow {
  id: number
  name: string
  seeded: boolean
  created_at: Date
  started_at: Date | null
  batches_train: number
  batches_val: number
  samples: number
  scored: number
  failed: number
  rescored_batches: number
  rescored_samples: number
  /**
   * Change along the linear trend of the run's means; null if there is no trend, or if the trend was computed for the
   * other split.
   */
  change: number | null
  change_error: number | null
  change_steps: number
}

export async function runByName(
  db: Database,
  name: string,
  split: 'train' | 'val',
): Promise<RunRow | undefined> {
  const [row] = await db.rows<RunRow>(
    'run-by-name-with-totals',
    `select run.id, run.name, run.seeded, run.created_at,
       min(submitted_at) filter (where batch.split = $2 and rescored_from is null) as started_at,
       (count(*) filter (where batch.split = 'train' and rescored_from is null))::int as batches_train,
       (count(*) filter (where batch.split = 'val' and rescored_from is null))::int as batches_val,
       coalesce(sum(batch.samples) filter (where batch.split = $2 and rescored_from is null), 0)::float8 as samples,
       coalesce(sum(scored) filter (where batch.split = $2 and rescored_from is null), 0)::float8 as scored,
       coalesce(sum(batch.failed) filter (where batch.split = $2 and rescored_from is null), 0)::float8 as failed,
       (count(*) filter (where batch.split = $2 and rescored_from is not null))::int as rescored_batches,
       coalesce(sum(batch.samples) filter (where batch.split = $2 and rescored_from is not null), 0)::float8 as rescored_samples,
       roll_up.change, roll_up.change_error, coalesce(roll_up.change_steps, 0) as change_steps
     from run left join batch on batch.run_id = run.id
       left join run_roll_up roll_up on roll_up.run_id = run.id and roll_up.split = $2
     where run.name = $1 group by run.id, roll_up.run_id`,
    [name, split],
  )
  return row
}

export interface StepsOfRun {
  runId: number
  split: 'train' | 'val'
  first: number
  last: number
}

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

/** The newest steps of a range, in order, with each step's last batch. Rescores are excluded. */
export async function runSteps(
  db: Database,
  { runId, split, first, last }: StepsOfRun,
  limit: number,
): Promise<RunStepRow[]> {
  return db.rows(
    'run-steps',
    `with last as materialized (
       select max(id) as id, count(*)::int - 1 as others from batch
       where run_id = $1 and split = $2 and rescored_from is null and step between $3 and $4 group by step order by step desc limit $5)
     select b.id, b.step, b.status, last.others, b.samples, b.scored, b.failed, b.groups, b.retries, b.mean, b.std, b.min, b.max,
       b.group_signals, b.submitted_at, b.completed_at, b.rolled_up, r.substituted, (select sum(n) from unnest(r.bin_counts) n)::int as n, r.quantiles, r.bin_values, r.bin_counts,
       r.queue_ms, r.score_ms, r.reasons, r.verdicts, r.mean_error
     from last join batch b on b.id = last.id
     left join batch_roll_up r on r.batch_id = b.id and r.data_source = '' and b.rolled_up
     order by b.step`,
    [runId, split, first, last, limit],
  )
}

export interface StepRangeRow {
  steps: number
  /** The first and the last step in the range; null if there is none. */
  first: number | null
  last: number | null
  earlier: number
  later: number
}

export async function stepRange(
  db: Database,
  { runId, split, first, last }: StepsOfRun,
): Promise<StepRangeRow> {
  const [row] = await db.rows<StepRangeRow>(
    'step-range',
    `select (count(*) filter (where step between $3 and $4))::int as steps,
       min(step) filter (where step between $3 and $4) as first, max(step) filter (where step between $3 and $4) as last,
       (count(*) filter (where step < $3))::int as earlier, (count(*) filter (where step > $4))::int as later
     from (select distinct step from batch where run_id = $1 and split = $2 and rescored_from is null) s`,
    [runId, split, first, last],
  )
  return row!
}

export interface RewardChangeRow {
  step: number
  submitted_at: Date
  reward_name: string
  before: string
}

/** The newest steps, within a range of steps, at which any field of the reward changed. */
export async function rewardChanges(
  db: Database,
  { runId, split, first, last }: StepsOfRun,
  limit: number,
): Promise<RewardChangeRow[]> {
  return db.rows(
    'run-reward-changes',
    `with last as materialized (
       select max(id) as id from batch
       where run_id = $1 and split = $2 and rescored_from is null and step between $3 and $4 group by step),
     s as (
       select step, submitted_at, reward_name, lag(reward_name) over w as before,
         md5(reward::text) <> lag(md5(reward::text)) over w as is_change
       from last join batch b on b.id = last.id window w as (order by step))
     select step, submitted_at, reward_name, before from s where is_change order by step desc limit $5`,
    [runId, split, first, last, limit],
  )
}

export interface ServerChangeRow {
  name: string
  model: string
  at: Date
  is_removal: boolean
  /** The step of the first batch submitted after the change. */
  step: number
}

/** The newest registrations and removals of servers for the models of a batch's reward, newest first. */
export async function serverChanges(
  db: Database,
  batchId: number,
  steps: StepsOfRun,
  { from, to }: { from: Date; to: Date },
  limit: number,
): Promise<ServerChangeRow[]> {
  return db.rows(
    'run-server-changes',
    `with models as materialized (
       select m #>> '{}' as model from batch, jsonb_path_query(reward, '$.**.model') m
       where id = $1 and jsonb_typeof(m) = 'string')
     select name, model, at, is_removal, coalesce((
         select step from batch where run_id = $5 and split = $6 and rescored_from is null and step between $7 and $8
           and submitted_at >= e.at order by id limit 1), $8) as step
     from (
       select name, model, registered_at as at, false as is_removal from server
       union all select name, model, removed_at, true from server where removed_at is not null) e
     where model in (select model from models) and at > $2 and at <= $3 order by at desc limit $4`,
    [batchId, from, to, limit, steps.runId, steps.split, steps.first, steps.last],
  )
}

export interface RescoreRow {
  step: number
  submitted_at: Date
  reward_name: string
}

export async function rescoresOfSteps(
  db: Database,
  { runId, split, first, last }: StepsOfRun,
  limit: number,
): Promise<RescoreRow[]> {
  return db.rows(
    'run-rescores-of-steps',
    `select step, submitted_at, reward_name from batch
     where run_id = $1 and split = $2 and rescored_from is not null and step between $3 and $4 order by id desc limit $5`,
    [runId, split, first, last, limit],
  )
}

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
