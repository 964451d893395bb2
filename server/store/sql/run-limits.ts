import type { RunLimitValues } from '../../contract/limits.ts'
import type { Client, Database } from '../database.ts'

/** Limits of a run; of `''`, of every run that has none of its own. */
export interface RunLimitRow {
  run: string
  max_queued_samples: number | null
  max_open_batches: number | null
  max_priority: number | null
  changed_at: Date
  changed_by: string
}

/** All limits there are, the default first; `limit` at most. */
export function allLimits(db: Database, limit: number): Promise<RunLimitRow[]> {
  return db.rows(
    'run-limits',
    `select run, max_queued_samples, max_open_batches, max_priority, changed_at, changed_by
     from run_limit order by run limit $1`,
    [limit],
  )
}

/** Sets the limits of a run, or the default's (`''`). */
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

/** The run has the default again. */
export async function clearLimits(db: Database, run: string): Promise<void> {
  await db.adhoc('delete from run_limit where run = $1', [run])
}

/** What a run has under way. */
export interface RunUsage {
  queued: number
  batches: number
}

/** The advisory lock under which a run that has limits takes samples: two submits at once cannot both be the last. */
const LIMIT_LOCK = 72_707_381

const USAGE = `select coalesce(sum(samples - scored - failed), 0)::int8::float8 as queued, count(*)::int as batches
  from batch where run_id = $1 and status in ('open', 'running')`

/** Counts a run's open work and locks it against additions until the transaction ends. */
export async function usageHeld(client: Client, runId: number): Promise<RunUsage> {
  await client.query('select pg_advisory_xact_lock($1, $2)', [LIMIT_LOCK, runId])
  const { rows } = await client.query<RunUsage>({
    name: 'run-usage-held',
    text: USAGE,
    values: [runId],
  })
  return rows[0]!
}

/** What a run, by name, has under way at this moment. */
export async function usageOf(db: Database, run: string): Promise<RunUsage> {
  const [row] = await db.rows<RunUsage>(
    'run-usage',
    USAGE.replace('$1', '(select id from run where name = $1)'),
    [run],
  )
  return row!
}
