import { afterAll, beforeAll, expect, it } from 'vitest'
import { createLogger } from '../log.ts'
import { WORKER_POOL } from '../store/connection-budget.ts'
import { Database } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { ProcessRow } from './process-row.ts'

const database = testDatabaseForFile()
const log = createLogger('silent', 'test')
let db: Database

beforeAll(() => {
  db = new Database(database.url, log, WORKER_POOL)
})
afterAll(() => db.close())

it('a process learns that it was declared dead, and when', async () => {
  const row = await ProcessRow.register(db, 'worker', false)
  await db.adhoc(
    "update process set state = 'dead', ended_at = clock_timestamp() - interval '1 minute' where id = $1",
    [row.id],
  )
  const atMs: number[] = []
  row.onDeclaredDead = (ms) => atMs.push(ms)
  await row.report({})
  await row.report({})
  expect(atMs).toEqual([expect.any(Number)])
  expect(atMs[0]).toBeLessThanOrEqual(performance.now() - 60_000)
})
