import { MAX_LISTED_WORKERS } from '../../contract/worker-stats.ts'
import type { Database } from '../database.ts'

/** A worker's row; `host` is its host name, and `stats` its last report. */
export interface WorkerRow {
  id: number
  host: string
  pid: number
  local: boolean
  state: 'alive' | 'stopping' | 'dead'
  started_at: Date
  last_seen_at: Date
  seen_ms_ago: number
  requeued: number
  stats: Record<string, unknown>
}

export async function workerRows(db: Database): Promise<WorkerRow[]> {
  return db.rows(
    'workers',
    `select id, split_part(host, '#', 1) as host, pid, local, state, started_at, last_seen_at, requeued, stats,
            (extract(epoch from now() - last_seen_at) * 1000)::float8 as seen_ms_ago
     from process where role = 'worker'
       and (state <> 'dead' or coalesce(ended_at, last_seen_at) > now() - interval '10 minutes')
     order by state = 'dead', id desc limit ${MAX_LISTED_WORKERS}`,
  )
}

/** The ids of the workers that reported within the last 5 s, in ascending order. */
export async function workersAlive(db: Database): Promise<number[]> {
  const rows = await db.rows<{ id: number }>(
    'workers-alive',
    `select id from process
     where role = 'worker' and state = 'alive' and last_seen_at > now() - interval '5 seconds' order by id`,
  )
  return rows.map(({ id }) => id)
}

/** A live server process and its view of the reward-model servers. */
export interface ServerProcessRow {
  id: number
  stats: Record<string, unknown>
}

export async function otherServerProcesses(db: Database, id: number): Promise<ServerProcessRow[]> {
  return db.rows(
    'server-processes',
    `select id, stats from process where role = 'server' and state = 'alive' and id <> $1
       and last_seen_at > clock_timestamp() - interval '5 seconds'`,
    [id],
  )
}

/**
 * `host` is the host name. `process_host` also identifies the pid space, because containers with equal host names
 * number their processes separately.
 */
interface ServerReport {
  host: string
  process_host: string
  pid: number
  seen_at: Date
}

/**
 * The host and the last report of a server process; undefined if it has ended. A process that was declared dead counts
 * as ended only 5 s later, because the process reports again if only the database had an outage.
 */
export async function lastServerReport(
  db: Database,
  id: number,
): Promise<ServerReport | undefined> {
  const [row] = await db.rows<ServerReport>(
    'server-report',
    `select split_part(host, '#', 1) as host, host as process_host, pid, last_seen_at as seen_at from process
     where id = $1 and role = 'server' and not (state = 'dead'
       and (coalesce(ended_at, last_seen_at) = last_seen_at or ended_at < clock_timestamp() - interval '5 seconds'))`,
    [id],
  )
  return row
}

/** A server's calls of the last ten minutes; latencies in the router's buckets. */
export interface RecentCalls {
  server_id: number
  requests: number
  errors: number
  /** Calls refused with a 4xx other than 429, or answered with a withheld or empty reply. */
  client: number
  /** Calls refused with 429 or 503. */
  busy: number
  /** Invalid responses. */
  corrupt: number
  latency_ms: number[]
}

export async function serverMinutes(db: Database): Promise<RecentCalls[]> {
  return db.rows(
    'server-minutes',
    `select server_id, sum(requests)::int as requests, sum(errors)::int as errors, sum(client)::int as client,
       sum(busy)::int as busy, sum(corrupt)::int as corrupt,
       (select array_agg(total order by i) from (
          select i, sum(n)::int as total from server_minute x, unnest(x.latency_ms) with ordinality as u(n, i)
          where x.server_id = m.server_id and x.minute >= date_trunc('minute', now()) - interval '9 minutes'
          group by i) t) as latency_ms
     from server_minute m where minute >= date_trunc('minute', now()) - interval '9 minutes' group by server_id`,
  )
}

/**
 * Maximum number of newest batches read for the last hour's figures. `submitted_at` has no index, and a full scan took
 * 0.6 s for 200,000 batches.
 */
const HOUR_BATCHES = 10_000

/** Figures of the overview: pending samples, and scored and failed samples of batches submitted in the last hour. */
export async function overviewFigures(db: Database): Promise<{
  queued: number
  active: number
  scored_hour: number
  failed_hour: number
  val_hour: number
  rescored_hour: number
  any_batch: boolean
}> {
  const [row] = await db.rows<{
    queued: number
    active: number
    scored_hour: number
    failed_hour: number
    val_hour: number
    rescored_hour: number
    any_batch: boolean
  }>(
    'overview-figures',
    `select (select coalesce(sum(samples - scored - failed), 0)::int from batch where status in ('open', 'running')) as queued,
            (select count(*)::int from batch where status in ('open', 'running')) as active,
            coalesce(sum(scored), 0)::int as scored_hour, coalesce(sum(failed), 0)::int as failed_hour,
            coalesce(sum(scored) filter (where split = 'val' and rescored_from is null), 0)::int as val_hour,
            coalesce(sum(scored) filter (where rescored_from is not null), 0)::int as rescored_hour,
            exists (select 1 from batch) as any_batch
     from (select scored, failed, split, rescored_from from batch
           where id > (select max(id) - ${HOUR_BATCHES} from batch) and submitted_at > now() - interval '1 hour') h`,
  )
  return row!
}
