import { ADVISORY_LOCKS } from '../advisory-locks.ts'
import type { Client, Database } from '../database.ts'

/** Takes the monitors' lock until the transaction ends. Returns false if another process holds it. */
export async function lockMonitors(client: Client): Promise<boolean> {
  // If this process is paused within the transaction, the lock is released after 10 s.
  await client.query('set local idle_in_transaction_session_timeout = 10000')
  const { rows } = await client.query<{ taken: boolean }>(
    'select pg_try_advisory_xact_lock($1) as taken',
    [ADVISORY_LOCKS.monitors],
  )
  return rows[0]!.taken
}

/** A user's settings of a monitor. Null fields fall back to the setting for all runs, then to the default. */
export interface SettingRow {
  run_id: number
  monitor: string
  enabled: boolean | null
  warning: number | null
  alerting: number | null
  open_after: number | null
  changed_by: string
  changed_at: Date
}

/** Settings of these runs; run 0 stands for all runs. */
export async function monitorSettings(
  db: { query: Client['query'] },
  runIds: readonly number[],
): Promise<SettingRow[]> {
  const { rows } = await db.query<SettingRow>({
    name: 'monitor-settings',
    text: 'select * from monitor_setting where run_id = any($1::int[])',
    values: [runIds],
  })
  return rows
}

/**
 * The stored state of each monitor for a run and split; empty before the first batch. Locks the row of the run and
 * split until the transaction ends.
 */
export async function standingsOf<T>(
  client: Client,
  runId: number,
  split: string,
): Promise<Record<string, T>> {
  const { rows } = await client.query<{ monitors: Record<string, T> }>({
    name: 'monitor-standing',
    text: 'select monitors from monitor_standing where run_id = $1 and split = $2 for update',
    values: [runId, split],
  })
  return rows[0]?.monitors ?? {}
}

export async function storeStandings(
  client: Client,
  at: { runId: number; split: string; step: number; batchId: number; at: Date },
  monitors: Record<string, unknown>,
): Promise<void> {
  await client.query({
    name: 'store-monitor-standing',
    text: `insert into monitor_standing (run_id, split, step, batch_id, at, monitors) values ($1, $2, $3, $4, $5, $6)
           on conflict (run_id, split) do update set step = excluded.step, batch_id = excluded.batch_id, at = excluded.at,
             monitors = excluded.monitors`,
    values: [at.runId, at.split, at.step, at.batchId, at.at, JSON.stringify(monitors)],
  })
}

export interface NewIncident {
  monitor: string
  runId: number | null
  split: string | null
  subject: string | null
  severity: string
  step: number | null
  batchId: number | null
  value: number | null
  threshold: number | null
  detail: string | null
  at: Date
}

export async function openIncident(client: Client, incident: NewIncident): Promise<number> {
  const { rows } = await client.query<{ id: number }>({
    name: 'open-incident',
    text: `insert into monitor_incident (monitor, run_id, split, subject, severity, opened_at, opened_step, opened_batch, value,
             threshold, worst, worst_step, detail)
           values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $9, $7, $11) returning id`,
    values: [
      incident.monitor,
      incident.runId,
      incident.split,
      incident.subject,
      incident.severity,
      incident.at,
      incident.step,
      incident.batchId,
      incident.value,
      incident.threshold,
      incident.detail,
    ],
  })
  return rows[0]!.id
}

export async function worsenIncident(
  client: Client,
  id: number,
  to: { severity: string | null; worst: number | null; worstStep: number | null },
): Promise<void> {
  await client.query({
    name: 'worsen-incident',
    text: `update monitor_incident set severity = coalesce($2, severity), worst = $3, worst_step = $4
           where id = $1 and closed_at is null`,
    values: [id, to.severity, to.worst, to.worstStep],
  })
}

/** Ends an incident. Returns undefined if it had already ended. */
export async function closeIncident(
  client: Client,
  id: number,
  at: { step: number | null; batchId: number | null; value: number | null; at: Date },
): Promise<{ severity: string; worst: number | null } | undefined> {
  const { rows } = await client.query<{ severity: string; worst: number | null }>({
    name: 'close-incident',
    text: `update monitor_incident set closed_at = $5, closed_step = $2, closed_batch = $3, closed_value = $4
           where id = $1 and closed_at is null returning severity, worst`,
    values: [id, at.step, at.batchId, at.value, at.at],
  })
  return rows[0]
}

export interface OpenFleetIncident {
  id: number
  monitor: string
  subject: string
}

export async function openFleetIncidents(client: Client): Promise<OpenFleetIncident[]> {
  const { rows } = await client.query<OpenFleetIncident>(
    'select id, monitor, subject from monitor_incident where closed_at is null and run_id is null',
  )
  return rows
}

export interface FleetServerRow {
  name: string
  model: string
  state: string
  state_cause: string | null
  /** Time since the server entered its present state, ms. */
  for_ms: number
}

export async function fleetServers(client: Client): Promise<FleetServerRow[]> {
  const { rows } = await client.query<FleetServerRow>(
    `select name, model, state, state_cause,
       (extract(epoch from clock_timestamp() - state_since) * 1000)::float8 as for_ms
     from server where removed_at is null order by id limit 10000`,
  )
  return rows
}

/**
 * Tables whose rows belong to a run, except `monitor_standing`. The rows of that table are deleted last, because
 * {@link deleteRemovedRuns} finds removed runs in it.
 */
const OF_RUNS = [
  ...['monitor_evaluation', 'monitor_incident', 'monitor_setting', 'run_mark'],
  'run_roll_up',
] as const

/**
 * Deletes the monitors' data, users' marks and roll-ups of some removed runs. Returns the number of these runs, or 0 if
 * none are left.
 */
export async function deleteRemovedRuns(db: Database): Promise<number> {
  const gone = await db.rows<{ run_id: number }>(
    'gone-runs',
    `select distinct run_id from (
       (select run_id from monitor_standing s where not exists (select 1 from run where id = s.run_id) limit 20)
       union all
       (select run_id from run_mark m where not exists (select 1 from run where id = m.run_id) limit 20)
       union all
       (select run_id from run_roll_up r where not exists (select 1 from run where id = r.run_id) limit 20)) t`,
  )
  for (const { run_id } of gone) {
    for (const table of OF_RUNS) await db.adhoc(`delete from ${table} where run_id = $1`, [run_id])
    await db.adhoc('delete from monitor_standing where run_id = $1', [run_id])
  }
  return gone.length
}
