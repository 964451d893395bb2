import type { AuditEntryDto } from '../../contract/audit.ts'
import type { Client, Database } from '../database.ts'
import type { RowOf } from '../row-of.ts'
import { args } from './args.ts'

type AuditRow = RowOf<AuditEntryDto, 'at'>

export async function insertAudit(
  db: Database | Client,
  entry: Omit<AuditRow, 'id' | 'at'>,
): Promise<void> {
  const session = 'pool' in db ? db.pool : db
  await session.query({
    name: 'audit-insert',
    text: 'insert into audit_event (actor, role, action, target, changes) values ($1, $2, $3, $4, $5::jsonb)',
    values: [entry.actor, entry.role, entry.action, entry.target, JSON.stringify(entry.changes)],
  })
}

/** A page of changes before an id, newest first. An `action` that ends in a dot is a prefix. */
export function auditPage(
  db: Database,
  filter: { actor: string | null; action: string | null; beforeId: string | null; limit: number },
): Promise<AuditRow[]> {
  const where: string[] = []
  const { values, arg } = args()
  if (filter.beforeId !== null) where.push(`audit_event.id < ${arg(filter.beforeId)}::bigint`)
  if (filter.actor !== null) where.push(`actor = ${arg(filter.actor)}`)
  if (filter.action?.endsWith('.')) where.push(`starts_with(action, ${arg(filter.action)})`)
  else if (filter.action !== null) where.push(`action = ${arg(filter.action)}`)
  return db.adhoc(
    `select id::text as id, at, actor, role, action, target, changes from audit_event
     ${where.length > 0 ? `where ${where.join(' and ')}` : ''}
     order by audit_event.id desc limit ${arg(filter.limit)}`,
    values,
  )
}

export async function auditChoices(
  db: Database,
  newest: number,
): Promise<{ actors: string[]; actions: string[] }> {
  const [row] = await db.rows<{ actors: string[] | null; actions: string[] | null }>(
    'audit-choices',
    `select array_agg(distinct actor order by actor) as actors, array_agg(distinct action order by action) as actions
     from (select actor, action from audit_event order by id desc limit $1) newest`,
    [newest],
  )
  return { actors: row?.actors ?? [], actions: row?.actions ?? [] }
}
