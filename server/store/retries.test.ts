import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { createLogger } from '../log.ts'
import { Database } from './database.ts'
import { testDatabaseForFile } from './postgres/test-database.ts'
import { retriesByServer, retriesPerMinute } from './sql/retries.ts'

const database = testDatabaseForFile()
let db: Database

beforeAll(() => {
  db = new Database(database.url, createLogger('silent', 'test'), { max: 2, name: 'test' })
})
afterAll(() => db.close())
beforeEach(() => db.adhoc('truncate attempt'))

type Call = [attempt: number, startMs: number, endMs: number, server: number, outcome: string]

/**
 * Stores the attempts of a sample. Times are in ms after the time one minute ago; attempts wait neither for slots nor
 * for back-off.
 */
async function sample(index: number, calls: Call[]): Promise<void> {
  for (const [attempt, startMs, endMs, server, outcome] of calls) {
    await db.adhoc(
      `insert into attempt (batch_id, idx, attempt, server_id, worker_id, started_at, queue_ms, backoff_ms, service_ms,
         outcome, reason)
       values (1, $1, $2, $3, 1, date_trunc('minute', now()) - interval '1 minute' + $4 * interval '1 ms', 0, 0, $5, $6,
         case when $6 not in ('ok', 'superseded', 'recalled', 'conn_race') then 'server_error' end)`,
      [index, attempt, server, startMs, endMs - startMs, outcome],
    )
  }
}

async function retries(): Promise<{ byServer: Record<string, [number, number]>; total: number }> {
  const rows = await retriesByServer(db)
  const minutes = await retriesPerMinute(db)
  return {
    byServer: Object.fromEntries(rows.map((r) => [r.server_id, [r.retries, r.same]])),
    total: minutes.reduce((sum, { count }) => sum + count, 0),
  }
}

it('two votes that each fail once and are retried have two retries', async () => {
  await sample(0, [
    [1, 0, 10, 1, 'fault'],
    [2, 10, 30, 1, 'ok'],
    [1, 0, 20, 2, 'fault'],
    [2, 20, 30, 3, 'ok'],
  ])
  expect(await retries()).toEqual({ byServer: { 1: [1, 1], 2: [1, 0] }, total: 2 })
})

it('a hedge, a recalled call and a closed connection are not retries', async () => {
  // The retry is hedged, and the hedge answers first.
  await sample(0, [
    [1, 0, 10, 1, 'fault'],
    [2, 10, 40, 2, 'superseded'],
    [2, 20, 40, 3, 'ok'],
  ])
  await sample(1, [
    [1, 0, 10, 1, 'fault'],
    [2, 10, 20, 2, 'recalled'],
    [2, 20, 40, 1, 'ok'],
  ])
  await sample(2, [
    [1, 0, 10, 4, 'recalled'],
    [1, 10, 20, 4, 'conn_race'],
    [1, 20, 30, 4, 'ok'],
  ])
  expect(await retries()).toEqual({ byServer: { 1: [2, 1] }, total: 2 })
})

it('a failure without a retry is none', async () => {
  await sample(0, [
    [1, 0, 10, 1, 'fault'],
    [2, 10, 20, 2, 'fault'],
  ])
  await sample(1, [[1, 0, 10, 3, 'client']])
  expect(await retries()).toEqual({ byServer: { 1: [1, 0] }, total: 1 })
})
