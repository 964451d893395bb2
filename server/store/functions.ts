import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type pg from 'pg'
import { ADVISORY_LOCKS } from './advisory-locks.ts'
import { columnNames, WRITTEN_SAMPLE_COLUMNS, WRITTEN_TEXT_COLUMNS } from './sample-columns.ts'

const FOLDER = join(import.meta.dirname, 'functions')
/** A schema is dropped when no process has used it for this long. */
const UNUSED_FOR = '10 minutes'
const PREFIX = 'rewardops_'

const sources = readdirSync(FOLDER)
  .filter((name) => name.endsWith('.sql'))
  .sort()
  .map((name) => withColumns(readFileSync(join(FOLDER, name), 'utf8')))

/**
 * Replaces `{sample columns}` with `data_source, …`, `{sample arrays}` with `p_data_source, …`, and
 * `{sample parameters}` with `p_data_source text[], …`. Replaces `{text …}` in the same way, with the columns of
 * `sample_text`.
 */
function withColumns(sql: string): string {
  return sql.replace(/\{(sample|text) (columns|arrays|parameters)\}/g, (_, table, form) => {
    const columns = table === 'sample' ? WRITTEN_SAMPLE_COLUMNS : WRITTEN_TEXT_COLUMNS
    if (form === 'columns') return columnNames(columns)
    if (form === 'arrays') return columnNames(columns, 'p_')
    return columns.map(({ name, type }) => `p_${name} ${type}[]`).join(', ')
  })
}

/**
 * The schema of this program's SQL functions, named by a hash of their content. Programs of two versions may share a
 * database, so each finds its own functions by the `search_path` of its sessions.
 */
export const FUNCTIONS_SCHEMA = `${PREFIX}${createHash('sha256').update(sources.join('')).digest('hex').slice(0, 12)}`

/**
 * Makes this program's functions visible to a session. Their schema comes last in the path, so that the session creates
 * no tables in the schema, which is dropped once no process uses its version.
 */
export const USE_FUNCTIONS = `select set_config('search_path', current_setting('search_path') || ', ${FUNCTIONS_SCHEMA}', false)`

type Queries = Pick<pg.ClientBase, 'query'>

export async function installFunctions(client: Queries): Promise<void> {
  const { rows } = await client.query<{ there: boolean }>(
    'select to_regnamespace($1) is not null as there',
    [FUNCTIONS_SCHEMA],
  )
  if (rows[0]!.there) return
  // A list of statements is one transaction, so no process sees a schema without its functions.
  await client.query(
    [
      `select pg_advisory_xact_lock(${ADVISORY_LOCKS.functions})`,
      // An advisory lock does not refresh the session's catalog of schemas, but the first lock on a table does. Without
      // the refresh, a second installer would create the schema again and fail.
      'select from pg_namespace limit 1',
      `create schema if not exists ${FUNCTIONS_SCHEMA}`,
      ...sources.map((sql) =>
        sql.replace('CREATE FUNCTION ', `CREATE OR REPLACE FUNCTION ${FUNCTIONS_SCHEMA}.`),
      ),
    ].join(';\n'),
  )
}

/** Drops the functions of versions that no process uses. Returns the names of the dropped schemas. */
export async function dropUnusedFunctions(client: Queries): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select nspname as name from pg_namespace
     where nspname ~ '^${PREFIX}[0-9a-f]{12}$' and nspname <> $1 and not exists (
       select from process where functions = nspname and last_seen_at > clock_timestamp() - interval '${UNUSED_FOR}')`,
    [FUNCTIONS_SCHEMA],
  )
  for (const { name } of rows) {
    await client.query(
      `select pg_advisory_xact_lock(${ADVISORY_LOCKS.functions}); drop schema if exists ${name} cascade`,
    )
  }
  return rows.map(({ name }) => name)
}
