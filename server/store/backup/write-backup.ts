import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { type FileHandle, open, rename, rm } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { dirname } from 'node:path'
import { promisify } from 'node:util'
import { zstdCompress } from 'node:zlib'
import type pg from 'pg'
import { to as copyTo } from 'pg-copy-streams'
import { ADVISORY_LOCKS } from '../advisory-locks.ts'
import { unknownMigration } from '../migrate.ts'
import { storedVersion } from '../schema-version.ts'
import { connectSession, START_SLOT_WAIT_MS } from '../session.ts'
import { ArchiveWriter, BackupError } from './archive.ts'
import {
  type BackedUpTable,
  chunkName,
  FORMAT,
  MANIFEST,
  type Manifest,
  SECRETS_KEY,
} from './manifest.ts'
import { columnsOf, sequencesOf, tablesToBackUp } from './tables.ts'

const compress = promisify(zstdCompress)

/** Rows are compressed in chunks of at least this length. At most two chunks are in memory. */
const CHUNK_BYTES = 8 << 20
/** Maximum number of snapshots: if a partition of texts is dropped before it is locked, the snapshot is taken again. */
const MAX_SNAPSHOTS = 5
const UNDEFINED_TABLE = '42P01'

export interface WriteBackupOptions {
  url: string
  /** Absolute path of the backup. No such file may exist. */
  path: string
  /** Version of the program. */
  program: string
  settings: Record<string, string>
  /** The secrets keys, one per line, if the backup includes them. */
  secretsKey?: string | undefined
  /** Called after each chunk, with the uncompressed length of the rows so far. */
  onProgress?(bytes: number): void
  /** Aborting removes the unfinished file. */
  signal?: AbortSignal
}

/**
 * Writes a backup of the database, which may be in use. All tables are read in one snapshot, through one connection, in
 * Postgres's binary COPY format. The file gets its final name once it is complete and on disk.
 * @throws BackupError, or the reason of `signal` if it aborts
 */
export async function writeBackup(options: WriteBackupOptions): Promise<Manifest> {
  const { path, signal } = options
  const draft = `${path}.${process.pid}.partial`
  if (existsSync(path)) {
    throw new BackupError(`${path} exists. Name a file that does not exist.`)
  }
  let file: FileHandle
  try {
    // Only this user may read the backup, because it contains rollouts and digests of keys.
    file = await open(draft, 'wx', 0o600)
  } catch (error) {
    throw new BackupError(`${draft} cannot be written: ${(error as Error).message}`, error)
  }
  try {
    const manifest = await write(file, options)
    await file.close()
    signal?.throwIfAborted()
    await rename(draft, path)
    await syncFolder(dirname(path))
    return manifest
  } finally {
    await file.close().catch(() => {})
    await rm(draft, { force: true })
  }
}

async function write(file: FileHandle, options: WriteBackupOptions): Promise<Manifest> {
  const archive = new ArchiveWriter(file)
  const client = await connectSession(options.url, {
    name: 'rewardops backup',
    slotWaitMs: START_SLOT_WAIT_MS,
    settings: UNHURRIED,
  })
  // A lost connection also rejects the running statement, so its error event needs no handling.
  client.on('error', () => {})
  try {
    const names = await takeSnapshot(client)
    const facts = await factsOf(client)
    // Sequences are read after the snapshot: a restore may skip ids but must never reuse the ids of the snapshot.
    const sequences = await sequencesOf(client, names)
    const tables: BackedUpTable[] = []
    let bytes = 0
    for (const name of names) {
      const onProgress = (ofTable: number) => options.onProgress?.(bytes + ofTable)
      const table = await writeTable(client, name, archive, { ...options, onProgress })
      bytes += table.bytes
      tables.push(table)
    }
    await client.query('commit')
    if (options.secretsKey !== undefined) {
      await archive.add(SECRETS_KEY, Buffer.from(options.secretsKey))
    }
    const manifest: Manifest = {
      format: FORMAT,
      program: options.program,
      ...facts,
      settings: options.settings,
      tables,
      sequences,
    }
    await archive.add(MANIFEST, Buffer.from(`${JSON.stringify(manifest, null, 1)}\n`))
    await archive.end()
    await client.end()
    return manifest
  } catch (error) {
    // The socket is destroyed, because a connection does not close by itself during a COPY.
    ;(client as unknown as { connection: { stream: Socket } }).connection.stream.destroy()
    throw error
  }
}

/** Session settings of a backup and a restore: the role's time limits do not apply, and texts are UTF-8. */
export const UNHURRIED = {
  statement_timeout: 0,
  lock_timeout: 0,
  idle_in_transaction_session_timeout: 0,
  client_encoding: 'UTF8',
} as const

/**
 * Begins the transaction of the backup. The tables are locked against being dropped. The partitioned table of texts is
 * not locked, because a lock would prevent the addition of the next day's partition.
 */
async function takeSnapshot(client: pg.Client): Promise<string[]> {
  // The first statement of a transaction takes the snapshot. If that statement waited for this lock, a migration could
  // end during the wait, and the snapshot would be from before the migration. The lock is held until the connection
  // ends.
  await client.query('select pg_advisory_lock_shared($1)', [ADVISORY_LOCKS.backup])
  for (let attempt = 1; ; attempt++) {
    await client.query('begin isolation level repeatable read read only')
    const names = await tablesToBackUp(client)
    try {
      if (names.length > 0) {
        const list = names.map((name) => `"${name}"`).join(', ')
        await client.query(`lock table ${list} in access share mode`)
      }
      return names
    } catch (error) {
      await client.query('rollback')
      const { code } = error as { code?: string }
      if (code !== UNDEFINED_TABLE || attempt === MAX_SNAPSHOTS) throw error
    }
  }
}

async function factsOf(
  client: pg.Client,
): Promise<Omit<Manifest, 'format' | 'program' | 'settings' | 'tables' | 'sequences'>> {
  const stored = await storedVersion(client)
  if (stored === null) {
    throw new BackupError(
      'The database has no tables of rewardops. Set DATABASE_URL or REWARDOPS_DATA_DIR to those of the service.',
    )
  }
  const { rows: migrations } = await client.query<{ name: string; checksum: string }>(
    `select migration_name as name, checksum from _prisma_migrations
     where finished_at is not null and rolled_back_at is null order by migration_name`,
  )
  const unknown = unknownMigration(migrations)
  if (unknown !== null) {
    throw new BackupError(
      `The database has migration ${unknown}, which this version does not know. Run "npm run backup" of the version that uses the database.`,
    )
  }
  const { rows } = await client.query<{ postgres: string; taken: Date; key: string | null }>(
    `select current_setting('server_version') as postgres, now() as taken,
       (select value #>> '{}' from setting where name = 'secrets.key') as key`,
  )
  const { postgres, taken, key } = rows[0]!
  return {
    schemaVersion: stored.version,
    migrations,
    postgres,
    takenAt: taken.toISOString(),
    secretsKey: key,
  }
}

/** Streams a table into the archive: while one chunk is compressed, the next one is read. */
async function writeTable(
  client: pg.Client,
  name: string,
  archive: ArchiveWriter,
  { onProgress, signal }: WriteBackupOptions,
): Promise<BackedUpTable> {
  const columns = await columnsOf(client, name)
  const list = columns.map((column) => `"${column}"`).join(', ')
  const stream = client.query(copyTo(`copy "${name}" (${list}) to stdout (format binary)`))
  const sha256 = createHash('sha256')
  let bytes = 0
  let chunks = 0
  let blocks: Buffer[] = []
  let collected = 0
  let writing: Promise<void> = Promise.resolve()
  const cut = async () => {
    const chunk = Buffer.concat(blocks, collected)
    blocks = []
    collected = 0
    sha256.update(chunk)
    bytes += chunk.length
    await writing
    const entry = chunkName(name, ++chunks)
    writing = compress(chunk).then((packed) => archive.add(entry, packed))
    // The error is thrown at the next chunk or at the end.
    writing.catch(() => {})
    onProgress?.(bytes)
  }
  for await (const block of stream as AsyncIterable<Buffer>) {
    blocks.push(block)
    collected += block.length
    if (collected < CHUNK_BYTES) continue
    signal?.throwIfAborted()
    await cut()
  }
  if (collected > 0) await cut()
  await writing
  signal?.throwIfAborted()
  return { name, columns, rows: stream.rowCount, bytes, sha256: sha256.digest('hex'), chunks }
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
