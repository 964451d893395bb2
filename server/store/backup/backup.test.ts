import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createLogger } from '../../log.ts'
import { ADVISORY_LOCKS } from '../advisory-locks.ts'
import { Database } from '../database.ts'
import { JobQueue, RULES_POOL } from '../job-queue.ts'
import { migrate, readMigrations } from '../migrate.ts'
import {
  createTestDatabase,
  type TestDatabase,
  testDatabaseForFile,
} from '../postgres/test-database.ts'
import { SCHEMA_VERSION } from '../schema-version.ts'
import { seedBatches } from '../seeded/seed-batches.ts'
import { ArchiveReader, ArchiveWriter } from './archive.ts'
import { chunkName, MANIFEST, type Manifest, readManifest } from './manifest.ts'
import { restoreBackup } from './restore-backup.ts'
import { tablesOf } from './tables.ts'
import { writeBackup } from './write-backup.ts'

const log = createLogger('silent', 'test')
const source = testDatabaseForFile()
let db: Database
let folder: string
let file: string
let target: TestDatabase

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'rewardops-backup-'))
  file = join(folder, 'backup.tar')
  db = new Database(source.url, log, { max: 2, name: 'test' })
  await seedBatches(db, { samples: 600, seed: 1, onBatch() {} })
  await db.adhoc(
    `insert into process (id, host, pid, local, state, role) values (7, 'here', 1, false, 'alive', 'worker')`,
  )
  await db.adhoc(`insert into lease values ('server 1', 7, 3, 3, now() + interval '1 hour', 0)`)
  await db.adhoc(
    `insert into claim (job_id, queue, worker_id, batch_id, first_idx, last_idx, samples)
     values (gen_random_uuid(), 'rules', 7, 1, 0, 0, 1)`,
  )
  await db.adhoc(
    `insert into login_session (hash, configured_hash, address, user_agent) values ('a', 'b', '', '')`,
  )
  await backUp(file)
})
afterAll(async () => {
  await db.close()
  rmSync(folder, { recursive: true, force: true })
})
const backUp = (path: string, url = source.url) =>
  writeBackup({ url, path, program: '0.0.0', settings: {} })

async function restore(path: string, replace = false): Promise<Database> {
  const archive = await ArchiveReader.open(path)
  const restored = new Database(target.url, log, { max: 2, name: 'test' })
  const queue = new JobQueue(restored, log, { supervise: true })
  try {
    await restoreBackup({
      ...{ url: target.url, backup: await readManifest(archive), replace },
      prepare: () => queue.start(),
      requeue: async () => 0,
    })
    return restored
  } catch (error) {
    await restored.close()
    throw error
  } finally {
    await queue.stop()
    await archive.close()
  }
}

async function digests(of: Database): Promise<Record<string, string>> {
  const tables = await of.adhoc<{ name: string }>(
    `select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'
       and relname <> '_prisma_migrations' order by 1`,
  )
  const found: Record<string, string> = {}
  for (const { name } of tables) {
    const [row] = await of.adhoc<{ digest: string }>(
      `select count(*) || ' ' || coalesce(md5(string_agg(t::text, '|' order by t::text)), '') as digest from "${name}" t`,
    )
    found[name] = row!.digest
  }
  return found
}

const tablesThere = async (url: string) => {
  const there = new Database(url, log, { max: 1, name: 'test' })
  try {
    const rows = await there.adhoc<{ name: string }>(
      `select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')`,
    )
    return rows.map(({ name }) => name)
  } finally {
    await there.close()
  }
}

function withManifest(change: (manifest: Manifest) => unknown): Promise<string> {
  return withFiles({ [MANIFEST]: (content) => changedManifest(content, change) })
}

function changedManifest(content: Buffer, change: (manifest: Manifest) => unknown): Buffer {
  const manifest = JSON.parse(content.toString()) as Manifest
  change(manifest)
  return Buffer.from(JSON.stringify(manifest))
}

/** Writes a copy of the backup in which `changes` is applied to the files it names. Files keep their order. */
async function withFiles(changes: Record<string, (content: Buffer) => Buffer>): Promise<string> {
  const archive = await ArchiveReader.open(file)
  const path = join(folder, 'changed.tar')
  const handle = await open(path, 'w')
  const writer = new ArchiveWriter(handle)
  for (const entry of await archive.entries()) {
    const content = await archive.read(entry)
    await writer.add(entry.name, changes[entry.name]?.(content) ?? content)
  }
  await writer.end()
  await handle.close()
  await archive.close()
  return path
}

describe('a backup', () => {
  it('has every table that migrations create', async () => {
    const there = (await tablesThere(source.url)).filter((name) => !/_\d{8}$/.test(name))
    expect([...tablesOf(), '_prisma_migrations'].sort()).toEqual(there.sort())
  })

  it('is a tar archive that only its user can read, and replaces no file', async () => {
    expect(statSync(file).mode & 0o777).toBe(0o600)
    const tar = spawnSync('tar', ['-xOf', file, MANIFEST])
    expect(tar.stderr.toString()).toBe('')
    const manifest = JSON.parse(tar.stdout.toString()) as Manifest
    expect(manifest).toMatchObject({ format: 1, schemaVersion: SCHEMA_VERSION, secretsKey: null })
    expect(manifest.tables.find(({ name }) => name === 'sample')?.rows).toBe(600)
    await expect(backUp(file)).rejects.toThrow('exists. Name a file that does not exist.')
  })

  it('that is aborted or fails leaves no file', async () => {
    const before = readdirSync(folder)
    const path = join(folder, 'aborted.tar')
    const aborted = writeBackup({
      ...{ url: source.url, path, program: '0.0.0', settings: {} },
      signal: AbortSignal.abort(new Error('stop')),
    })
    await expect(aborted).rejects.toThrow('stop')
    const empty = await createTestDatabase({ template: null })
    await expect(backUp(path, empty.url)).rejects.toThrow('has no tables of rewardops')
    await empty.drop()
    expect(readdirSync(folder)).toEqual(before)
  })
})

describe('a restore', () => {
  beforeEach(async () => {
    target = await createTestDatabase({ template: null })
  })
  afterEach(() => target.drop())

  it('gives the same rows, without the leases, claims and logins of the old processes', async () => {
    const restored = await restore(file)
    const [before, after] = [await digests(db), await digests(restored)]
    const { process: _, lease, claim, login_session, ...same } = after
    expect(same).toEqual(Object.fromEntries(Object.keys(same).map((name) => [name, before[name]])))
    expect(Object.keys(after)).toEqual(Object.keys(before))
    expect([lease, claim, login_session]).toEqual(['0 ', '0 ', '0 '])
    expect(
      await restored.adhoc(
        "select id, state, ended_at is null as runs from process where host <> 'seeded'",
      ),
    ).toEqual([{ id: 7, state: 'dead', runs: false }])
    // A trainer may still use the id of a batch that was accepted after the backup, so no new batch gets that id.
    const next = (from: Database, sequence: string) =>
      from.adhoc<{ id: string }>('select nextval($1)::text as id', [sequence])
    const [[batch], [run]] = [
      await next(restored, 'batch_id_seq'),
      await next(restored, 'run_id_seq'),
    ]
    const [[sourceBatch], [sourceRun]] = [
      await next(db, 'batch_id_seq'),
      await next(db, 'run_id_seq'),
    ]
    expect(Number(batch!.id)).toBe(Number(sourceBatch!.id) + 100_000)
    expect(run).toEqual(sourceRun)
    await restored.close()
  })

  it('upgrades a backup of an earlier schema', async () => {
    const dir = firstMigrations(3)
    const older = await createTestDatabase({ template: null })
    try {
      await migrate(older.url, { dir })
      const client = new Database(older.url, log, { max: 1, name: 'test' })
      await client.adhoc('insert into schema_version values (2, 1)')
      await client.adhoc(`insert into run (name) values ('early')`)
      await client.close()
      await backUp(join(folder, 'older.tar'), older.url)
    } finally {
      await older.drop()
    }
    const restored = await restore(join(folder, 'older.tar'))
    expect(await restored.adhoc('select name, tags from run')).toEqual([
      { name: 'early', tags: [] },
    ])
    expect(await restored.adhoc('select max(version) as version from schema_version')).toEqual([
      { version: SCHEMA_VERSION },
    ])
    await restored.close()
    expect(await migrate(target.url)).toEqual([])
  })

  it('replaces data only with `replace`, and never the data of a running service', async () => {
    const restored = await restore(file)
    await restored.adhoc('delete from sample')
    const queue = new JobQueue(restored, log, { supervise: false })
    await queue.start()
    await queue.ensure(RULES_POOL)
    await restored.transaction((client) =>
      queue.insert(RULES_POOL, [{ b: 1, i: [0, 0], t: 0 }], { run: 'r', priority: 0, client }),
    )
    await queue.stop()
    const jobs = () => restored.adhoc('select count(*)::int as n from pgboss.job')
    expect(await jobs()).toEqual([{ n: 1 }])
    await expect(restore(file)).rejects.toThrow(/6 runs and \d+ batches.* add --replace/)
    await restored.adhoc(
      `insert into process (host, pid, local, state, role) values ('h', 1, false, 'alive', 'server')`,
    )
    await expect(restore(file, true)).rejects.toThrow('1 servers and workers use this database')
    await restored.adhoc('delete from process')
    const again = await restore(file, true)
    expect(await again.adhoc('select count(*)::int as n from sample')).toEqual([{ n: 600 }])
    expect(await jobs()).toEqual([{ n: 0 }])
    await again.close()
    await restored.close()
  })

  it('of a damaged backup, or one of a newer schema, changes nothing', async () => {
    await expect(restore(await damagedBackup())).rejects.toThrow(
      /is damaged.* Nothing was restored/,
    )
    const [run] = await db.adhoc<{ name: string }>('select name from run limit 1')
    // Postgres refuses a text with a byte that UTF-8 never contains. The manifest gets the checksum of the changed
    // rows, because a wrong checksum could be reported before Postgres refuses the rows.
    let sha256 = ''
    const refused = withFiles({
      [chunkName('run', 1)]: (chunk) => {
        const rows = zstdDecompressSync(chunk)
        rows[rows.indexOf(run!.name)] = 0xff
        sha256 = createHash('sha256').update(rows).digest('hex')
        return zstdCompressSync(rows)
      },
      [MANIFEST]: (content) =>
        changedManifest(content, (m) => {
          m.tables.find(({ name }) => name === 'run')!.sha256 = sha256
        }),
    })
    await expect(restore(await refused)).rejects.toThrow(
      /is damaged: Postgres refuses the rows of the table run \(invalid byte.* Nothing was restored/,
    )
    const newer = withManifest((m) =>
      m.migrations.push({ ...m.migrations[0]!, name: '29990101_new' }),
    )
    await expect(restore(await newer)).rejects.toThrow(
      /29990101_new.*Restore it with the program that wrote it/,
    )
    expect(await tablesThere(target.url)).toEqual([])
  })
})

it('a migration of a newer version waits for the backup', async () => {
  const upgraded = await createTestDatabase({ template: null })
  const holder = new Database(upgraded.url, log, { max: 1, name: 'test' })
  try {
    await migrate(upgraded.url, { dir: firstMigrations(3) })
    await holder.adhoc('insert into schema_version values (2, 1)')
    await holder.adhoc('select pg_advisory_lock_shared($1)', [ADVISORY_LOCKS.backup])
    const migrating = migrate(upgraded.url, { dir: firstMigrations(4) })
    const waiting = () =>
      holder.adhoc('select from pg_locks where not granted and objid = $1', [ADVISORY_LOCKS.backup])
    await expect.poll(waiting).toHaveLength(1)
    await holder.adhoc('select pg_advisory_unlock_shared($1)', [ADVISORY_LOCKS.backup])
    expect(await migrating).toEqual([readMigrations()[3]!.name])
  } finally {
    await holder.close()
    await upgraded.drop()
  }
})

it('a backup that waited for a migration contains what the migration created', async () => {
  const migrated = await createTestDatabase({ template: null })
  const holder = new Database(migrated.url, log, { max: 1, name: 'test' })
  try {
    await migrate(migrated.url, { dir: firstMigrations(3) })
    await holder.adhoc('select pg_advisory_lock($1)', [ADVISORY_LOCKS.backup])
    const backup = backUp(join(folder, 'waited.tar'), migrated.url)
    const waiting = () =>
      holder.adhoc('select from pg_locks where not granted and objid = $1', [ADVISORY_LOCKS.backup])
    await expect.poll(waiting).toHaveLength(1)
    await migrate(migrated.url)
    await holder.adhoc("insert into run (name) values ('r')")
    await holder.adhoc('select pg_advisory_unlock($1)', [ADVISORY_LOCKS.backup])
    const { migrations, tables } = await backup
    expect(migrations).toHaveLength(readMigrations().length)
    expect(tables.find(({ name }) => name === 'run')).toMatchObject({ rows: 1 })
  } finally {
    await holder.close()
    await migrated.drop()
  }
})

function firstMigrations(count: number): string {
  const dir = mkdtempSync(join(folder, 'migrations-'))
  const all = join(import.meta.dirname, '../../../prisma/migrations')
  for (const { name } of readMigrations().slice(0, count)) {
    cpSync(join(all, name), join(dir, name), { recursive: true })
  }
  return dir
}

it.each<[name: string, path: () => string | Promise<string>, message: RegExp]>([
  ['no file', () => join(folder, 'none.tar'), /cannot be read \(ENOENT\)/],
  ['another file', () => text('x'.repeat(2_000)), /is not a backup/],
  ['an empty file', () => text(''), /is not a backup/],
  ['half a backup', () => firstBytes(0.5), /is incomplete: it ends at byte/],
  ['a backup without its end', () => firstBytes(1, -1_024), /is incomplete/],
  ['a backup without its manifest', withoutManifest, /has no manifest/],
  [
    'a newer format',
    () => withManifest((m) => Object.assign(m, { format: 2 })),
    /has backup format 2.*newer version/,
  ],
  [
    'SQL in a name',
    () =>
      withManifest((m) => {
        m.tables[0]!.name = 'x"; drop'
      }),
    /its manifest is wrong at tables\.0\.name/,
  ],
])('%s is refused', async (_, path, message) => {
  const read = async () => {
    const archive = await ArchiveReader.open(await path())
    await readManifest(archive).finally(() => archive.close())
  }
  await expect(read()).rejects.toThrow(message)
})

function text(content: string): string {
  const path = join(folder, 'other')
  writeFileSync(path, content)
  return path
}

function firstBytes(share: number, more = 0): string {
  const bytes = readFileSync(file)
  const path = join(folder, 'cut.tar')
  writeFileSync(path, bytes.subarray(0, Math.floor(bytes.length * share) + more))
  return path
}

/** A copy of the backup that lacks the manifest but has the blocks that end an archive. */
async function withoutManifest(): Promise<string> {
  const archive = await ArchiveReader.open(file)
  const manifest = (await archive.entries()).at(-1)!
  await archive.close()
  const path = join(folder, 'cut.tar')
  const head = readFileSync(file).subarray(0, manifest.offset - 512)
  writeFileSync(path, Buffer.concat([head, Buffer.alloc(1_024)]))
  return path
}

async function damagedBackup(): Promise<string> {
  const archive = await ArchiveReader.open(file)
  const entries = await archive.entries()
  await archive.close()
  const largest = entries.slice(0, -1).reduce((a, b) => (b.bytes > a.bytes ? b : a))
  const bytes = readFileSync(file)
  // A single changed bit can leave repetitive, compressed rows unchanged.
  const middle = largest.offset + Math.floor(largest.bytes / 2)
  for (let at = middle; at < middle + 32; at++) bytes[at]! ^= 0xff
  const path = join(folder, 'changed.tar')
  writeFileSync(path, bytes)
  return path
}
