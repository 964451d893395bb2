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
  steps: number
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
       (count(distinct step) filter (where split = $2 and rescored_from is null))::int as steps,
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
): Promise<RunStepRow[]> {
  return db.rows(
    'run-steps',
    `with last as materialized (
       select max(id) as id, count(*)::int - 1 as others from batch
       where run_id = $1 and split = $2 and rescored_from is null group by step order by step desc limit $3)
     select b.id, b.step, b.status, last.others, b.samples, b.scored, b.failed, b.groups, b.retries, b.mean, b.std, b.min, b.max,
       b.group_signals, b.submitted_at, b.completed_at, b.rolled_up, b.reward_name, md5(b.reward::text) as reward_hash,
       r.substituted, (select sum(n) from unnest(r.bin_counts) n)::int as n, r.quantiles, r.bin_values, r.bin_counts,
       r.queue_ms, r.score_ms, r.reasons, r.verdicts, r.mean_error
     from last join batch b on b.id = last.id
     left join batch_roll_up r on r.batch_id = b.id and r.data_source = '' and b.rolled_up
     order by b.step`,
    [runId, split, limit],
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
