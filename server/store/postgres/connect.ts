import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../../log.ts'
import { readConnectionUrl } from '../connection-url.ts'
import { migrate } from '../migrate.ts'
import { isTooManyConnections, START_SLOT_WAIT_MS, withSession } from '../session.ts'
import type { EmbeddedPostgresOptions } from './embedded.ts'
import { DATABASE, type EmbeddedPostgres, startEmbeddedPostgres } from './embedded.ts'
import { isTransactionPooler } from './pooler.ts'
import { ensureDatabase } from './roles.ts'
import { DatabaseStartError } from './start-error.ts'

export interface OpenDatabase {
  url: string
  /** Null if DATABASE_URL is set. */
  embedded: EmbeddedPostgres | null
  applied: string[]
  /** Stops the embedded Postgres, if there is one. Close the pools first. */
  close(): Promise<void>
}

export interface OpenDatabaseOptions
  extends Pick<
    EmbeddedPostgresOptions,
    'onState' | 'onUnexpectedExit' | 'settings' | 'signal' | 'waitForOwnerMs'
  > {
  /** Null to use the embedded Postgres. */
  databaseUrl: string | null
  dataDir: string
  log: Logger
  /** Folder of the migrations, for tests. */
  migrationsDir?: string
  /** Time to wait for a database that does not answer yet, ms. */
  waitMs?: number
  slotWaitMs?: number
}

/** server_version_num of the oldest supported Postgres, 14.0. */
const OLDEST = 140_000

/**
 * Opens the database of the service and migrates it: the one named by DATABASE_URL, else the embedded one, which is
 * created and started as needed.
 * @throws DatabaseStartError or MigrationError, or the reason of `signal` if it aborts. Nothing is left running.
 */
export async function openDatabase(options: OpenDatabaseOptions): Promise<OpenDatabase> {
  const { url, embedded, close } = await connectDatabase(options)
  try {
    const applied = await migrate(url, {
      dir: options.migrationsDir,
      log: options.log,
      startEmpty: embedded
        ? `Remove the folder ${join(options.dataDir, 'postgres')} with its runs and settings, ` +
          'or set REWARDOPS_DATA_DIR to a new folder.'
        : `Set DATABASE_URL to an empty database, or drop and recreate ${placeOf(url)}.`,
    })
    return { url, embedded, applied, close }
  } catch (error) {
    await close()
    throw error
  }
}

/**
 * Like {@link openDatabase}, but without migrations: the embedded database may be empty, and the database of
 * DATABASE_URL may have any tables.
 * @throws DatabaseStartError, or the reason of `signal` if it aborts. Nothing is left running.
 */
export async function connectDatabase(
  options: OpenDatabaseOptions,
): Promise<Omit<OpenDatabase, 'applied'>> {
  const embedded = options.databaseUrl === null ? await startEmbeddedPostgres(options) : null
  try {
    const url = embedded?.url() ?? options.databaseUrl!
    if (embedded) await ensureDatabase((name) => embedded.adminUrl(name), DATABASE)
    else await checkDatabase(url, options)
    options.signal?.throwIfAborted()
    return { url, embedded, close: async () => embedded?.stop() }
  } catch (error) {
    await embedded?.stop()
    throw error
  }
}

/**
 * Refuses a database that would fail later with a less clear error.
 * @throws DatabaseStartError
 */
async function checkDatabase(
  url: string,
  options: Pick<OpenDatabaseOptions, 'log' | 'waitMs' | 'slotWaitMs'>,
): Promise<void> {
  const place = `DATABASE_URL (${placeOf(url)})`
  const facts = await whenThere(place, options, () =>
    withSession(url, async (client) => (await client.query<Facts>(FACTS)).rows[0]!),
  )
  if (facts.version_num < OLDEST) {
    throw new DatabaseStartError(
      'too_old',
      `${place} is Postgres ${facts.version}; rewardops needs 14 or newer. ` +
        'Upgrade it, or unset DATABASE_URL to use the embedded Postgres 18.',
    )
  }
  if (facts.read_only) {
    throw new DatabaseStartError(
      'read_only',
      `${place} cannot be written to: it is a replica, or read-only by default. Set DATABASE_URL to the primary.`,
    )
  }
  if (await whenThere(place, options, () => isTransactionPooler(url))) {
    throw new DatabaseStartError(
      'transaction_pooler',
      `${place} is a pooler that gives a connection to another client after each transaction ` +
        '(PgBouncer: pool_mode = transaction). LISTEN, advisory locks and prepared statements are lost on it. ' +
        'Set DATABASE_URL to Postgres itself, or to a pool in session mode.',
    )
  }
}

interface Facts {
  version: string
  version_num: number
  read_only: boolean
}

const FACTS = `select current_setting('server_version') as version,
  current_setting('server_version_num')::int as version_num,
  pg_is_in_recovery() or current_setting('default_transaction_read_only')::bool as read_only`

/** Errors of a database or network that is still starting. */
const PASSING = new Set(['ECONNREFUSED', 'ECONNRESET', 'ENOENT', 'EAI_AGAIN', 'ETIMEDOUT', '57P03'])

async function whenThere<T>(
  place: string,
  options: Pick<OpenDatabaseOptions, 'log' | 'waitMs' | 'slotWaitMs'>,
  work: () => Promise<T>,
): Promise<T> {
  const { log, waitMs = 30_000, slotWaitMs = START_SLOT_WAIT_MS } = options
  const begunAt = Date.now()
  let announced = false
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (error instanceof DatabaseStartError) throw error
      const { code = '', message } = error as { code?: string; message: string }
      const forMs = isTooManyConnections(error) ? slotWaitMs : PASSING.has(code) ? waitMs : 0
      if (Date.now() - begunAt >= forMs) {
        throw new DatabaseStartError(
          'unreachable',
          `${place}: ${message || code}. ${adviceFor(error as Error & { code?: string })}`,
          error,
        )
      }
      if (!announced)
        log.warn({ waitMs: forMs }, `${place} does not answer yet (${message || code}); waiting`)
      announced = true
      await sleep(250)
    }
  }
}

function adviceFor(error: Error & { code?: string }): string {
  const { code = '', message } = error
  if (isTooManyConnections(error)) {
    return 'Raise max_connections (or the size of the pool): a server takes up to 12 connections, each worker up to 4.'
  }
  if (/CERT|SELF_SIGNED|UNABLE_TO_|ALTNAME/.test(code)) {
    return 'Set sslrootcert to the file of the CA, or sslmode=require to encrypt without verifying.'
  }
  if (/does not support SSL/.test(message)) {
    return 'Turn on ssl in Postgres, or set sslmode=disable.'
  }
  if (code === '3D000') return 'Create the database (createdb), or correct DATABASE_URL.'
  if (code === '28P01' || code === '28000') return 'Correct user and password in DATABASE_URL.'
  return 'Is it running, and is DATABASE_URL correct? Without DATABASE_URL, the embedded Postgres is used.'
}

/** Host and database of a connection string, without its password. */
function placeOf(url: string): string {
  const parsed = new URL(readConnectionUrl(url).url)
  return `${parsed.searchParams.get('host') ?? parsed.host}${parsed.pathname}`
}
