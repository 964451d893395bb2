import type { Database } from '../database.ts'

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
  await db.rows('settle-batch', 'select settle_batch($1)', [batchId])
  await db.adhoc(
    `update batch set completed_at = clock_timestamp()
     where id = $1 and status in ('cancelled', 'failed') and completed_at is null and scored + failed = samples`,
    [batchId],
  )
  await db.adhoc("select pg_notify('rewardops', $1)", [`b${batchId}`])
}

/** Batches that were cancelled, or failed, and have something open still: a crash came between, or they failed just now. */
export async function batchesToEnd(db: Database): Promise<number[]> {
  const rows = await db.rows<{ id: number }>(
    'batches-to-end',
    `select id from batch where status in ('cancelled', 'failed') and completed_at is null`,
  )
  return rows.map(({ id }) => id)
}
