import type { RunLimitValues } from '../../contract/limits.ts'
import { ADVISORY_LOCKS } from '../advisory-locks.ts'
import type { Client, Database } from '../database.ts'

/** Limits of a run. The run `''` stands for the default for runs without their own limits. */
export interface RunLimitRow {
  run: string
  max_queued_samples: number | null
  max_open_batches: number | null
  max_priority: number | null
  changed_at: Date
  changed_by: string
}

export function allLimits(db: Database, limit: number): Promise<RunLimitRow[]> {
  return db.rows(
    'run-limits',
    `select run, max_queued_samples, max_open_batches, max_priority, changed_at, changed_by
     from run_limit order by run limit $1`,
    [limit],
  )
}

export async function setLimits(
  db: Database,
  run: string,
  { maxQueuedSamples, maxOpenBatches, maxPriority }: RunLimitValues,
  by: string,
): Promise<void> {
  await db.adhoc(
    `insert into run_limit (run, max_queued_samples, max_open_batches, max_priority, changed_by)
     values ($1, $2, $3, $4, $5)
     on conflict (run) do update set max_queued_samples = excluded.max_queued_samples,
       max_open_batches = excluded.max_open_batches, max_priority = excluded.max_priority,
       changed_by = excluded.changed_by, changed_at = now()`,
    [run, maxQueuedSamples, maxOpenBatches, maxPriority, by],
  )
}

export async function clearLimits(db: Database, run: string): Promise<void> {
  await db.adhoc('delete from run_limit where run = $1', [run])
}

export interface RunUsage {
  queued: number
  batches: number
}

const USAGE = `select coalesce(sum(samples - scored - failed), 0)::int8::float8 as queued, count(*)::int as batches
  from batch where run_id = $1 and status in ('open', 'running')`

/** Counts a run's unfinished work and locks it against additions until the transaction ends. */
export async function usageHeld(client: Client, runId: number): Promise<RunUsage> {
  await client.query('select pg_advisory_xact_lock($1, $2)', [ADVISORY_LOCKS.runLimits, runId])
  const { rows } = await client.query<RunUsage>({
    name: 'run-usage-held',
    text: USAGE,
    values: [runId],
  })
  return rows[0]!
}

export async function usageOf(db: Database, run: string): Promise<RunUsage> {
  const [row] = await db.rows<RunUsage>(
    'run-usage',
    USAGE.replace('$1', '(select id from run where name = $1)'),
    [run],
  )
  return row!
}
