import {
  type DeliveryDto,
  MAX_COUNTED_DELIVERIES,
  MAX_LISTED_WEBHOOKS,
} from '../../contract/alerts.ts'
import type { Database } from '../database.ts'
import type { RowOf } from '../row-of.ts'

/** A webhook without its secret. */
export interface WebhookRow {
  id: number
  name: string
  /** Null if it cannot be decrypted. */
  url: string | null
  signed: boolean
  severities: string[]
  monitors: string[]
  runs: string[]
  fleet: boolean
  enabled: boolean
  created_at: Date
  created_by: string
  delivered: number
  gave_up: number
  waiting: number
}

const COLUMNS = `w.id, w.name, w.url, w.secret is not null as signed, w.severities, w.monitors, w.runs, w.fleet, w.enabled,
  w.created_at, w.created_by`

/** Webhooks in order of name, with the outcomes of their deliveries of the last day. */
export async function webhookRows(db: Database): Promise<WebhookRow[]> {
  const rows = await db.rows<WebhookRow & { url: string }>(
    'webhooks',
    `select ${COLUMNS}, d.delivered, d.gave_up, d.waiting from webhook w, lateral (
       select (count(*) filter (where state = 'delivered'))::int as delivered,
              (count(*) filter (where state = 'gave_up'))::int as gave_up,
              (count(*) filter (where state = 'waiting'))::int as waiting
       from (select state, created_at from alert_delivery where webhook_id = w.id order by id desc limit ${MAX_COUNTED_DELIVERIES}) t
       where created_at > now() - interval '1 day') d
     order by w.name limit ${MAX_LISTED_WEBHOOKS}`,
  )
  return rows.map((row) => ({ ...row, url: db.secrets.tryOpen('webhook.url', row.url).secret }))
}

export interface WebhookTarget {
  url: string
  secret: string | null
}

export function openTarget(
  { secrets }: Database,
  stored: WebhookTarget,
): WebhookTarget | { problem: string } {
  const url = secrets.tryOpen('webhook.url', stored.url)
  const { secret, problem } = secrets.tryOpen('webhook.secret', stored.secret)
  if (url.secret !== null && problem === null) return { url: url.secret, secret }
  return { problem: `${url.problem ?? problem}; enter it again` }
}

async function sealTarget<T extends Partial<WebhookValues>>(db: Database, values: T): Promise<T> {
  const { secrets } = db
  return {
    ...values,
    url: await secrets.seal(db, 'webhook.url', values.url),
    secret: await secrets.seal(db, 'webhook.secret', values.secret),
  }
}

export interface WebhookValues {
  name: string
  url: string
  secret: string | null
  severities: readonly string[]
  monitors: readonly string[]
  runs: readonly string[]
  fleet: boolean
  enabled: boolean
}

/** Stores a webhook and returns its id, or undefined if the name is taken. */
export async function addWebhook(
  db: Database,
  given: WebhookValues,
  by: string,
): Promise<number | undefined> {
  const values = await sealTarget(db, given)
  const [row] = await db.adhoc<{ id: number }>(
    `insert into webhook (name, url, secret, severities, monitors, runs, fleet, enabled, created_by)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9) on conflict (name) do nothing returning id`,
    [
      values.name,
      values.url,
      values.secret,
      values.severities,
      values.monitors,
      values.runs,
      values.fleet,
      values.enabled,
      by,
    ],
  )
  return row?.id
}

const FIELDS = {
  name: 'name',
  url: 'url',
  secret: 'secret',
  severities: 'severities',
  monitors: 'monitors',
  runs: 'runs',
  fleet: 'fleet',
  enabled: 'enabled',
} as const satisfies Record<keyof WebhookValues, string>

export async function changeWebhook(
  db: Database,
  id: number,
  given: Partial<WebhookValues>,
): Promise<'changed' | 'missing' | 'taken'> {
  const values = await sealTarget(db, given)
  const fields = Object.entries(FIELDS).filter(
    ([field]) => values[field as keyof WebhookValues] !== undefined,
  )
  if (values.name !== undefined) {
    const [other] = await db.adhoc('select 1 from webhook where name = $1 and id <> $2', [
      values.name,
      id,
    ])
    if (other !== undefined) return 'taken'
  }
  const set = fields.map(([, column], at) => `${column} = $${at + 2}`)
  const rows = await db.adhoc(
    `update webhook set ${['id = id', ...set].join(', ')} where id = $1 returning id`,
    [id, ...fields.map(([field]) => values[field as keyof WebhookValues])],
  )
  return rows.length === 0 ? 'missing' : 'changed'
}

/** Deletes a webhook. Returns false if it does not exist. The sender gives up its waiting deliveries. */
export async function dropWebhook(db: Database, id: number): Promise<boolean> {
  return (await db.adhoc('delete from webhook where id = $1 returning id', [id])).length > 0
}

export async function webhookTarget(
  db: Database,
  id: number,
): Promise<{ name: string; target: ReturnType<typeof openTarget> } | undefined> {
  const [row] = await db.adhoc<{ name: string } & WebhookTarget>(
    'select name, url, secret from webhook where id = $1',
    [id],
  )
  return row && { name: row.name, target: openTarget(db, row) }
}

export type DeliveryRow = RowOf<DeliveryDto, 'createdAt' | 'lastAttemptAt' | 'nextAttemptAt'>

const DELIVERY = `'d' || d.id as id, 'w' || d.webhook_id as "webhookId", coalesce(w.name, 'removed') as webhook,
  d.event_id as "eventId", e.kind, e.payload ->> 'text' as text, d.state, d.attempts, d.status,
  d.latency_ms as "latencyMs", d.error, d.created_at as "createdAt", d.last_attempt_at as "lastAttemptAt",
  d.next_attempt_at as "nextAttemptAt"`

export async function listDeliveries(
  db: Database,
  filter: { webhookId: number | null; beforeId: number | null; limit: number },
): Promise<DeliveryRow[]> {
  const values: unknown[] = [filter.limit]
  const where = ['true']
  if (filter.webhookId !== null) where.push(`webhook_id = $${values.push(filter.webhookId)}`)
  if (filter.beforeId !== null) where.push(`id < $${values.push(filter.beforeId)}`)
  return db.adhoc(
    `select ${DELIVERY} from (select * from alert_delivery where ${where.join(' and ')} order by id desc limit $1) d
     join alert_event e on e.id = d.event_id left join webhook w on w.id = d.webhook_id order by d.id desc`,
    values,
  )
}

export async function lastDeliveries(db: Database): Promise<DeliveryRow[]> {
  return db.rows(
    'last-deliveries',
    `select ${DELIVERY} from webhook w, lateral (
       select * from alert_delivery where webhook_id = w.id order by id desc limit 1) d
     join alert_event e on e.id = d.event_id`,
  )
}
