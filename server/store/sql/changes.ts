import type { Database } from '../database.ts'
import { type ComponentStatsRow, numberAt } from './components.ts'
import { correlationOf } from './moments.ts'

/** The last batch of a step, if it has a roll-up with a mean and its samples have not been removed by retention. */
export interface ScoredStepRow {
  id: number
  step: number
  mean: number
}

/** The newest of a run's {@link ScoredStepRow}s, in order. Rescores are excluded. */
export async function scoredSteps(
  db: Database,
  runId: number,
  split: 'train' | 'val',
  limit: number,
): Promise<ScoredStepRow[]> {
  return db.rows(
    'scored-steps',
    `with last as materialized (
       select max(id) as id from batch
       where run_id = $1 and split = $2 and rescored_from is null group by step order by step desc limit $3)
     select b.id, b.step, b.mean from last join batch b on b.id = last.id
     where b.rolled_up and b.mean is not null and b.samples_removed_at is null order by b.step`,
    [runId, split, limit],
  )
}

export interface ChangeStepRow extends ScoredStepRow {
  samples: number
  /** Number of samples in the statistics. */
  n: number
  groups: number
  /** Hash of the whole reward. */
  reward_hash: string
  /** Weights by component, or null if the reward has no components. */
  weights: Record<string, number> | null
  components: ComponentStatsRow[] | null
}

export async function changeSteps(
  db: Database,
  steps: readonly ScoredStepRow[],
): Promise<ChangeStepRow[]> {
  return db.rows(
    'change-steps',
    `select b.id, b.step, b.samples, b.mean, b.groups, md5(b.reward::text) as reward_hash,
       (select sum(n) from unnest(r.bin_counts) n)::int as n, r.components,
       (select json_object_agg(c.name, c.weight)
        from jsonb_to_recordset(b.reward -> 'components') as c(name text, weight float8)) as weights
     from batch b join batch_roll_up r on r.batch_id = b.id and r.data_source = ''
     where b.id = any($1::int[]) order by b.step`,
    [steps.map(({ id }) => id)],
  )
}

/** Sample counts by group, data source and verdict, as columns, because one JSON text is parsed faster than rows. */
export interface GroupCells {
  batch_id: number[]
  group_no: number[]
  data_source: string[]
  verdict: (string | null)[]
  n: number[]
  sum: number[]
}

export async function groupCells(
  db: Database,
  batchIds: readonly number[],
  dataSource: string | null,
): Promise<GroupCells> {
  const [row] = await db.rows<{ c: GroupCells }>(
    'change-group-cells',
    `select json_build_object('batch_id', coalesce(json_agg(batch_id), '[]'), 'group_no', coalesce(json_agg(group_no), '[]'),
       'data_source', coalesce(json_agg(data_source), '[]'), 'verdict', coalesce(json_agg(verdict), '[]'),
       'n', coalesce(json_agg(n), '[]'), 'sum', coalesce(json_agg(sum), '[]')) as c
     from (select batch_id, group_no, data_source, verdict, count(*) as n, sum(score) as sum from sample
           where batch_id = any($1::int[]) and status = 2 and not substituted and ($2::text is null or data_source = $2)
           group by 1, 2, 3, 4 order by 1, 2) t`,
    [batchIds, dataSource],
  )
  return row!.c
}

/** Samples that the mean leaves out, by reason; `substituted` stands for scores set or removed by a failure policy. */
export async function excludedSamples(
  db: Database,
  batchIds: readonly number[],
  dataSource: string | null,
): Promise<{ reason: string; n: number }[]> {
  return db.rows(
    'change-excluded',
    `select case when substituted and status = 2 then 'substituted' else reason end as reason, count(*)::int as n from sample
     where batch_id = any($1::int[]) and (status = 3 or substituted) and ($2::text is null or data_source = $2)
     group by 1 order by 2 desc, 1`,
    [batchIds, dataSource],
  )
}

/** The prompt of each group; groups with an empty prompt are left out. */
export interface GroupPrompts {
  batch_id: number[]
  group_no: number[]
  prompt_key: string[]
  uid: string[]
}

export async function groupPrompts(
  db: Database,
  batchIds: readonly number[],
): Promise<GroupPrompts> {
  const [row] = await db.rows<{ c: GroupPrompts }>(
    'change-group-prompts',
    `select json_build_object('batch_id', coalesce(json_agg(batch_id), '[]'), 'group_no', coalesce(json_agg(no), '[]'),
       'prompt_key', coalesce(json_agg(encode(prompt_key, 'hex')), '[]'), 'uid', coalesce(json_agg(uid), '[]')) as c
     from sample_group where batch_id = any($1::int[]) and prompt_key is not null`,
    [batchIds],
  )
  return row!.c
}

/** The data sources of batches, the largest 64 of each. */
export async function dataSourcesOfBatches(
  db: Database,
  batchIds: readonly number[],
): Promise<string[]> {
  const rows = await db.rows<{ data_source: string }>(
    'change-data-sources',
    `select distinct data_source from batch_roll_up
     where batch_id = any($1::int[]) and data_source <> '' order by 1`,
    [batchIds],
  )
  return rows.map(({ data_source }) => data_source)
}

/** Statistics of the counted samples of a whole batch, from its roll-ups. */
export interface RollUpCell {
  batch_id: number
  data_source: string
  n: number
  mean: number
  verdicts: { verdict: string | null; n: number; mean: number | null }[] | null
}

/** The roll-ups of batches by data source; `''` stands for all data sources together. */
export async function rollUpCells(
  db: Database,
  batchIds: readonly number[],
): Promise<RollUpCell[]> {
  return db.rows(
    'change-roll-up-cells',
    `select batch_id, data_source, (select sum(n) from unnest(bin_counts) n)::int as n, mean, verdicts
     from batch_roll_up where batch_id = any($1::int[]) and mean is not null order by batch_id`,
    [batchIds],
  )
}

export interface ComponentCell {
  batch_id: number
  group_no: number
  n: number
  sum: number
  /** One sum per component, in the order of the `names` given to {@link componentCells}. */
  sums: (number | null)[]
}

/** The sums of components by group. A value that is not a number counts as 0. */
export async function componentCells(
  db: Database,
  batchIds: readonly number[],
  names: readonly string[],
  dataSource: string | null,
): Promise<ComponentCell[]> {
  return db.rows(
    'change-component-cells',
    `select batch_id, group_no, count(*)::int as n, sum(score) as sum,
       (select array_agg(v order by at) from (
          select p.at, sum(${numberAt('e', 'p.name')}) as v
          from unnest($2::text[]) with ordinality as p(name, at), unnest(array_agg(extra)) e group by p.at) c) as sums
     from (select batch_id, group_no, score, readable_json(reward_extra) as extra from sample
           where batch_id = any($1::int[]) and status = 2 and not substituted and ($3::text is null or data_source = $3)) s
     group by 1, 2`,
    [batchIds, [...names], dataSource],
  )
}

/**
 * Mean response length, and its correlation with the score, which is null if one of the two does not vary or exceeds
 * 1e140.
 */
export async function lengthFigures(
  db: Database,
  batchIds: readonly number[],
  dataSource: string | null,
): Promise<{ mean: number | null; correlation: number | null }> {
  const [row] = await db.rows<{ mean: number | null; correlation: number | null }>(
    'change-lengths',
    `select avg(response_length)::float8 as mean, ${correlationOf('response_length::float8', 'score')} as correlation from sample
     where batch_id = any($1::int[]) and status = 2 and not substituted and response_length is not null
       and ($2::text is null or data_source = $2)`,
    [batchIds, dataSource],
  )
  return row!
}
