import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import type { Client, Database } from '../database.ts'
import { notify } from './notify.ts'

/**
 * Ends what a cancelled or failed batch still has open, and the batch with it: its pending samples as `cancelled`, its
 * groups, its time. Does nothing for other batches; safe to repeat, and to be done by several at once.
 */
export async function endWhatIsOpen(db: Database, batchId: number): Promise<void> {
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
  await notify(db.pool, `b${batchId}`)
}

/** Batches that were cancelled, or failed, and have something open still: a crash came between, or they failed just now. */
export async function batchesToEnd(db: Database): Promise<number[]> {
  const rows = await db.rows<{ id: number }>(
    'batches-to-end',
    `select id from batch where status in ('cancelled', 'failed') and completed_at is null`,
  )
  return rows.map(({ id }) => id)
}

/** Completes what samples that came with a score have already finished, in the transaction that stores these. */
export async function settleBatch(client: Client, batchId: number): Promise<void> {
  await client.query('select settle_batch($1)', [batchId])
}

/** Completes what a closed batch has already finished. */
export async function settleClosed(db: Database, batchId: number): Promise<void> {
  await db.rows('settle-batch', 'select settle_batch($1)', [batchId])
}

/** What queueing the rest of a closed batch takes. */
export interface ClosedBatch {
  run: string
  priority: number
  group_size: number | null
  reward: ResolvedReward
  now: Date
}

/** Marks a batch as closed to new samples; undefined where it was already. */
export async function closeBatch(client: Client, id: number): Promise<ClosedBatch | undefined> {
  const { rows } = await client.query<ClosedBatch>(
    `update batch set closed = true, status = case when status = 'open' then 'running' else status end
     from run where batch.id = $1 and not closed and run.id = batch.run_id
     returning run.name as run, priority, group_size, reward, clock_timestamp() as now`,
    [id],
  )
  return rows[0]
}

/** Marks a batch as cancelled, unless it has ended. */
export async function cancelBatch(client: Client, id: number): Promise<void> {
  await client.query(
    `update batch set closed = true, status = 'cancelled'
     where id = $1 and status in ('open', 'running')`,
    [id],
  )
}

/** Batches whose deadline has passed, with pending samples. */
export async function batchesPastDeadline(db: Database): Promise<number[]> {
  const rows = await db.rows<{ id: number }>(
    'batches-past-deadline',
    `select id from batch where status in ('open', 'running') and deadline_at < clock_timestamp()
       and scored + failed < samples`,
  )
  return rows.map(({ id }) => id)
}

/** Ends the pending samples of a batch with the reason `deadline`. */
export async function endAtDeadline(db: Database, batchId: number): Promise<void> {
  await db.rows('end-pending', 'select end_pending($1, $2)', [batchId, 'deadline'])
}

/** Open implicit batches whose samples have all ended, and that got none for a while. */
export async function silentBatches(db: Database, forMs: number): Promise<number[]> {
  const rows = await db.rows<{ id: number }>(
    'batches-silent',
    `select id from batch where status = 'open' and implicit_key is not null and not closed
       and last_append_at < clock_timestamp() - $1 * interval '1 millisecond' and scored + failed = samples`,
    [forMs],
  )
  return rows.map(({ id }) => id)
}

/** Closed batches with something left to settle: a crash came between closing and settling. */
export async function halfClosedBatches(db: Database): Promise<number[]> {
  const rows = await db.rows<{ id: number }>(
    'batches-half-closed',
    `select id from batch where status = 'running' and closed and
       (scored + failed = samples or exists (select 1 from sample_group g
          where g.batch_id = batch.id and g.seq is null and g.ended = g.received))`,
  )
  return rows.map(({ id }) => id)
}
