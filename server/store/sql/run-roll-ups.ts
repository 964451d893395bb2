import { CHANGE_STEPS, MAX_CURVE_POINTS } from '../../contract/run-table.ts'
import { plainArray } from '../array-literal.ts'
import { notify } from '../channels.ts'
import type { Client, Database } from '../database.ts'
import { meanOf } from './moments.ts'

/**
 * Returns runs whose roll-up is outdated or lacks ended batches. A run is due again 1 ms per batch (at least 1 s) after
 * its last roll-up, because a roll-up reads all batches of the run, at about 10 µs each.
 */
export async function runsToRollUp(
  db: Database,
  limit: number,
  isDueNow: boolean,
): Promise<number[]> {
  const rows = await db.rows<{ run_id: number }>(
    'runs-to-roll-up',
    `select run_id from (
       select run_id from batch where rolled_up and not in_run_roll_up
       union select run_id from run_roll_up where stale) d
     left join lateral (select updated_at, batches + validation_batches + rescored_batches as n
       from run_roll_up where run_id = d.run_id) r on true
     where $2 or updated_at is null or updated_at < clock_timestamp() - greatest(1000, n) * interval '1 millisecond'
     order by run_id limit $1`,
    [limit, isDueNow],
  )
  return rows.map(({ run_id }) => run_id)
}

interface FiguresRow {
  n: number
  change_steps: number[] | null
  change_means: number[] | null
}

/**
 * Returns the change along the linear trend of the means, from the first step to the last, with its standard error.
 * Returns null for fewer than three means.
 */
export type ChangeOf = (
  steps: readonly number[],
  means: readonly number[],
) => { change: number; error: number } | null

/** Computes and stores the roll-up of a run. Safe to repeat. Concurrent calls wait for each other. */
export async function storeRunRollUp(
  db: Database,
  runId: number,
  changeOf: ChangeOf,
): Promise<void> {
  await db.transaction(async (client) => {
    const held = await client.query({
      name: 'run-roll-up-hold',
      text: 'select from run where id = $1 for no key update',
      values: [runId],
    })
    if (held.rowCount === 0) return
    // Batches are marked before they are read. A batch rolled up in between stays unmarked, so the run is due again.
    await client.query({
      name: 'run-roll-up-mark',
      text: `update batch set in_run_roll_up = true
             where run_id = $1 and not in_run_roll_up and rolled_up`,
      values: [runId],
    })
    await client.query({
      name: 'run-roll-up-delete',
      text: `delete from run_roll_up where run_id = $1
             and not exists (select 1 from batch where run_id = $1 and rolled_up)`,
      values: [runId],
    })
    const { rows } = await client.query<FiguresRow>({
      name: 'store-run-roll-up',
      text: FIGURES,
      values: [runId],
    })
    const row = rows[0]
    if (row !== undefined) await storeChange(client, runId, row, changeOf)
    await notify(client, 'runsChanged')
  })
}

const FIGURES = `
  with b as materialized (
    select id, step, split, rescored_from is not null as rescored, samples, failed, mean, group_signals,
      submitted_at, completed_at
    from batch where run_id = $1 and rolled_up
  ), kind as materialized (
    select case when bool_or(split = 'train' and not rescored) or not bool_or(not rescored) then 'train' else 'val' end as split
    from b
  ), f as materialized (
    select b.* from b join kind using (split) where not rescored
  ), steps as materialized (
    select step, mean, row_number() over (order by step)::int as at, count(*) over ()::int as n
    from (select distinct on (step) step, mean from f order by step, id desc) s where mean is not null
  ), curve as (
    select array_agg(step order by step) as steps, array_agg(mean order by step) as means
    from (select max(step) as step, ${meanOf('mean')} as mean from steps
          group by case when n <= ${MAX_CURVE_POINTS} then at else (at - 1)::bigint * ${MAX_CURVE_POINTS} / n end) c
    where mean is not null
  ), signals as (
    select coalesce(sum(value::int), 0)::int as groups, coalesce(sum(value::int) filter (where key <> 'varied'), 0)::int as no_signal
    from f, jsonb_each_text(group_signals)
  ), totals as (
    select (count(*) filter (where split = 'train' and not rescored))::int as batches,
      (count(*) filter (where split = 'val' and not rescored))::int as validation_batches,
      (count(*) filter (where rescored))::int as rescored_batches, max(id) as last_id,
      coalesce(max(submitted_at) filter (where not rescored), max(submitted_at)) as last_at,
      coalesce(max(completed_at) filter (where not rescored), max(completed_at)) as ended_at, max(step) as any_step from b
  )
  insert into run_roll_up (run_id, split, batches, validation_batches, rescored_batches, last_batch_id, last_at, ended_at,
    last_step, samples, failed, groups, no_signal, mean, best_mean, best_step, change_steps, curve_steps, curve_means,
    reward_name, reward_hash, updated_at)
  select $1, kind.split, batches, validation_batches, rescored_batches, last_id, last_at, ended_at,
    coalesce((select max(step) from f), any_step), (select coalesce(sum(samples), 0) from f),
    (select coalesce(sum(failed), 0) from f), signals.groups, signals.no_signal,
    (select mean from steps order by step desc limit 1), best.mean, best.step, 0, curve.steps, curve.means,
    reward.reward_name, md5(reward.reward::text), clock_timestamp()
  from totals cross join kind cross join signals cross join curve
    left join (select mean, step from steps order by mean desc, step limit 1) best on true
    join batch reward on reward.id = coalesce((select max(id) from f), last_id)
  on conflict (run_id) do update set split = excluded.split, batches = excluded.batches,
    validation_batches = excluded.validation_batches, rescored_batches = excluded.rescored_batches,
    last_batch_id = excluded.last_batch_id, last_at = excluded.last_at, ended_at = excluded.ended_at,
    last_step = excluded.last_step, samples = excluded.samples, failed = excluded.failed, groups = excluded.groups,
    no_signal = excluded.no_signal, mean = excluded.mean, best_mean = excluded.best_mean, best_step = excluded.best_step,
    curve_steps = excluded.curve_steps, curve_means = excluded.curve_means, reward_name = excluded.reward_name,
    reward_hash = excluded.reward_hash, stale = false, updated_at = excluded.updated_at
  returning
    (select array_agg(step order by step) from steps where at > n - ${CHANGE_STEPS}) as change_steps,
    (select array_agg(mean order by step) from steps where at > n - ${CHANGE_STEPS}) as change_means`

async function storeChange(
  client: Client,
  runId: number,
  { change_steps: steps, change_means: means }: FiguresRow,
  changeOf: ChangeOf,
): Promise<void> {
  const change = steps === null || means === null ? null : changeOf(steps, means)
  await client.query({
    name: 'store-run-change',
    text: 'update run_roll_up set change = $2, change_error = $3, change_steps = $4 where run_id = $1',
    values: [runId, change?.change ?? null, change?.error ?? null, steps?.length ?? 0],
  })
}

/**
 * Marks the roll-up of a removed batch's run as outdated. The lock waits for the end of a roll-up in progress, which
 * has already read the batch and would erase the mark.
 */
export async function markRunRollUpStale(client: Client, batchId: number): Promise<void> {
  await client.query({
    name: 'run-roll-up-hold-of',
    text: 'select from run where id = (select run_id from batch where id = $1) for no key update',
    values: [batchId],
  })
  await client.query({
    name: 'run-roll-up-stale',
    text: 'update run_roll_up set stale = true where run_id = (select run_id from batch where id = $1)',
    values: [batchId],
  })
}

/**
 * The last means of runs, oldest first, in the split of their roll-up: training, or validation for runs without
 * training batches.
 */
export async function lastMeans(
  db: Database,
  runIds: readonly number[],
  limit: number,
): Promise<{ run_id: number; steps: number[]; means: number[] }[]> {
  return db.rows(
    'last-means-of-runs',
    `select r.run_id, c.steps, c.means from unnest($1::int[]) as u(id) join run_roll_up r on r.run_id = u.id
     cross join lateral (
       select coalesce(array_agg(step order by step), '{}') as steps, coalesce(array_agg(mean order by step), '{}') as means
       from (select step, mean from (
               select distinct on (step) step, mean from (
                 select step, mean, id from batch
                 where run_id = r.run_id and split = r.split and rescored_from is null and rolled_up
                 order by id desc limit $2::int * 4) newest
               order by step desc, id desc) s
             where mean is not null order by step desc limit $2) p) c`,
    [plainArray(runIds), limit],
  )
}
