import type { ClientBase } from 'pg'
import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import { ADVISORY_LOCKS } from '../advisory-locks.ts'
import type { Client } from '../database.ts'

/** SQL of the unfinished jobs of batch `$1`. */
const LIVE_JOBS = `pgboss.job j where j.state in ('created', 'retry', 'active') and (j.data ->> 'b')::int = $1`

/** A batch with samples to score, and the number of its scored and failed samples. */
export interface UnfinishedBatch {
  id: number
  ended: number
  run: string
  priority: number
  closed: boolean
  reward: ResolvedReward
  now: Date
}

export async function unfinishedBatches(
  client: Pick<ClientBase, 'query'>,
): Promise<UnfinishedBatch[]> {
  const { rows } = await client.query<UnfinishedBatch>({
    name: 'unfinished-batches',
    text: `select batch.id, scored + failed as ended, run.name as run, priority, closed, reward, clock_timestamp() as now
     from batch join run on run.id = batch.run_id
     where status in ('open', 'running') and scored + failed < samples`,
  })
  return rows
}

/**
 * Takes the lock for requeueing a batch's orphans until the transaction ends, and limits each statement of the
 * transaction to 10 s. Returns false if another server holds the lock.
 */
export async function lockOrphans(client: Client, batchId: number): Promise<boolean> {
  await client.query('set local lock_timeout = 10000; set local statement_timeout = 10000')
  const { rows } = await client.query<{ locked: boolean }>(
    'select pg_try_advisory_xact_lock($1, $2) as locked',
    [ADVISORY_LOCKS.orphans, batchId],
  )
  return rows[0]!.locked
}

/**
 * Pending samples that no job holds, in order of index. One statement reads both samples and jobs, so both come from
 * one snapshot, in which each pending sample should have a job. `groups`: `full` leaves out the samples of groups that
 * are not full.
 */
export async function orphanedSamples(
  client: ClientBase,
  batchId: number,
  groups: 'all' | 'full',
): Promise<{ idx: number; group_no: number }[]> {
  const { rows } = await client.query<{ idx: number; group_no: number }>(
    `with held as (
       select coalesce(range_agg(int4range((j.data -> 'i' ->> k)::int, (j.data -> 'i' ->> (k + 1))::int, '[]')),
                       '{}'::int4multirange) as indexes
       from (select j.data from ${LIVE_JOBS}) j, generate_series(0, jsonb_array_length(j.data -> 'i') - 2, 2) k)
     select idx, group_no from sample, held
     where batch_id = $1 and status = 0 and not idx <@ held.indexes
       and ($2 or group_no in (
         select g.no from sample_group g join batch b on b.id = g.batch_id
         where g.batch_id = $1 and g.received = b.group_size))
     order by idx`,
    [batchId, groups === 'all'],
  )
  return rows
}

/**
 * Unmarks groups that are marked as queued for post-processing but have no job, so that they are queued again.
 * Returns the number of staged samples of each group.
 */
export async function unmarkOrphanedGroups(client: ClientBase, batchId: number): Promise<number[]> {
  const { rows } = await client.query<{ no: number; staged: number }>(
    `with held as (
       select (jsonb_array_elements_text(j.data -> 'g'))::int as no from ${LIVE_JOBS})
     update sample_group g set post_queued = false
     where batch_id = $1 and post_queued and seq is null and no not in (select no from held)
       and exists (select from sample s where s.batch_id = $1 and s.group_no = g.no and s.status = 1)
     returning no, (select count(*)::int from sample s where s.batch_id = $1 and s.group_no = g.no and s.status = 1) as staged`,
    [batchId],
  )
  return rows.map(({ staged }) => staged)
}
