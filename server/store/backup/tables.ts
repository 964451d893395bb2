import type pg from 'pg'
import { type Migration, readMigrations } from '../migrate.ts'

type Queries = Pick<pg.ClientBase, 'query'>

/** The partitioned table of texts. Its partitions are backed up one by one. */
export const TEXTS = 'sample_text'
const PARTITION = /^sample_text_(\d{4})(\d{2})(\d{2})$/

/**
 * Tables that belong to running processes and browsers. They are not restored: the processes no
 * longer run, and a login that was ended after the backup must not return.
 */
const OF_PROCESSES = new Set(['background_turn', 'claim', 'lease', 'login_session'])

/** All tables that migrations create, in order of creation. */
export function tablesOf(migrations: readonly Migration[] = readMigrations()): string[] {
  return migrations.flatMap(({ sql }) =>
    [...sql.matchAll(/^create table (?:if not exists )?"?([a-z_]+)"?/gim)].map(
      ([, name]) => name as string,
    ),
  )
}

/** The existing tables to back up: all except those of processes, with each partition of texts as a table. */
export async function tablesToBackUp(client: Queries): Promise<string[]> {
  const own = tablesOf().filter((name) => !OF_PROCESSES.has(name) && name !== TEXTS)
  const { rows } = await client.query<{ name: string }>(
    `select name from unnest($1::text[]) name where to_regclass(name) is not null
     union all
     select relname from pg_inherits join pg_class on pg_class.oid = inhrelid
     where inhparent = to_regclass('${TEXTS}')`,
    [own],
  )
  return rows.map(({ name }) => name).sort()
}

export function dayOf(table: string): string | null {
  const found = PARTITION.exec(table)
  return found === null ? null : `${found[1]}-${found[2]}-${found[3]}`
}

/** The writable columns of a table. */
export async function columnsOf(client: Queries, table: string): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select attname as name from pg_attribute
     where attrelid = to_regclass($1) and attnum > 0 and not attisdropped and attgenerated = '' order by attnum`,
    [table],
  )
  return rows.map(({ name }) => name)
}

/** The sequences of the tables' columns, each with its last value, or null if it was never used. */
export async function sequencesOf(
  client: Queries,
  tables: readonly string[],
): Promise<{ name: string; last: string | null }[]> {
  const { rows } = await client.query<{ name: string }>(
    `select s.relname as name from pg_depend d join pg_class s on s.oid = d.objid and s.relkind = 'S'
     where d.classid = 'pg_class'::regclass and d.refclassid = 'pg_class'::regclass and d.deptype in ('a', 'i')
       and d.refobjid in (select to_regclass(name) from unnest($1::text[]) name) order by 1`,
    [tables],
  )
  const sequences: { name: string; last: string | null }[] = []
  for (const { name } of rows) {
    const last = await client.query<{ last: string | null }>(
      `select case when is_called then last_value end::text as last from "${name}"`,
    )
    sequences.push({ name, last: last.rows[0]!.last })
  }
  return sequences
}
