import type { Database } from '../database.ts'

export async function databaseFacts(db: Database): Promise<{ version: string; bytes: number }> {
  const [row] = await db.rows<{ version: string; bytes: number }>(
    'database-facts',
    `select current_setting('server_version') as version, pg_database_size(current_database())::float8 as bytes`,
  )
  return row!
}

/** The largest tables with their indexes; all partitions of texts count as one table. */
export function tableSizes(
  db: Database,
  limit: number,
): Promise<{ name: string; bytes: number }[]> {
  return db.rows(
    'table-sizes',
    `select name, sum(bytes)::float8 as bytes from (
       select case when relispartition then 'sample_text' else relname::text end as name, pg_total_relation_size(oid) as bytes
       from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace) t
     group by 1 order by 2 desc limit $1`,
    [limit],
  )
}
