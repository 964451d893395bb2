import type { AlertPayload } from '../../contract/alerts.ts'
import type { Client, Database } from '../database.ts'
import { openTarget, type WebhookTarget } from './webhooks.ts'

export interface NewEvent {
  /** A UUID. */
  id: string
  incidentId: number | null
  kind: 'opened' | 'escalated' | 'resolved' | 'test'
  payload: Record<string, unknown>
  /** Webhooks filter by `monitor`, `severity` and `run`. */
  monitor: string
  severity: string
  run: string | null
  /** Time of the event. Webhooks that were created later do not receive the event. */
  happenedAt: Date
}

/**
 * Stores an event with a delivery for each webhook that subscribes to it, in the caller's transaction. Stores nothing
 * if no webhook subscribes. Returns the number of deliveries.
 */
export async function queueEvent(client: Client, event: NewEvent): Promise<number> {
  const { rows } = await client.query<{ id: number }>({
    name: 'webhooks-for-event',
    text: `select id from webhook where enabled and $1 = any(severities)
             and (cardinality(monitors) = 0 or $2 = any(monitors)) and created_at <= $4
             and case when $3::text is null then fleet else cardinality(runs) = 0 or $3 = any(runs) end`,
    values: [event.severity, event.monitor, event.run, event.happenedAt],
  })
  if (rows.length === 0) return 0
  await client.query({
    name: 'queue-event',
    text: `with e as (insert into alert_event (id, incident_id, kind, payload) values ($1, $2, $3, $4) returning id)
           insert into alert_delivery (webhook_id, event_id, state)
           select w, (select id from e), 'waiting' from unnest($5::int[]) as w`,
    values: [
      event.id,
      event.incidentId,
      event.kind,
      JSON.stringify(event.payload),
      rows.map(({ id }) => id),
    ],
  })
  return rows.length
}

/**
 * Stores a test event for one webhook, with a delivery that only the caller may attempt within `heldMs`; returns the
 * delivery's id.
 */
export async function queueTest(
  db: Database,
  webhookId: number,
  event: { id: string; payload: Record<string, unknown> },
  heldMs: number,
): Promise<number> {
  const [row] = await db.adhoc<{ id: number }>(
    `with e as (insert into alert_event (id, kind, payload) values ($1, 'test', $2) returning id)
     insert into alert_delivery (webhook_id, event_id, state, next_attempt_at)
     select $3, (select id from e), 'waiting', clock_timestamp() + $4 * interval '1 millisecond' returning id`,
    [event.id, JSON.stringify(event.payload), webhookId, heldMs],
  )
  return row!.id
}

export interface DueDelivery {
  id: number
  event_id: string
  /** Number of attempts, this one included. */
  attempts: number
  payload: AlertPayload
  webhook: string
  target: ReturnType<typeof openTarget>
}

/**
 * Claims due deliveries for `heldMs`, after which another process may claim those that are still waiting. Deliveries
 * of removed or disabled webhooks are given up.
 */
export async function takeDueDeliveries(
  db: Database,
  limit: number,
  heldMs: number,
): Promise<DueDelivery[]> {
  const rows = await db.rows<Omit<DueDelivery, 'target'> & WebhookTarget>(
    'take-due-deliveries',
    `with due as materialized (
       select id from alert_delivery where state = 'waiting' and next_attempt_at <= clock_timestamp()
       order by next_attempt_at limit $1 for update skip locked
     ), gone as (
       update alert_delivery d set state = 'gave_up', next_attempt_at = null, error = 'the webhook was removed or disabled'
       where d.id in (select id from due) and not exists (select 1 from webhook w where w.id = d.webhook_id and w.enabled)
     ), taken as (
       update alert_delivery d set attempts = attempts + 1, last_attempt_at = clock_timestamp(),
         next_attempt_at = clock_timestamp() + $2 * interval '1 millisecond'
       from webhook w where d.id in (select id from due) and w.id = d.webhook_id and w.enabled
       returning d.id, d.event_id, d.attempts, w.name as webhook, w.url, w.secret
     )
     select t.*, e.payload from taken t join alert_event e on e.id = t.event_id`,
    [limit, heldMs],
  )
  return rows.map(({ url, secret, ...row }) => ({
    ...row,
    target: openTarget(db, { url, secret }),
  }))
}

export interface Attempted {
  delivered: boolean
  status: number | null
  latencyMs: number
  error: string | null
  /** Time until the next attempt, ms, or null if there is none. */
  againMs: number | null
}

export async function noteAttempt(db: Database, id: number, attempt: Attempted): Promise<void> {
  await db.rows(
    'note-attempt',
    `update alert_delivery set status = $2, latency_ms = $3, error = $4,
       state = case when $5 then 'delivered' when $6::float8 is null then 'gave_up' else 'waiting' end,
       next_attempt_at = case when $5 or $6::float8 is null then null else clock_timestamp() + $6 * interval '1 millisecond' end,
       attempts = greatest(attempts, 1), last_attempt_at = coalesce(last_attempt_at, clock_timestamp())
     where id = $1 and state <> 'delivered'`,
    [id, attempt.status, attempt.latencyMs, attempt.error, attempt.delivered, attempt.againMs],
  )
}

const KEPT_DAYS = 30

/** Deletes some old events. Returns true if there may be more. */
export async function deleteOldEvents(db: Database): Promise<boolean> {
  const rows = await db.adhoc(
    `with old as materialized (
       select id from alert_event where at < now() - interval '${KEPT_DAYS} days' order by at limit 1000
     ), d as (delete from alert_delivery where event_id in (select id from old))
     delete from alert_event where id in (select id from old) returning id`,
  )
  return rows.length === 1_000
}
