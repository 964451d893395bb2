import type { Database } from '../database.ts'

/** Calls to one server since the last report, and its load meanwhile. */
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
  /** Requests in flight, and the limits of the processes, times seconds. */
  inFlightSeconds: number
  capacitySeconds: number
  tokens: number
  /** Counts in the router's latency buckets. */
  latency: number[]
}

/** Columns that are added up; those of the ten-second rows. */
const ADDED = [
  ...['requests', 'errors', 'retries', 'hedges', 'busy', 'corrupt', 'client', 'ejections'],
  ...['in_flight_seconds', 'capacity_seconds'],
]

/** Adds calls to the present minute and ten seconds of a server, and to its totals. */
export async function addServerCalls(db: Database, calls: ServerCalls): Promise<void> {
  await db.rows(
    'server-calls',
    `with total as (
       update server set requests = requests + $2, errors = errors + $3, retries = retries + $4 where id = $1),
     slice as (
       insert into server_slice as m (server_id, at, ${ADDED.join(', ')}, latency_ms)
       values ($1, date_bin('10 seconds', now(), 'epoch'), $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $13)
       on conflict (server_id, at) do update set ${added(ADDED)}, ${addedBuckets('latency_ms')})
     insert into server_minute as m (server_id, minute, ${ADDED.join(', ')}, tokens, latency_ms)
     values ($1, date_trunc('minute', now()), $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
     on conflict (server_id, minute) do update set ${added([...ADDED, 'tokens'])}, ${addedBuckets('latency_ms')}`,
    [
      calls.serverId,
      calls.requests,
      calls.errors,
      calls.retries,
      calls.hedges,
      calls.busy,
      calls.corrupt,
      calls.client,
      calls.ejections,
      calls.inFlightSeconds,
      calls.capacitySeconds,
      calls.tokens,
      calls.latency,
    ],
  )
}

/** Adds the excluded row's columns to those of row `m`. */
function added(columns: readonly string[]): string {
  return columns.map((name) => `${name} = m.${name} + excluded.${name}`).join(', ')
}

/** Adds the excluded row's latency buckets to those of row `m`. */
function addedBuckets(column: string): string {
  return `${column} = (select array_agg(coalesce(a, 0) + coalesce(b, 0) order by i)
    from unnest(m.${column}, excluded.${column}) with ordinality as t(a, b, i))`
}

/** Results that a worker wrote since the last report, and its load. */
export interface WorkerLoad {
  scored: number
  failed: number
  inFlightSeconds: number
  capacitySeconds: number
  loopP99Ms: number
}

const WORKER_ADDED = ['scored', 'failed', 'in_flight_seconds', 'capacity_seconds']

/** Adds a worker's load to its present minute and ten seconds. */
export async function addWorkerLoad(
  db: Database,
  workerId: number,
  load: WorkerLoad,
): Promise<void> {
  const into = (table: string, at: string) => `
    insert into ${table} as m (worker_id, at, scored, failed, in_flight_seconds, capacity_seconds, loop_p99_ms)
    values ($1, ${at}, $2, $3, $4, $5, $6)
    on conflict (worker_id, at) do update set ${added(WORKER_ADDED)},
      loop_p99_ms = greatest(m.loop_p99_ms, excluded.loop_p99_ms)`
  await db.rows(
    'worker-load',
    `with slice as (${into('worker_slice', "date_bin('10 seconds', now(), 'epoch')")})
     ${into('worker_minute', "date_trunc('minute', now())")}`,
    [
      workerId,
      load.scored,
      load.failed,
      load.inFlightSeconds,
      load.capacitySeconds,
      load.loopP99Ms,
    ],
  )
}

/** Kinds of durations over time. */
export const LATENCY_KINDS = ['queue', 'router', 'service'] as const
export type LatencyKind = (typeof LATENCY_KINDS)[number]
/** The lengths of their rows, in seconds. */
const LATENCY_SECONDS = [10, 60, 3_600]

/** Adds durations in the router's latency buckets. All workers add to the same rows, in the same order. */
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
    [JSON.stringify(counts), LATENCY_SECONDS],
  )
}

/** Deletes rows beyond their time: ten seconds after a day, minutes after thirty days, hours after a year. */
export async function pruneFleetHistory(db: Database): Promise<void> {
  for (const [table, condition] of [
    ['server_slice', "at < now() - interval '1 day'"],
    ['worker_slice', "at < now() - interval '1 day'"],
    ['worker_minute', "at < now() - interval '30 days'"],
    // All columns of the key, because its index is the only one.
    [
      'latency_slice',
      `kind in (${LATENCY_KINDS.map((kind) => `'${kind}'`).join(', ')}) and (seconds = 10 and at < now() - interval '1 day'
        or seconds = 60 and at < now() - interval '30 days' or seconds = 3600 and at < now() - interval '1 year')`,
    ],
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

/** Stores health events in order. */
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
