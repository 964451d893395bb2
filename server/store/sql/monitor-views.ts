import type { IncidentDto } from '../../contract/monitors.ts'
import { notify } from '../channels.ts'
import type { Database } from '../database.ts'
import type { RowOf } from '../row-of.ts'
import { args } from './args.ts'
import type { StoredValue } from './monitor-batches.ts'

export type IncidentRow = RowOf<IncidentDto, 'openedAt' | 'closedAt'>

const INCIDENT = `'i' || i.id as id, i.monitor, run.name as run, i.split, i.subject, i.severity,
  i.opened_at as "openedAt", i.opened_step as "openedStep", 'b' || i.opened_batch as "openedBatchId", i.value, i.threshold,
  case when i.closed_at is null then (s.monitors -> i.monitor ->> 'value')::float8 else i.closed_value end as latest,
  i.worst, i.worst_step as "worstStep", i.detail, i.closed_at as "closedAt", i.closed_step as "closedStep",
  'b' || i.closed_batch as "closedBatchId", i.closed_value as "closedValue"`

const INCIDENTS = `monitor_incident i left join run on run.id = i.run_id
     left join monitor_standing s on s.run_id = i.run_id and s.split = i.split`

export async function openIncidents(db: Database, limit: number): Promise<IncidentRow[]> {
  return db.rows(
    'open-incidents',
    `select ${INCIDENT} from ${INCIDENTS}
     where i.closed_at is null and (i.run_id is null or run.id is not null) order by i.id desc limit $1`,
    [limit],
  )
}

/** An incident, with totals over all incidents of its monitor that {@link incidentsOfLate} considers. */
export type LateIncidentRow = IncidentRow & {
  runs: number
  splits: ('train' | 'val')[]
  isAlerting: boolean
}

/**
 * The newest `limit` open incidents of each monitor, newest first. Only runs and splits with a batch within the last
 * day count.
 */
export async function incidentsOfLate(db: Database, limit: number): Promise<LateIncidentRow[]> {
  return db.rows(
    'incidents-of-late',
    `with late as materialized (
       select i.id, i.monitor, i.run_id, i.split, i.severity from ${INCIDENTS}
       where run.id is not null and i.closed_at is null and s.at > now() - interval '1 day'),
     totals as (
       select monitor, count(distinct run_id)::int as runs, array_agg(distinct split) as splits,
         bool_or(severity = 'alerting') as alerting from late group by monitor),
     newest as (
       select id from (select id, row_number() over (partition by monitor order by id desc) as place from late) l
       where place <= $1)
     select ${INCIDENT}, t.runs, t.splits, t.alerting as "isAlerting"
     from ${INCIDENTS} join newest n on n.id = i.id join totals t on t.monitor = i.monitor order by i.id desc`,
    [limit],
  )
}

export async function listIncidents(
  db: Database,
  filter: {
    run?: string | undefined
    split?: string | undefined
    monitor?: string | undefined
    beforeId: number | null
    limit: number
  },
): Promise<IncidentRow[]> {
  const { values, arg } = args()
  // The incidents of a removed run are deleted some time after the run. Until then, they are left out here.
  const where = ['(i.run_id is null or run.id is not null)']
  if (filter.run !== undefined)
    where.push(`i.run_id = (select id from run where name = ${arg(filter.run)})`)
  if (filter.split !== undefined) where.push(`i.split = ${arg(filter.split)}`)
  if (filter.monitor !== undefined) where.push(`i.monitor = ${arg(filter.monitor)}`)
  if (filter.beforeId !== null) where.push(`i.id < ${arg(filter.beforeId)}`)
  return db.adhoc(
    `select ${INCIDENT} from ${INCIDENTS}
     where ${where.join(' and ')} order by i.id desc limit ${arg(filter.limit)}`,
    values,
  )
}

export interface StandingRow {
  run: string
  run_id: number
  seeded: boolean
  split: 'train' | 'val'
  step: number
  at: Date
  monitors: Record<string, { state: string; value: number | null; step: number }>
}

export async function latestStandings(db: Database, limit: number): Promise<StandingRow[]> {
  return db.rows(
    'latest-standings',
    `select run.name as run, run.id as run_id, run.seeded, s.split, s.step, s.at, s.monitors
     from monitor_standing s join run on run.id = s.run_id order by s.batch_id desc limit $1`,
    [limit],
  )
}

export async function standingOf(
  db: Database,
  runId: number,
  split: string,
): Promise<StandingRow['monitors'] | undefined> {
  const [row] = await db.rows<Pick<StandingRow, 'monitors'>>(
    'standing-of-run',
    'select monitors from monitor_standing where run_id = $1 and split = $2',
    [runId, split],
  )
  return row?.monitors
}

export async function standingSplits(db: Database, runId: number): Promise<('train' | 'val')[]> {
  const rows = await db.rows<{ split: 'train' | 'val' }>(
    'standing-splits',
    'select split from monitor_standing where run_id = $1 order by split',
    [runId],
  )
  return rows.map(({ split }) => split)
}

/** The number of ended batches without an evaluation, counted up to `most`. */
export async function waitingForMonitors(db: Database, most: number): Promise<number> {
  const [row] = await db.rows<{ n: number }>(
    'waiting-for-monitors',
    `select count(*)::int as n from
       (select 1 from batch where not monitored and completed_at is not null limit $1) t`,
    [most],
  )
  return row!.n
}

export interface EvaluationRow {
  batch_id: number
  step: number
  values: Record<string, StoredValue>
}

/**
 * The newest evaluations within a range of steps, in order of their batches, and the number of earlier ones in the
 * range.
 */
export async function evaluationsOf(
  db: Database,
  { runId, split, from, until }: { runId: number; split: string; from: number; until: number },
  limit: number,
): Promise<{ rows: EvaluationRow[]; earlier: number }> {
  const rows = await db.rows<EvaluationRow>(
    'evaluations-of',
    `select * from (select batch_id, step, values from monitor_evaluation where run_id = $1 and split = $2
                      and step between $4 and $5 order by batch_id desc limit $3) e order by batch_id`,
    [runId, split, limit, from, until],
  )
  const [first] = rows
  if (first === undefined || rows.length < limit) return { rows, earlier: 0 }
  const [before] = await db.rows<{ n: number }>(
    'evaluations-before',
    `select count(*)::int as n from monitor_evaluation
     where run_id = $1 and split = $2 and step between $4 and $5 and batch_id < $3`,
    [runId, split, first.batch_id, from, until],
  )
  return { rows, earlier: before!.n }
}

export async function runIdOf(db: Database, name: string): Promise<number | undefined> {
  const [row] = await db.rows<{ id: number }>('run-id-of', 'select id from run where name = $1', [
    name,
  ])
  return row?.id
}

export async function runsWithSetting(
  db: Database,
  monitor: string,
): Promise<{ id: number; name: string }[]> {
  return db.rows(
    'runs-with-monitor-setting',
    `select run.id, run.name from monitor_setting s join run on run.id = s.run_id
     where s.monitor = $1 order by run.id`,
    [monitor],
  )
}

/** Stores a monitor's setting, or deletes it if all its fields are null. */
export async function setMonitorSetting(
  db: Database,
  setting: {
    runId: number
    monitor: string
    enabled: boolean | null
    warning: number | null
    alerting: number | null
    openAfter: number | null
    by: string
  },
): Promise<void> {
  const { runId, monitor, enabled, warning, alerting, openAfter, by } = setting
  if (enabled === null && warning === null && alerting === null && openAfter === null) {
    await db.rows(
      'drop-monitor-setting',
      'delete from monitor_setting where run_id = $1 and monitor = $2',
      [runId, monitor],
    )
  } else {
    await db.rows(
      'set-monitor-setting',
      `insert into monitor_setting (run_id, monitor, enabled, warning, alerting, open_after, changed_by)
       values ($1, $2, $3, $4, $5, $6, $7)
       on conflict (run_id, monitor) do update set enabled = excluded.enabled, warning = excluded.warning,
         alerting = excluded.alerting, open_after = excluded.open_after, changed_by = excluded.changed_by, changed_at = now()`,
      [runId, monitor, enabled, warning, alerting, openAfter, by],
    )
  }
  await notify(db.pool, 'monitorsChanged')
}
