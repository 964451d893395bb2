import { createHash, randomUUID } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type pg from 'pg'
import type { Logger } from '../log.ts'
import { ADVISORY_LOCKS } from './advisory-locks.ts'
import { inTransaction } from './database.ts'
import { installFunctions } from './functions.ts'
import {
  outdatedProcesses,
  SCHEMA_VERSION,
  storedVersion,
  storeVersion,
  unreleasedMigration,
  unreleasedProblem,
  versionProblem,
} from './schema-version.ts'
import { connectSession, START_SLOT_WAIT_MS } from './session.ts'

/** Time to wait for another process's lock before a message is logged. Migrating an empty database takes less. */
const PATIENCE_MS = 5_000

/**
 * Default time to wait until processes of an earlier version have ended. Workers of a stopped or killed service end
 * within 10 s.
 */
const OTHERS_MS = 15_000

const MIGRATIONS_DIR = join(import.meta.dirname, '../../prisma/migrations')

export interface Migration {
  name: string
  sql: string
  /** sha256 of the file in hexadecimal, as in Prisma's ledger. */
  checksum: string
}

/** Thrown if a migration failed or was refused. The database is as it was before that migration. */
export class MigrationError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'MigrationError'
  }
}

/** Reads the migrations in the order of their names, which is the order of application. */
export function readMigrations(dir: string = MIGRATIONS_DIR): Migration[] {
  return readdirSync(dir, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name)
    .sort()
    .map((name) => {
      const sql = readFileSync(join(dir, name, 'migration.sql'), 'utf8')
      return { name, sql, checksum: createHash('sha256').update(sql).digest('hex') }
    })
}

export interface MigrateOptions {
  /** Folder of the migrations, for tests. If set, no schema version is stored and no SQL functions are installed. */
  dir?: string
  log?: Logger
  /** Time to wait for processes of an earlier version to end. */
  waitMs?: number
  /** A sentence on how to start with an empty database, for a database that cannot be upgraded. */
  startEmpty?: string
}

/**
 * Applies missing migrations, each in its own transaction. Uses the table, checksums and lock of `prisma migrate
 * deploy`, so both can migrate the same database. Concurrent starts are safe.
 * @returns the names of the migrations applied by this call
 * @throws MigrationError if a migration fails, was changed after it was applied or failed in Prisma, or if the database
 * belongs to a newer version or precedes the first release
 */
export async function migrate(url: string, options: MigrateOptions = {}): Promise<string[]> {
  const migrations = readMigrations(options.dir)
  const client = await connectSession(url, {
    name: 'rewardops migrate',
    slotWaitMs: START_SLOT_WAIT_MS,
  })
  try {
    const why = 'another process is migrating the database; waiting for it'
    await lock(client, ADVISORY_LOCKS.migration, why, options.log)
    const unreleased = await unreleasedMigration(client, migrations[0]?.name)
    if (unreleased !== null) {
      const remedy = options.startEmpty ?? 'Start with an empty database.'
      throw new MigrationError(unreleasedProblem(unreleased, remedy))
    }
    const stored = await storedVersion(client)
    const problem = versionProblem(stored, true)
    if (problem !== null) throw new MigrationError(problem)
    // A newer version has migrated this database, and this version can work on its schema.
    if (stored !== null && stored.version > SCHEMA_VERSION) {
      await installFunctions(client)
      return []
    }
    await client.query(LEDGER)
    const ledger = (await client.query<LedgerRow>(READ_LEDGER)).rows
    const pending = pendingOf(migrations, ledger)
    if (pending.length > 0 && stored !== null) {
      await waitForOutdated(client, options.waitMs ?? OTHERS_MS)
      // A migration that waits for a table in use by the backup would block the writers of that table.
      await lock(
        client,
        ADVISORY_LOCKS.backup,
        'a backup is running; waiting for its end',
        options.log,
      )
    }
    for (const migration of pending) {
      const startedAt = performance.now()
      await inTransaction(client, () => applyMigration(client, migration))
      const ms = Math.round(performance.now() - startedAt)
      options.log?.info({ migration: migration.name, ms }, 'migration applied')
    }
    if (options.dir === undefined) {
      await storeVersion(client)
      await installFunctions(client)
    }
    return pending.map((migration) => migration.name)
  } finally {
    await client.end().catch(() => {})
  }
}

/**
 * Waits until all processes that cannot work on the new schema have ended. Processes of a recently stopped service end
 * by themselves.
 * @throws MigrationError if they do not end in time
 */
async function waitForOutdated(client: pg.Client, waitMs: number): Promise<void> {
  const until = performance.now() + waitMs
  for (;;) {
    const outdated = await outdatedProcesses(client)
    if (outdated === 0) return
    if (performance.now() >= until) {
      throw new MigrationError(
        `this version changes the database, and running processes of an earlier version (${outdated}) cannot work ` +
          'with the change. Stop all servers and workers of that version, then start this one.',
      )
    }
    await new Promise((resolve) => setTimeout(resolve, 250))
  }
}

interface LedgerRow {
  migration_name: string
  checksum: string
  finished: boolean
  logs: string | null
}

/** Creates Prisma's table of applied migrations. */
export const LEDGER = `create table if not exists _prisma_migrations (
  id varchar(36) primary key not null,
  checksum varchar(64) not null,
  finished_at timestamptz,
  migration_name varchar(255) not null,
  logs text,
  rolled_back_at timestamptz,
  started_at timestamptz not null default now(),
  applied_steps_count integer not null default 0
)`

const READ_LEDGER = `select migration_name, checksum, finished_at is not null as finished, logs
  from _prisma_migrations where rolled_back_at is null order by started_at`

async function lock(
  client: pg.Client,
  key: number,
  why: string,
  log: Logger | undefined,
): Promise<void> {
  const impatience = setTimeout(() => log?.warn(why), PATIENCE_MS)
  try {
    // The lock is held until the connection ends.
    await client.query('select pg_advisory_lock($1)', [key])
  } finally {
    clearTimeout(impatience)
  }
}

/** The first applied migration that this program lacks or has with different content; null if there is none. */
export function unknownMigration(
  applied: readonly Pick<Migration, 'name' | 'checksum'>[],
): string | null {
  const known = new Map(readMigrations().map(({ name, checksum }) => [name, checksum]))
  return applied.find(({ name, checksum }) => known.get(name) !== checksum)?.name ?? null
}

function pendingOf(migrations: Migration[], ledger: LedgerRow[]): Migration[] {
  const known = new Map(migrations.map((migration) => [migration.name, migration]))
  const applied = new Set<string>()
  for (const row of ledger) {
    const name = row.migration_name
    if (!row.finished) {
      throw new MigrationError(
        `migration ${name} was begun by "prisma migrate" and did not finish${row.logs ? `: ${row.logs}` : ''}. ` +
          `Repair the database, then run "npx prisma migrate resolve --rolled-back ${name}" (or --applied).`,
      )
    }
    const migration = known.get(name)
    if (!migration) {
      throw new MigrationError(
        `the database has migration ${name}, which this version of rewardops does not know: ` +
          'a newer version has used it. Start that version, or use another database.',
      )
    }
    if (migration.checksum !== row.checksum) {
      throw new MigrationError(
        `migration ${name} was changed after it was applied to this database. ` +
          'Restore its file and put the change into a new migration.',
      )
    }
    applied.add(name)
  }
  return migrations.filter((migration) => !applied.has(migration.name))
}

/** Applies a migration and records it, in the caller's transaction. @throws MigrationError */
export async function applyMigration(client: pg.ClientBase, migration: Migration): Promise<void> {
  try {
    await client.query(migration.sql)
    await client.query(
      `insert into _prisma_migrations (id, checksum, migration_name, finished_at, applied_steps_count)
       values ($1, $2, $3, clock_timestamp(), 1)`,
      [randomUUID(), migration.checksum, migration.name],
    )
  } catch (error) {
    const { message, position, detail } = error as pg.DatabaseError
    const line = position
      ? ` at line ${migration.sql.slice(0, Number(position) - 1).split('\n').length}`
      : ''
    throw new MigrationError(
      `migration ${migration.name} failed${line} and was rolled back: ${message}${detail ? ` (${detail})` : ''}`,
      error,
    )
  }
}
