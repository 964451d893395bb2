import type pg from 'pg'

/**
 * The version of the schema that this program brings. It grows by one with every change that an earlier program would
 * not understand; programs of versions N and N − 1 work side by side, so a change is made in two steps: expand, then
 * contract one version later.
 */
export const SCHEMA_VERSION = 1

/** The oldest version of the program that works on this schema; the first version works beside no earlier one. */
const COMPATIBLE_FROM = Math.max(1, SCHEMA_VERSION - 1)

/** A process that has not reported for this long is gone. */
const GONE_AFTER_MS = 5_000

/** A version of the schema, as the database has it. */
export interface StoredVersion {
  version: number
  compatible_from: number
}

type Queries = Pick<pg.ClientBase, 'query'>

/** The schema's version; null where the database has none: it is empty, or of before there were versions. */
export async function storedVersion(client: Queries): Promise<StoredVersion | null> {
  const table = await client.query<{ there: boolean }>(
    `select to_regclass('schema_version') is not null as there`,
  )
  if (!table.rows[0]!.there) return null
  const { rows } = await client.query<StoredVersion>(
    'select version, compatible_from from schema_version order by version desc limit 1',
  )
  return rows[0] ?? null
}

/** Notes that the database has this program's schema. */
export async function storeVersion(client: Queries): Promise<void> {
  await client.query(
    'insert into schema_version (version, compatible_from) values ($1, $2) on conflict do nothing',
    [SCHEMA_VERSION, COMPATIBLE_FROM],
  )
}

/**
 * Why this program cannot work on a schema of that version, as a sentence; null when it can.
 * `brings`: it is a server, which upgrades an older schema itself.
 */
export function versionProblem(stored: StoredVersion | null, brings: boolean): string | null {
  if (stored !== null && stored.compatible_from > SCHEMA_VERSION) {
    return (
      `the database has schema version ${stored.version}, which works with programs of version ` +
      `${stored.compatible_from} and later; this one is version ${SCHEMA_VERSION}. Start the newer version.`
    )
  }
  if (brings || (stored !== null && stored.version >= SCHEMA_VERSION)) return null
  const found = stored === null ? 'no schema version' : `schema version ${stored.version}`
  return (
    `the database has ${found}, and this worker needs version ${SCHEMA_VERSION}. ` +
    'Start a server of the same version first: it upgrades the database.'
  )
}

/**
 * Processes that would not survive the upgrade to this program's schema, as a phrase; null: none. To be asked before
 * migrations are applied.
 */
export async function processesInTheWay(
  client: Queries,
  stored: StoredVersion | null,
): Promise<string | null> {
  if (stored !== null) {
    const { rows } = await client.query<{ n: number }>(
      `select count(*)::int as n from process where state <> 'dead' and version < $1
         and last_seen_at > clock_timestamp() - $2 * interval '1 millisecond'`,
      [COMPATIBLE_FROM, GONE_AFTER_MS],
    )
    return rows[0]!.n > 0 ? `${rows[0]!.n} processes of versions before ${COMPATIBLE_FROM}` : null
  }
  // Servers of before there were versions have no row of their own, but connections that are named.
  const { rows } = await client.query<{ servers: number; workers: number }>(
    `select count(distinct application_name) filter (where application_name = 'rewardops server')::int as servers,
            count(*) filter (where application_name = 'rewardops worker')::int as workers
     from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
       and application_name like 'rewardops %'`,
  )
  const { servers, workers } = rows[0]!
  if (servers > 0) return 'a server of an earlier version'
  return workers > 0 ? 'workers of an earlier version' : null
}
