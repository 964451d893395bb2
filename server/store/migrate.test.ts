import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { MigrationError, migrate, readMigrations } from './migrate.ts'
import { createTestDatabase, type TestDatabase } from './postgres/test-database.ts'

let database: TestDatabase
let dir: string

beforeEach(async () => {
  database = await createTestDatabase({ template: null })
  dir = mkdtempSync(join(tmpdir(), 'migrations-'))
})

afterEach(async () => {
  await database.drop()
  rmSync(dir, { recursive: true, force: true })
})

function write(name: string, sql: string): void {
  mkdirSync(join(dir, name), { recursive: true })
  writeFileSync(join(dir, name, 'migration.sql'), sql)
}

async function query<T extends pg.QueryResultRow>(sql: string): Promise<T[]> {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  try {
    return (await client.query<T>(sql)).rows
  } finally {
    await client.end()
  }
}

const tables = async () =>
  (
    await query<{ name: string }>(
      `select tablename as name from pg_tables where schemaname = 'public' order by 1`,
    )
  ).map((row) => row.name)

test('applies missing migrations in order, each once', async () => {
  write('20260101_a', 'create table a (n int)')
  write('20260102_b', 'alter table a add m int; create table b (n int)')
  expect(await migrate(database.url, { dir })).toEqual(['20260101_a', '20260102_b'])
  expect(await migrate(database.url, { dir })).toEqual([])
  write('20260103_c', 'create table c (n int)')
  expect(await migrate(database.url, { dir })).toEqual(['20260103_c'])
  expect(await tables()).toEqual(['_prisma_migrations', 'a', 'b', 'c'])
})

test('writes the same ledger as Prisma', async () => {
  write('20260101_a', 'create table a (n int)')
  await migrate(database.url, { dir })
  const [row] = await query<Record<string, unknown>>(
    `select *, finished_at >= started_at as ordered from _prisma_migrations`,
  )
  expect(row).toMatchObject({
    migration_name: '20260101_a',
    checksum: readMigrations(dir)[0]?.checksum,
    rolled_back_at: null,
    logs: null,
    applied_steps_count: 1,
    ordered: true,
  })
})

test('concurrent starts apply each migration once', async () => {
  write(
    '20260101_a',
    'create table a (n int); insert into a select (pg_sleep(0.05) ::text is null)::int',
  )
  write('20260102_b', 'create table b (n int)')
  const applied = await Promise.all(Array.from({ length: 6 }, () => migrate(database.url, { dir })))
  expect(applied.flat().sort()).toEqual(['20260101_a', '20260102_b'])
  expect(applied.filter((names) => names.length > 0)).toHaveLength(1)
})

test('a failing migration is rolled back; earlier ones stay', async () => {
  write('20260101_a', 'create table a (n int)')
  write(
    '20260102_b',
    'create table b (n int);\ninsert into b values (1);\nalter table nowhere add n int;',
  )
  await expect(migrate(database.url, { dir })).rejects.toThrow(
    'migration 20260102_b failed and was rolled back: relation "nowhere" does not exist',
  )
  expect(await tables()).toEqual(['_prisma_migrations', 'a'])
  write('20260102_b', 'create table b (n int)')
  expect(await migrate(database.url, { dir })).toEqual(['20260102_b'])
})

test('a syntax error is reported with its line', async () => {
  write('20260101_a', 'create table a (n int);\n\ncreat table b (n int);')
  await expect(migrate(database.url, { dir })).rejects.toThrow('20260101_a failed at line 3')
})

test('a migration changed after it was applied is refused', async () => {
  write('20260101_a', 'create table a (n int)')
  await migrate(database.url, { dir })
  write('20260101_a', 'create table a (n bigint)')
  await expect(migrate(database.url, { dir })).rejects.toThrow(
    'migration 20260101_a was changed after it was applied',
  )
})

test('a database from before the first release is refused and not changed', async () => {
  write('20260101_spine', 'create table a (n int)')
  await migrate(database.url, { dir })
  const failure = migrate(database.url, { startEmpty: 'Remove the folder.' })
  await expect(failure).rejects.toBeInstanceOf(MigrationError)
  await expect(failure).rejects.toThrow(
    'the database was created before the first release (it has migration 20260101_spine), ' +
      'and its tables cannot be upgraded. Remove the folder.',
  )
  expect(await tables()).toEqual(['_prisma_migrations', 'a'])
  expect(await query('select migration_name from _prisma_migrations')).toHaveLength(1)
})

test('a database of a newer version is refused', async () => {
  write('20260101_a', 'create table a (n int)')
  write('20260102_b', 'create table b (n int)')
  await migrate(database.url, { dir })
  rmSync(join(dir, '20260102_b'), { recursive: true })
  await expect(migrate(database.url, { dir })).rejects.toThrow(
    /has migration 20260102_b, which this version of rewardops does not know/,
  )
})

test('a migration that failed in Prisma is reported with the command that resolves it', async () => {
  write('20260101_a', 'create table a (n int)')
  await migrate(database.url, { dir })
  write('20260102_b', 'create table b (n int)')
  await query(`insert into _prisma_migrations (id, checksum, migration_name, logs)
    values ('x', 'y', '20260102_b', 'disk full')`)
  const failure = migrate(database.url, { dir })
  await expect(failure).rejects.toBeInstanceOf(MigrationError)
  await expect(failure).rejects.toThrow(
    /did not finish: disk full.*migrate resolve --rolled-back 20260102_b/,
  )
})
