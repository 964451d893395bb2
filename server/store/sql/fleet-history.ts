import type { FleetEventDto } from '../../contract/fleet-history.ts'
import type { Database } from '../database.ts'
import { LATENCY_KINDS, type LatencyKind } from './server-reports.ts'

/** A range of time, divided into equal intervals, by the database's clock. */
export interface HistoryRange {
  /** Start of the first interval, epoch seconds. */
  fromS: number
  intervalS: number
  intervals: number
  /** Time that each of the stored rows covers, in seconds. */
  rowS: 10 | 60 | 3_600
}

const BOUNDS = 'at >= to_timestamp($1) and at < to_timestamp($1 + $2::float8 * $3)'
const SLOT = 'floor((extract(epoch from at) - $1) / $2)::int'
const WORKERS = { 10: 'worker_slice', 60: 'worker_minute', 3600: 'worker_hour' }
const SERVERS = {
  ...{ 10: 'server_slice', 60: '(select *, minute as at from server_minute) m' },
  3600: 'server_hour',
}
const args = ({ fromS, intervalS, intervals }: HistoryRange) => [fromS, intervalS, intervals]

export interface WorkerHistoryRow {
  worker_id: number
  slot: number
  scored: number
  failed: number
  in_flight_seconds: number
  capacity_seconds: number
  loop_p99_ms: number
}

export async function workerHistory(
  db: Database,
  range: HistoryRange,
): Promise<WorkerHistoryRow[]> {
  return db.rows(
    `workers-${range.rowS}`,
    `select worker_id, ${SLOT} as slot, sum(scored)::int as scored, sum(failed)::int as failed,
       sum(in_flight_seconds)::float8 as in_flight_seconds, sum(capacity_seconds)::float8 as capacity_seconds,
       max(loop_p99_ms)::float8 as loop_p99_ms
     from ${WORKERS[range.rowS]} where ${BOUNDS} group by 1, 2 order by 1, 2`,
    args(range),
  )
}

export interface ServerHistoryRow {
  server_id: number
  name: string
  model: string
  slot: number
  requests: number
  errors: number
  busy: number
  corrupt: number
  client: number
  capacity_seconds: number
}

/** Removed servers are included. */
export async function serverHistory(
  db: Database,
  range: HistoryRange,
): Promise<ServerHistoryRow[]> {
  return db.rows(
    `servers-${range.rowS}`,
    `select t.*, s.name, s.model from (
       select server_id, ${SLOT} as slot, sum(requests)::int as requests, sum(errors)::int as errors,
         sum(busy)::int as busy, sum(corrupt)::int as corrupt, sum(client)::int as client,
         sum(capacity_seconds)::float8 as capacity_seconds
       from ${SERVERS[range.rowS]} where ${BOUNDS} group by 1, 2) t
     join server s on s.id = t.server_id order by s.name, s.id, slot`,
    args(range),
  )
}

export interface DurationsRow {
  slot: number
  /** Indexes of the router's latency buckets that have a count. The first bucket has index 1. */
  buckets: number[]
  counts: number[]
}

// Most buckets are empty. Leaving them out before the sums cuts the query to a quarter of its time.
const DURATIONS = 'slot, array_agg(i::int) as buckets, array_agg(n) as counts'

export async function latencyHistory(
  db: Database,
  range: HistoryRange,
): Promise<(DurationsRow & { kind: LatencyKind })[]> {
  // The query names all kinds, so that it can use the index, which begins with the kind.
  return db.rows(
    'latency-slices',
    `select kind, ${DURATIONS} from (
       select kind, ${SLOT} as slot, i, sum(n)::int as n
       from latency_slice, unnest(counts) with ordinality as u(n, i)
       where kind = any($5) and seconds = $4 and ${BOUNDS} and n > 0 group by 1, 2, 3) t group by 1, 2`,
    [...args(range), range.rowS, LATENCY_KINDS],
  )
}

/** The durations of calls that returned a score, by server and interval. */
export async function serverLatencyHistory(
  db: Database,
  range: HistoryRange,
): Promise<(DurationsRow & { server_id: number })[]> {
  return db.rows(
    `server-latencies-${range.rowS}`,
    `select server_id, ${DURATIONS} from (
       select server_id, ${SLOT} as slot, i, sum(n)::int as n
       from ${SERVERS[range.rowS]}, unnest(latency_ms) with ordinality as u(n, i) where ${BOUNDS} and n > 0 group by 1, 2, 3) t
     group by 1, 2`,
    args(range),
  )
}

export interface RetryHistoryRow {
  name: string
  /** The outcome of the retried attempts, or `hedge`. */
  cause: string
  slot: number
  n: number
}

/**
 * Retries by server and outcome of the failed attempt, and hedges by server of the hedged request. Removed servers are
 * included.
 */
export async function retryHistory(db: Database, range: HistoryRange): Promise<RetryHistoryRow[]> {
  return db.rows(
    'retry-slices',
    `select s.name, t.cause, t.slot, t.n from (
       select server_id, cause, ${SLOT} as slot, sum(n)::int as n
       from retry_slice where seconds = $4 and ${BOUNDS} group by 1, 2, 3) t
     join server s on s.id = t.server_id order by t.slot`,
    [...args(range), range.rowS],
  )
}

/**
 * Ejections, outages and recoveries of servers, and deaths of workers, newest first. Equal events of one interval are
 * counted in one row with the time of the first. Workers that shut down normally are excluded.
 */
export async function fleetEvents(
  db: Database,
  range: HistoryRange,
  limit: number,
): Promise<(Omit<FleetEventDto, 'at'> & { at: Date })[]> {
  const gone = "('unreachable', 'dead', 'quarantined')"
  return db.rows(
    'fleet-events',
    `select kind, name, "to", min(at) as at, (array_agg(cause order by at))[1] as cause, count(*)::int as n
     from (
       select case when e.kind = 'health' then 'ejected' else 'state' end as kind, s.name, e."to", e.cause, e.at
       from server_event e join server s on s.id = e.server_id
       where ${BOUNDS} and (e.kind = 'health' and e."to" = 'ejected'
         or e.kind = 'state' and (e."to" in ${gone} or e."to" = 'ready' and (
           select b."to" from server_event b where b.server_id = e.server_id and b.kind = 'state' and b.id < e.id
             and b."to" <> 'probing' order by b.id desc limit 1) in ${gone}))
       union all
       select 'died', 'w' || id, null, case when requeued = 1 then '1 sample was requeued'
         else requeued || ' samples were requeued' end, at
       from (select *, ended_at as at from process where role = 'worker' and state = 'dead' and ended_at > last_seen_at) d
       where ${BOUNDS}) events
     group by kind, name, "to", ${SLOT} order by at desc limit $4`,
    [...args(range), limit],
  )
}
