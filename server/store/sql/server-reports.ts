import type { Database } from '../database.ts'

/** Calls to one server since the last report. */
export interface ServerCalls {
  serverId: number
  requests: number
  errors: number
  retries: number
  hedges: number
  busy: number
  corrupt: number
  client: number
  tokens: number
  /** Counts in the router's latency buckets. */
  latency: number[]
}

/** Adds calls to the present minute of a server and to its totals. */
export async function addServerCalls(db: Database, calls: ServerCalls): Promise<void> {
  await db.rows(
    'server-minute',
    `with total as (
       update server set requests = requests + $2, errors = errors + $3, retries = retries + $4 where id = $1)
     insert into server_minute as m
       (server_id, minute, requests, errors, retries, hedges, busy, corrupt, client, tokens, latency_ms)
     values ($1, date_trunc('minute', now()), $2, $3, $4, $5, $6, $7, $8, $9, $10)
     on conflict (server_id, minute) do update set
       requests = m.requests + excluded.requests, errors = m.errors + excluded.errors,
       retries = m.retries + excluded.retries, hedges = m.hedges + excluded.hedges,
       busy = m.busy + excluded.busy, corrupt = m.corrupt + excluded.corrupt,
       client = m.client + excluded.client, tokens = m.tokens + excluded.tokens,
       latency_ms = (select array_agg(coalesce(a, 0) + coalesce(b, 0) order by i)
                     from unnest(m.latency_ms, excluded.latency_ms) with ordinality as t(a, b, i))`,
    [
      calls.serverId,
      calls.requests,
      calls.errors,
      calls.retries,
      calls.hedges,
      calls.busy,
      calls.corrupt,
      calls.client,
      calls.tokens,
      calls.latency,
    ],
  )
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
