import type { Database } from '../database.ts'

/** Calls to one server since the last report, and the server's load in that time. */
export interface ServerCalls {
  serverId: number
  requests: number
  errors: number
  retries: number
  hedges: number
  busy: number
  corrupt: number
  client: number
  ejections: number
  /** Samples in flight × seconds. `capacitySeconds` is the sum of the processes' limits × seconds. */
  inFlightSeconds: number
  capacitySeconds: number
  tokens: number
  /** Counts in the router's latency buckets. */
  latency: number[]
}

const ADDED = [
  ...['requests', 'errors', 'retries', 'hedges', 'busy', 'corrupt', 'client', 'ejections'],
  ...['in_flight_seconds', 'capacity_seconds'],
]

/**
 * Adds calls to the servers' rows of the current ten seconds, minute and hour, and to their totals. Rows are written in
 * the order of the servers' ids, because all processes add to the same rows. The totals of servers without requests,
 * errors and retries are not written.
 */
export async function addServerCalls(db: Database, calls: readonly ServerCalls[]): Promise<void> {
  if (calls.length === 0) return
  const counts = ADDED.join(', ')
  const into = (table: string, length: string) =>
    `insert into ${table} as m (server_id, at, ${counts}, latency_ms)
       select server_id, date_bin('${length}', now(), 'epoch'), ${counts}, latency from calls order by 1
       on conflict (server_id, at) do update set ${added(ADDED)}, ${addedBuckets('latency_ms')}`
  await db.rows(
    'server-calls',
    `with calls as materialized (
       select * from jsonb_to_recordset($1::jsonb) as c(server_id int, requests int, errors int, retries int, hedges int,
         busy int, corrupt int, client int, ejections int, in_flight_seconds real, capacity_seconds real, tokens bigint,
         latency int[])),
     called as (
       select id from server where id in (select server_id from calls where requests + errors + retries > 0)
       order by id for no key update),
     total as (
       update server s set requests = s.requests + c.requests, errors = s.errors + c.errors, retries = s.retries + c.retries
       from called join calls c on c.server_id = called.id where s.id = called.id),
     slice as (
       ${into('server_slice', '10 seconds')}),
     hour as (
       ${into('server_hour', '1 hour')})
     insert into server_minute as m (server_id, minute, ${counts}, tokens, latency_ms)
     select server_id, date_trunc('minute', now()), ${counts}, tokens, latency from calls order by 1
     on conflict (server_id, minute) do update set ${added([...ADDED, 'tokens'])}, ${addedBuckets('latency_ms')}`,
    [
      JSON.stringify(
        calls.map(({ serverId, inFlightSeconds, capacitySeconds, ...rest }) => ({
          ...rest,
          server_id: serverId,
          in_flight_seconds: inFlightSeconds,
          capacity_seconds: capacitySeconds,
        })),
      ),
    ],
  )
}

function added(columns: readonly string[]): string {
  return columns.map((name) => `${name} = m.${name} + excluded.${name}`).join(', ')
}

/**
 * SQL that adds the latency buckets of the row `excluded` to those of the row `m`. If the report has no latencies, as
 * is usual for idle servers, the array of `m` is kept unchanged.
 */
function addedBuckets(column: string): string {
  return `${column} = case when 0 = all(excluded.${column}) then m.${column} else (
    select array_agg(coalesce(a, 0) + coalesce(b, 0) order by i)
    from unnest(m.${column}, excluded.${column}) with ordinality as t(a, b, i)) end`
}

/** A worker's load since its last report, without its results: the flushes that store results also count them. */
export interface WorkerLoad {
  inFlightSeconds: number
  capacitySeconds: number
  loopP99Ms: number
}

export async function addWorkerLoad(
  db: Database,
  workerId: number,
  from: Date,
  load: WorkerLoad,
): Promise<void> {
  const row = {
    worker_id: workerId,
    at: from.toISOString(),
    in_flight_seconds: load.inFlightSeconds,
    capacity_seconds: load.capacitySeconds,
    loop_p99_ms: load.loopP99Ms,
  }
  await db.rows('worker-load', 'select add_worker_history($1)', [JSON.stringify([row])])
}

/** Kinds of durations that are counted per time slice; defined at `LatencySlice` in prisma/schema.prisma. */
export const LATENCY_KINDS = ['queue', 'router', 'service'] as const
export type LatencyKind = (typeof LATENCY_KINDS)[number]
export const SLICE_SECONDS = [10, 60, 3_600]

/**
 * Adds durations in the router's latency buckets. Rows are written in a fixed order, because all workers add to the
 * same rows.
 */
export async function addLatencies(
  db: Database,
  counts: Readonly<Record<LatencyKind, readonly number[]>>,
): Promise<void> {
  await db.rows(
    'add-latencies',
    `insert into latency_slice as m (kind, seconds, at, counts)
     select kind, seconds, date_bin(seconds * interval '1 second', now(), 'epoch'),
       array(select jsonb_array_elements_text(counts)::int)
     from jsonb_each($1::jsonb) as k(kind, counts), unnest($2::smallint[]) as s(seconds) order by 1, 2
     on conflict (kind, seconds, at) do update set ${addedBuckets('counts')}`,
    [JSON.stringify(counts), SLICE_SECONDS],
  )
}

export async function pruneFleetHistory(db: Database): Promise<void> {
  const old = `(seconds = 10 and at < now() - interval '1 day' or seconds = 60 and at < now() - interval '30 days'
    or seconds = 3600 and at < now() - interval '1 year')`
  for (const [table, condition] of [
    ['server_slice', "at < now() - interval '1 day'"],
    ['worker_slice', "at < now() - interval '1 day'"],
    ['worker_minute', "at < now() - interval '30 days'"],
    ['worker_hour', "at < now() - interval '1 year'"],
    ['server_hour', "at < now() - interval '1 year'"],
    // All kinds are named, because the only index begins with the kind.
    [
      'latency_slice',
      `kind in (${LATENCY_KINDS.map((kind) => `'${kind}'`).join(', ')}) and ${old}`,
    ],
    ['retry_slice', old],
  ] as const) {
    await db.adhoc(
      `delete from ${table} where ctid in (select ctid from ${table} where ${condition} limit 20000)`,
    )
  }
}

/** A change of a server's passive health, as one process saw it. */
export interface HealthEvent {
  serverId: number
  from: string
  to: string
  cause: string
  evidence: Record<string, unknown>
  /** Age by the clock of the reporting process. */
  agoMs: number
}

export async function addHealthEvents(db: Database, events: readonly HealthEvent[]): Promise<void> {
  if (events.length === 0) return
  await db.rows(
    'server-health-events',
    `insert into server_event (server_id, "from", "to", cause, evidence, kind, at)
     select (e->>'serverId')::int, e->>'from', e->>'to', e->>'cause', e->'evidence', 'health',
            now() - (e->>'agoMs')::float8 * interval '1 millisecond'
     from jsonb_array_elements($1::jsonb) with ordinality as t(e, n) order by n`,
    [JSON.stringify(events)],
  )
}
