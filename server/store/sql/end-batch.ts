import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import { notify } from '../channels.ts'
import type { Client, Database } from '../database.ts'

/**
 * Ends a cancelled or failed batch: fails its pending samples with the reason `cancelled`, completes its groups, and
 * stores the end time of the batch. Does nothing for other batches. Safe to repeat, also concurrently.
 */
export async function endUnfinished(db: Database, batchId: number): Promise<void> {
  await db.rows(
    'end-open',
    `select end_pending(id, 'cancelled') from batch where id = $1 and status in ('cancelled', 'failed')`,
    [batchId],
  )
  await settleClosed(db, batchId)
  await db.adhoc(
    `update batch set completed_at = clock_timestamp()
     where id = $1 and status in ('cancelled', 'failed') and completed_at is null and scored + failed = samples`,
    [batchId],
  )
  await notify(db.pool, 'batchChanged', batchId)
}

/**
 * Cancelled or failed batches with samples that still have to be ended: the batch was just cancelled or failed, or a
 * process crashed while it ended them.
 */
export async function batchesToEnd(db: Database): Promise<number[]> {
  const rows = await db.rows<{ id: number }>(
    'batches-to-end',
    `select id from batch where status in ('cancelled', 'failed') and completed_at is null`,
  )
  return rows.map(({ id }) => id)
}

/** Completes the finished groups of a batch, in the transaction that stores samples with given scores. */
export async function settleBatch(client: Client, batchId: number): Promise<void> {
  await client.query('select settle_batch($1)', [batchId])
}

export async function settleClosed(db: Database, batchId: number): Promise<void> {
  await db.rows('settle-batch', 'select settle_batch($1)', [batchId])
}

export interface ClosedBatch {
  run: string
  priority: number
  group_size: number | null
  reward: ResolvedReward
  now: Date
}

/** Closes a batch to new samples; undefined if it was already closed. */
export async function closeBatch(client: Client, id: number): Promise<ClosedBatch | undefined> {
  const { rows } = await client.query<ClosedBatch>(
    `update batch set closed = true, status = case when status = 'open' then 'running' else status end
     from run where batch.id = $1 and not closed and run.id = batch.run_id
     returning run.name as run, priority, group_size, reward, clock_timestamp() as now`,
    [id],
  )
  return rows[0]
}

export async function cancelBatch(client: Client, id: number): Promise<void> {
  await client.query(
    `update batch set closed = true, status = 'cancelled'
     where id = $1 and status in ('open', 'running')`,
    [id],
  )
}

export async function batchesPastDeadline(db: Database): Promise<number[]> {
  const rows = await db.rows<{ id: number }>(
    'batches-past-deadline',
    `select id from batch where status in ('open', 'running') and deadline_at < clock_timestamp()
       and scored + failed < samples`,
  )
  return rows.map(({ id }) => id)
}

export async function endAtDeadline(db: Database, batchId: number): Promise<void> {
  await db.rows('end-pending', 'select end_pending($1, $2)', [batchId, 'deadline'])
}

/** Open batches of `samples.score` that have no pending sample and have received no new sample for `forMs`. */
export async function silentBatches(db: Database, forMs: number): Promise<number[]> {
  const rows = await db.rows<{ id: number }>(
    'batches-silent',
    `select id from batch where status = 'open' and implicit_key is not null and not closed
       and last_append_at < clock_timestamp() - $1 * interval '1 millisecond' and scored + failed = samples`,
    [forMs],
  )
  return rows.map(({ id }) => id)
}

/** Closed batches that still need settling, after a crash between closing and settling. */
export async function halfClosedBatches(db: Database): Promise<number[]> {
  const rows = await db.rows<{ id: number }>(
    'batches-half-closed',
    `select id from batch where status = 'running' and closed and
       (scored + failed = samples or exists (select 1 from sample_group g
          where g.batch_id = batch.id and g.seq is null and g.ended = g.received))`,
  )
  return rows.map(({ id }) => id)
}
