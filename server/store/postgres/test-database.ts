import { randomUUID } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, beforeAll, inject } from 'vitest'
import { TEMPLATE } from './test-setup.ts'

export interface TestDatabase {
  url: string
  drop(): Promise<void>
}

/**
 * Copies the migrated template in the test run's Postgres. With `template: null`, the database has no tables. The
 * strategy `file_copy` takes 30 to 50 ms of CPU time, the default (`wal_log`) 65 to 130 ms.
 */
export async function createTestDatabase(
  options: { template?: string | null } = {},
): Promise<TestDatabase> {
  const { adminUrl, problem } = inject('testPostgres')
  const template = options.template === undefined ? TEMPLATE : (options.template ?? 'template1')
  if (problem && template === TEMPLATE) throw new Error(`no test database: ${problem}`)
  const name = `test_${randomUUID().replaceAll('-', '')}`
  await administer(adminUrl, `create database ${name} template ${template} strategy file_copy`)
  const url = new URL(adminUrl)
  url.pathname = `/${name}`
  return {
    url: url.href,
    drop: () => dropDatabase(adminUrl, name),
  }
}

export function testDatabaseForFile(): { readonly url: string } {
  let database: TestDatabase | undefined
  beforeAll(async () => {
    database = await createTestDatabase()
  })
  afterAll(() => database?.drop())
  return {
    get url() {
      if (!database) throw new Error('the test database exists from beforeAll on')
      return database.url
    },
  }
}

/**
 * Waits up to 2 s for closing connections to end. `force` would end their backends with an error message, which
 * node-postgres throws if its client no longer has a listener.
 */
async function dropDatabase(adminUrl: string, name: string): Promise<void> {
  const client = new pg.Client({ connectionString: adminUrl })
  await client.connect()
  try {
    for (const end = Date.now() + 2000; Date.now() < end; ) {
      const { rows } = await client.query<{ n: number }>(
        'select count(*)::int as n from pg_stat_activity where datname = $1',
        [name],
      )
      if (rows[0]!.n === 0) break
      await setTimeout(10)
    }
    await client.query(`drop database if exists ${name} with (force)`)
  } finally {
    await client.end()
  }
}

async function administer(adminUrl: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: adminUrl })
  await client.connect()
  try {
    await client.query(sql)
  } finally {
    await client.end()
  }
}
