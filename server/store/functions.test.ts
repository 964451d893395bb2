import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createLogger } from '../log.ts'
import { CHANNEL, NOTIFICATIONS } from './channels.ts'
import { Database } from './database.ts'
import { dropUnusedFunctions, FUNCTIONS_SCHEMA, installFunctions } from './functions.ts'
import { testDatabaseForFile } from './postgres/test-database.ts'

const database = testDatabaseForFile()
const OTHER = 'rewardops_0123456789ab'

let db: Database

beforeAll(() => {
  db = new Database(database.url, createLogger('silent', 'test'), { max: 4, name: 'test' })
})
afterAll(() => db.close())

const schemas = async () =>
  (
    await db.adhoc<{ name: string }>(
      "select nspname as name from pg_namespace where nspname like 'rewardops\\_%' order by 1",
    )
  ).map(({ name }) => name)

const processOf = (functions: string, ago: string) =>
  db.adhoc(
    `insert into process (role, host, pid, local, state, functions, last_seen_at)
     values ('worker', 'h', 1, false, 'alive', $1, now() - $2::interval)`,
    [functions, ago],
  )

it('two versions of a function exist side by side, and each session calls its own', async () => {
  await db.adhoc(
    `create schema ${OTHER}; create function ${OTHER}.settle_batch(p_batch int) returns text language sql as $$ select 'other' $$`,
  )
  const [own] = await db.adhoc<{ of: string }>(
    "select pg_typeof(settle_batch(0))::text || ' ' || current_schema() as of",
  )
  expect(own?.of).toBe('void public')
})

it('repeated and concurrent installs change nothing', async () => {
  // Ten times, because the order of the installers is random.
  for (let times = 0; times < 10; times++) {
    await db.adhoc(`drop schema ${FUNCTIONS_SCHEMA} cascade`)
    await Promise.all([1, 2, 3, 4].map(() => installFunctions(db.pool)))
  }
  await db.adhoc('select settle_batch(0)')
  expect(await schemas()).toEqual([OTHER, FUNCTIONS_SCHEMA].sort())
})

it('functions are dropped when no process has used them for a while', async () => {
  await processOf(OTHER, '1 minute')
  expect(await dropUnusedFunctions(db.pool)).toEqual([])
  await db.adhoc("update process set last_seen_at = now() - interval '11 minutes'")
  expect(await dropUnusedFunctions(db.pool)).toEqual([OTHER])
  expect(await schemas()).toEqual([FUNCTIONS_SCHEMA])
})

it('SQL functions send only the notifications in NOTIFICATIONS', () => {
  const folder = join(import.meta.dirname, 'functions')
  const sent = readdirSync(folder).flatMap((file) => [
    ...readFileSync(join(folder, file), 'utf8').matchAll(/pg_notify\('(\w+)', '(\w*)'/g),
  ])
  expect(sent.length).toBeGreaterThan(0)
  for (const [, channel, letter] of sent) {
    expect(channel).toBe(CHANNEL)
    expect(Object.values(NOTIFICATIONS)).toContain(letter)
  }
})
