import type { ClientBase } from 'pg'
import { ADVISORY_LOCKS } from './advisory-locks.ts'
import type { Database } from './database.ts'

/** Returns the UTC day of a time. The partition of that day holds the texts stored at that time. */
export function textBucket(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10)
}

/**
 * Returns the day, in UTC, whose partition receives new texts, or the day `daysAhead` days later, and creates that
 * day's partition. The current day comes from the database's clock, because retention uses that clock to decide which
 * partitions to drop.
 */
export async function currentTextBucket(db: Database, daysAhead = 0): Promise<string> {
  const [row] = await db.rows<{ bucket: string; exists: boolean }>(
    'text-bucket',
    `select day::text as bucket, to_regclass('sample_text_' || to_char(day, 'YYYYMMDD')) is not null as exists
     from (select (clock_timestamp() at time zone 'UTC')::date + $1::int as day) d`,
    [daysAhead],
  )
  const { bucket, exists } = row!
  if (!exists) await makeTextPartition(db, bucket)
  return bucket
}

export function textPartition(bucket: string): string {
  return `sample_text_${bucket.replaceAll('-', '')}`
}

/**
 * Creates the partition of a day. Retention drops partitions instead of deleting rows. Rows up to 8 kB stay inline,
 * because with the default of 2 kB every rollout of 3 kB would go to TOAST, with an index entry per chunk.
 */
export async function ensureTextPartition(db: Database, bucket: string): Promise<void> {
  const name = textPartition(bucket)
  const found = await db.adhoc<{ found: string | null }>('select to_regclass($1)::text as found', [
    name,
  ])
  if (found[0]?.found) return
  await makeTextPartition(db, bucket)
}

function makeTextPartition(db: Database, bucket: string): Promise<void> {
  return db.transaction(async (client) => {
    await client.query('select pg_advisory_xact_lock($1)', [ADVISORY_LOCKS.textPartition])
    await createTextPartition(client, bucket)
  })
}

export async function createTextPartition(
  client: Pick<ClientBase, 'query'>,
  bucket: string,
): Promise<void> {
  const name = textPartition(bucket)
  const nextDay = new Date(Date.parse(bucket) + 86_400_000).toISOString().slice(0, 10)
  await client.query(
    `create table if not exists ${name} partition of sample_text
     for values from ('${bucket}') to ('${nextDay}')`,
  )
  await client.query(`alter table ${name} set (toast_tuple_target = 8160)`)
}
