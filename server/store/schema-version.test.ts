import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { type MigrationError, migrate, readMigrations } from './migrate.ts'
import { testDatabaseForFile } from './postgres/test-database.ts'
import {
  FIRST_MIGRATION,
  SCHEMA_VERSION,
  storedVersion,
  versionProblem,
  workerProblem,
} from './schema-version.ts'

const database = testDatabaseForFile()
let client: pg.Client

beforeAll(async () => {
  client = new pg.Client({ connectionString: database.url })
  await client.connect()
})
afterAll(() => client.end())
beforeEach(async () => {
  await client.query(
    `truncate process; delete from schema_version where version > ${SCHEMA_VERSION}`,
  )
})

const refusal = () =>
  migrate(database.url, { waitMs: 0 }).then(
    () => null,
    (error: MigrationError) => error.message,
  )

it('a migrated database has the version of its program', async () => {
  expect(await storedVersion(client)).toEqual({
    version: SCHEMA_VERSION,
    compatible_from: SCHEMA_VERSION - 1,
  })
  expect(versionProblem(await storedVersion(client), false)).toBeNull()
})

it('a program works on the schema of the next version and refuses later ones with a message', async () => {
  const next = { version: SCHEMA_VERSION + 1, compatible_from: SCHEMA_VERSION }
  await client.query('insert into schema_version (version, compatible_from) values ($1, $2)', [
    next.version,
    next.compatible_from,
  ])
  expect(await refusal()).toBeNull()
  expect(versionProblem(next, false)).toBeNull()
  await client.query('insert into schema_version (version, compatible_from) values ($1, $2)', [
    SCHEMA_VERSION + 2,
    SCHEMA_VERSION + 1,
  ])
  expect(await refusal()).toContain('Start the newer version.')
  expect(versionProblem(await storedVersion(client), false)).toContain('Start the newer version.')
})

it('a worker refuses a database not yet upgraded by a server of its version', () => {
  expect(versionProblem(null, false)).toContain('Start a server of the same version first')
  expect(versionProblem({ version: SCHEMA_VERSION - 1, compatible_from: 0 }, false)).toContain(
    'Start a server of the same version first',
  )
})

it('a worker refuses a database from before the first release', async () => {
  expect(await workerProblem(client)).toBeNull()
  const rename = 'update _prisma_migrations set migration_name = $2 where migration_name = $1'
  await client.query(rename, [FIRST_MIGRATION, '20261120000000_spine'])
  try {
    expect(await workerProblem(client)).toMatch(
      /20261120000000_spine.*Start a server on an empty database/,
    )
  } finally {
    await client.query(rename, ['20261120000000_spine', FIRST_MIGRATION])
  }
})

it('FIRST_MIGRATION names the first migration', () => {
  expect(readMigrations()[0]?.name).toBe(FIRST_MIGRATION)
})

it('a server waits for running processes that do not work on the new schema, then refuses', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'migrations-'))
  cpSync(join(import.meta.dirname, '../../prisma/migrations'), dir, { recursive: true })
  mkdirSync(join(dir, '20991231_next'))
  writeFileSync(join(dir, '20991231_next/migration.sql'), 'create table added (n int)')
  await client.query(
    "insert into process (role, host, pid, local, state, version) values ('worker', 'h', 1, false, 'alive', 0)",
  )
  try {
    await expect(migrate(database.url, { dir, waitMs: 0 })).rejects.toThrow(
      /processes of an earlier version \(1\) .* Stop all servers and workers/,
    )
    const waiting = migrate(database.url, { dir, waitMs: 30_000 })
    await client.query("update process set state = 'dead'")
    expect(await waiting).toEqual(['20991231_next'])
  } finally {
    rmSync(dir, { recursive: true })
  }
})
