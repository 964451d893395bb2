import type { ServerEventDto, ServerMinuteDto } from '../../contract/server-detail.ts'
import type { Database } from '../database.ts'
import type { RowOf } from '../row-of.ts'

export function serverEvents(
  db: Database,
  id: number,
  limit: number,
): Promise<RowOf<ServerEventDto, 'at'>[]> {
  return db.rows(
    'server-events',
    `select id, kind, "from", "to", cause, evidence, at from server_event
     where server_id = $1 order by id desc limit $2`,
    [id, limit],
  )
}

export async function lastSleepLevel(db: Database, id: number): Promise<number | null> {
  const [row] = await db.rows<{ level: number | null }>(
    'server-sleep-level',
    `select (evidence->>'level')::int as level from server_event
     where server_id = $1 and kind = 'state' and "to" = 'sleeping' order by id desc limit 1`,
    [id],
  )
  return row?.level ?? null
}

export async function chatTemplateOfServer(db: Database, id: number): Promise<string | null> {
  const [row] = await db.rows<{ chat_template: string | null }>(
    'server-chat-template',
    'select chat_template from server where id = $1',
    [id],
  )
  return row?.chat_template ?? null
}

/** A minute of a server's calls. `latency_ms` has the counts of the router's latency buckets. */
export type ServerMinuteRow = Omit<ServerMinuteDto, 'minute' | 'p50Ms' | 'p99Ms'> & {
  minute: Date
  latency_ms: number[]
}

export function lastMinutes(db: Database, id: number, limit: number): Promise<ServerMinuteRow[]> {
  return db.rows(
    'server-last-minutes',
    `select * from (
       select minute, requests, errors, retries, hedges, busy, corrupt, client, latency_ms from server_minute
       where server_id = $1 order by minute desc limit $2) m order by minute`,
    [id, limit],
  )
}
