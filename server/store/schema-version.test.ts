import pg from 'pg'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { type MigrationError, migrate } from './migrate.ts'
import { testDatabaseForFile } from './postgres/test-database.ts'
import { SCHEMA_VERSION, storedVersion, versionProblem } from './schema-version.ts'

const database = testDatabaseForFile()
let client: pg.Client

beforeAll(async () => {
  client = new pg.Client({ connectionString: database.url })
  await client.connect()
})
afterAll(() => client.end())
beforeEach(async () => {
  await client.query('truncate process; delete from schema_version where version <> 1')
})

const refusal = () =>
  migrate(database.url, { waitMs: 0 }).then(
    () => null,
    (error: MigrationError) => error.message,
  )

it('a migrated database has the version of its program', async () => {
  expect(await storedVersion(client)).toEqual({ version: SCHEMA_VERSION, compatible_from: 1 })
  expect(versionProblem(await storedVersion(client), false)).toBeNull()
})

it('a program works on the schema of the next version, and refuses the one after by sentence', async () => {
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

it('a worker refuses a database that no server of its version has upgraded', () => {
  expect(versionProblem(null, false)).toContain('Start a server of the same version first')
  expect(versionProblem({ version: SCHEMA_VERSION - 1, compatible_from: 0 }, false)).toContain(
    'Start a server of the same version first',
  )
})

it('a server waits for connected processes of before there were versions, then refuses', async () => {
  // As that state has it: applied migrations, no version.
  await client.query(`alter table schema_version rename to schema_version_hidden;
    delete from _prisma_migrations where migration_name like '%processes'`)
  const old = new pg.Client({
    connectionString: database.url,
    application_name: 'rewardops worker',
  })
  await old.connect()
  try {
    expect(await refusal()).toMatch(/workers of an earlier version .* Stop all servers and workers/)
  } finally {
    await old.end()
    await client.query(`alter table schema_version_hidden rename to schema_version`)
  }
})

it('a worker of before there were versions is told why it cannot register', async () => {
  await expect(
    client.query(
      "insert into worker (host, pid, local, state) values ('h', 1, false, 'alive') returning id",
    ),
  ).rejects.toThrow(/newer version of rewardops.*Upgrade this worker/)
})
