import type pg from 'pg'

/**
 * The schema version of this program. It grows by one with every change that an earlier program would not understand.
 * Programs of versions N and N − 1 work side by side, so a change takes two steps: expand, then contract one version
 * later.
 */
export const SCHEMA_VERSION = 4

/** The oldest version of the program that works on this schema. */
const COMPATIBLE_FROM = Math.max(1, SCHEMA_VERSION - 1)

/**
 * The first version that reads images stored separately from their messages. Images are stored separately once no
 * process of an earlier version runs; from then on, no such process starts.
 */
export const IMAGES_SINCE = 3

/** The first version that enforces scopes of keys. */
export const SCOPES_SINCE = 4

/** The first version that reads encrypted secrets. */
export const SECRETS_SINCE = 4

/**
 * The first migration. It replaced the migrations from before the first release; a database that has those instead is
 * refused.
 */
export const FIRST_MIGRATION = '20261122120000_init'

/** A process that has not reported for this long counts as gone. */
export const GONE_AFTER_MS = 5_000

export interface StoredVersion {
  version: number
  compatible_from: number
}

type Queries = Pick<pg.ClientBase, 'query'>

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

export async function storeVersion(client: Queries): Promise<void> {
  await client.query(
    'insert into schema_version (version, compatible_from) values ($1, $2) on conflict do nothing',
    [SCHEMA_VERSION, COMPATIBLE_FROM],
  )
}

/**
 * The reason why this program cannot work with the stored schema, or null if it can. `brings`: whether the program
 * brings an older schema up to date itself, as servers do.
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

/** The earliest migration of a database made before the first release; null for every other database. */
export async function unreleasedMigration(
  client: Queries,
  first = FIRST_MIGRATION,
): Promise<string | null> {
  const ledger = await client.query<{ there: boolean }>(
    `select to_regclass('_prisma_migrations') is not null as there`,
  )
  if (!ledger.rows[0]!.there) return null
  const { rows } = await client.query<{ name: string | null }>(
    `select min(migration_name) as name from _prisma_migrations where rolled_back_at is null
     having count(*) filter (where migration_name = $1) = 0`,
    [first],
  )
  return rows[0]?.name ?? null
}

export function unreleasedProblem(migration: string, remedy: string): string {
  return (
    `the database was created before the first release (it has migration ${migration}), ` +
    `and its tables cannot be upgraded. ${remedy}`
  )
}

export async function workerProblem(client: Queries): Promise<string | null> {
  const migration = await unreleasedMigration(client)
  if (migration !== null) {
    return unreleasedProblem(
      migration,
      'Start a server on an empty database, then this worker with the DATABASE_URL of that database.',
    )
  }
  return versionProblem(await storedVersion(client), false)
}

/**
 * The number of running processes whose version is below `since`; by default, those that do not work on this program's
 * schema. The database must have a schema version.
 */
export async function outdatedProcesses(client: Queries, since = COMPATIBLE_FROM): Promise<number> {
  const { rows } = await client.query<{ n: number }>(
    `select count(*)::int as n from process where state <> 'dead' and version < $1::bigint
       and last_seen_at > clock_timestamp() - $2 * interval '1 millisecond'`,
    [since, GONE_AFTER_MS],
  )
  return rows[0]!.n
}

/** Returns the number of running processes. The database must have a schema version. */
export function runningProcesses(client: Queries): Promise<number> {
  return outdatedProcesses(client, Number.MAX_SAFE_INTEGER)
}

/**
 * Keeps programs below version `since` from starting, in a transaction that writes data they cannot read. Returns false
 * if such a program is running; the transaction must then be rolled back.
 */
export async function excludeEarlier(client: Queries, since: number): Promise<boolean> {
  await client.query(
    'update schema_version set compatible_from = $1 where version >= $1 and compatible_from < $1',
    [since],
  )
  return (await outdatedProcesses(client, since)) === 0
}
