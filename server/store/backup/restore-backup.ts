import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { zstdDecompress } from 'node:zlib'
import pg from 'pg'
import { ADVISORY_LOCKS } from '../advisory-locks.ts'
import { CopyIn } from '../copy-in.ts'
import { inTransaction } from '../database.ts'
import { installFunctions } from '../functions.ts'
import {
  applyMigration,
  LEDGER,
  type Migration,
  readMigrations,
  unknownMigration,
} from '../migrate.ts'
import { runningProcesses, SCHEMA_VERSION, storeVersion } from '../schema-version.ts'
import { connectSession, START_SLOT_WAIT_MS } from '../session.ts'
import { createTextPartition } from '../text-partitions.ts'
import { BackupError } from './archive.ts'
import { type BackedUpTable, type CheckedBackup, chunkName, type Manifest } from './manifest.ts'
import { dayOf, tablesOf } from './tables.ts'
import { UNHURRIED } from './write-backup.ts'

const decompress = promisify(zstdDecompress)

/**
 * Maximum size of a decompressed chunk, in bytes. The backup ends a chunk after the COPY message that reaches 8 MiB,
 * and a message holds a row of at most 1 GB.
 */
const MAX_CHUNK_BYTES = 1 << 30
/**
 * New batches and processes get ids this far above those of the backup. A batch that was accepted after the backup is
 * lost. If a trainer then requests that batch, it gets `batch_not_found`, not the rewards of another batch.
 */
const SKIPPED_IDS = 100_000
const SKIPPING = new Set(['batch_id_seq', 'process_id_seq'])

/** SQLSTATEs of refused rows: data exceptions, broken constraints, protocol violations, and rows over a limit. */
const DATA_REFUSED = /^(22|23|08P01|54)/

export interface RestoreOptions {
  url: string
  backup: CheckedBackup
  /** Whether the data of a stopped service is replaced. Otherwise the database must be empty. */
  replace: boolean
  /** Called after the checks of the database, before the transaction. */
  prepare(): Promise<void>
  /** Queues the samples of unfinished batches, in the transaction of the restore. Returns their number. */
  requeue(client: pg.ClientBase): Promise<number>
  /** Called after each chunk, with the uncompressed length of the rows so far and of all rows. */
  onProgress?(bytes: number, total: number): void
  signal?: AbortSignal
}

/**
 * Restores a backup in one transaction: it creates the schema of the backup, loads the rows, upgrades the schema to
 * that of this program, and queues unfinished samples. If it fails or is killed, the database is as it was.
 * @returns the number of queued samples
 * @throws BackupError or MigrationError, or the reason of `signal` if it aborts
 */
export async function restoreBackup(options: RestoreOptions): Promise<number> {
  const { backup, signal } = options
  const { manifest } = backup
  const [before, after] = migrationsOf(backup.archive.path, manifest)
  const client = await connectSession(options.url, {
    name: 'rewardops restore',
    slotWaitMs: START_SLOT_WAIT_MS,
    settings: UNHURRIED,
  })
  client.on('error', () => {})
  try {
    await claimDatabase(client, options.replace)
    await options.prepare()
    const requeued = await inTransaction(client, async () => {
      await removeData(client)
      await client.query(LEDGER)
      for (const migration of before) await applyMigration(client, migration)
      const total = manifest.tables.reduce((sum, { bytes }) => sum + bytes, 0)
      let bytes = 0
      for (const table of manifest.tables) {
        const onProgress = (ofTable: number) => options.onProgress?.(bytes + ofTable, total)
        await loadTable(client, table, { ...options, onProgress })
        bytes += table.bytes
      }
      await setSequences(client, manifest)
      for (const migration of after) await applyMigration(client, migration)
      await storeVersion(client)
      await installFunctions(client)
      // The processes that the backup lists no longer run, and the backup does not contain their leases and claims.
      await client.query(
        `update process set state = 'dead', ended_at = coalesce(ended_at, last_seen_at) where state <> 'dead'`,
      )
      const samples = await options.requeue(client)
      signal?.throwIfAborted()
      return samples
    })
    // Without `analyze`, Postgres would plan the pages' queries without statistics until autovacuum collects them.
    await client.query(`analyze ${tablesOf().join(', ')}`)
    return requeued
  } finally {
    await client.end().catch(() => {})
  }
}

/**
 * This program's migrations, split into those of the backup and the later ones.
 * @throws BackupError if this program lacks a migration of the backup
 */
function migrationsOf(
  path: string,
  { migrations, schemaVersion, program }: Manifest,
): [before: Migration[], after: Migration[]] {
  const unknown = unknownMigration(migrations)
  if (unknown !== null) {
    throw new BackupError(
      `${path} has schema version ${schemaVersion} (migration ${unknown}, program ${program}), and this program knows ` +
        `version ${SCHEMA_VERSION}. Restore it with the program that wrote it, or a later one.`,
    )
  }
  const applied = new Set(migrations.map(({ name }) => name))
  const all = readMigrations()
  return [all.filter(({ name }) => applied.has(name)), all.filter(({ name }) => !applied.has(name))]
}

/**
 * Keeps servers from starting on the database, and checks that it may be filled.
 * @throws BackupError
 */
async function claimDatabase(client: pg.Client, replace: boolean): Promise<void> {
  const { rows } = await client.query<{ locked: boolean; full: boolean; old: boolean }>(
    `select pg_try_advisory_lock($1) as locked, to_regclass('batch') is not null as full,
       to_regclass('_prisma_migrations') is not null as old`,
    [ADVISORY_LOCKS.migration],
  )
  const { locked, full, old } = rows[0]!
  if (!locked) {
    throw new BackupError(
      'A server is starting on this database, or another restore runs. Stop it, then restore.',
    )
  }
  if (!full && !old) return
  if (!full || !old) {
    throw new BackupError(
      'The database has tables of another program with the same names as tables of rewardops. Restore into an empty database.',
    )
  }
  const running = await runningProcesses(client)
  if (running > 0) {
    throw new BackupError(
      `${running} servers and workers use this database. Stop all of them, wait 5 s, then restore.`,
    )
  }
  if (!replace) {
    const { rows: counts } = await client.query<{ runs: number; batches: number }>(
      'select (select count(*)::int from run) as runs, (select count(*)::int from batch) as batches',
    )
    const { runs, batches } = counts[0]!
    throw new BackupError(
      `The database is not empty: it has the tables of rewardops with ${runs} runs and ${batches} batches. ` +
        'Restore into an empty database, or add --replace to delete these data.',
    )
  }
  const ledger = await client.query<{ name: string; checksum: string }>(
    'select migration_name as name, checksum from _prisma_migrations where rolled_back_at is null',
  )
  const unknown = unknownMigration(ledger.rows)
  if (unknown !== null) {
    throw new BackupError(
      `The database has migration ${unknown}, which this version does not know, so its tables cannot be replaced. ` +
        'Restore into an empty database.',
    )
  }
}

async function removeData(client: pg.ClientBase): Promise<void> {
  const names = [...tablesOf(), '_prisma_migrations'].map((name) => `"${name}"`).join(', ')
  await client.query(`drop table if exists ${names}`)
  await client.query('delete from pgboss.job')
}

async function loadTable(
  client: pg.ClientBase,
  table: BackedUpTable,
  { backup: { archive, entries }, onProgress, signal }: RestoreOptions,
): Promise<void> {
  const { name, columns } = table
  const day = dayOf(name)
  if (day !== null) await createTextPartition(client, day)
  const damaged = (why: string, cause?: unknown) =>
    new BackupError(
      `${archive.path} is damaged: ${why}. Nothing was restored; use another backup.`,
      cause,
    )
  const list = columns.map((column) => `"${column}"`).join(', ')
  // This transaction created the table, so its rows need no later vacuum and, with wal_level minimal, no WAL.
  const copy = new CopyIn(client, `"${name}" (${list})`, true)
  const sha256 = createHash('sha256')
  let bytes = 0
  try {
    for (let n = 1; n <= table.chunks; n++) {
      signal?.throwIfAborted()
      const entry = entries.get(chunkName(name, n))!
      const packed = await archive.read(entry)
      const chunk = await decompress(packed, { maxOutputLength: MAX_CHUNK_BYTES }).catch(
        (error) => {
          throw damaged(`${entry.name} cannot be decompressed`, error)
        },
      )
      sha256.update(chunk)
      bytes += chunk.length
      await copy.write(chunk)
      onProgress?.(bytes, table.bytes)
    }
    if (bytes !== table.bytes || sha256.digest('hex') !== table.sha256) {
      throw damaged(`the rows of the table ${name} do not match the manifest`)
    }
    await copy.end()
  } catch (error) {
    await copy.abort()
    // Postgres may refuse damaged rows before their checksum is known.
    if (error instanceof pg.DatabaseError && DATA_REFUSED.test(error.code ?? '')) {
      throw damaged(`Postgres refuses the rows of the table ${name} (${error.message})`, error)
    }
    throw error
  }
  if (copy.rows !== table.rows) {
    throw damaged(`the table ${name} has ${copy.rows} rows, and the manifest says ${table.rows}`)
  }
}

async function setSequences(client: pg.ClientBase, { sequences }: Manifest): Promise<void> {
  for (const { name, last } of sequences) {
    if (last === null) continue
    const skipped = SKIPPING.has(name) ? SKIPPED_IDS : 0
    await client.query('select setval($1, $2::bigint + $3)', [`"${name}"`, last, skipped])
  }
}
