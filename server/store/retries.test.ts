import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { createLogger } from '../log.ts'
import { Database } from './database.ts'
import { testDatabaseForFile } from './postgres/test-database.ts'
import { attemptsStatement } from './sql/flush.ts'
import { retriesByServer, retriesStatement } from './sql/retries.ts'

const database = testDatabaseForFile()
let db: Database

beforeAll(() => {
  db = new Database(database.url, createLogger('silent', 'test'), { max: 2, name: 'test' })
})
afterAll(() => db.close())
beforeEach(() => db.adhoc('truncate attempt, retry_slice, sample'))

type Call = [
  ...[attempt: number, startMs: number, endMs: number, server: number, outcome: string],
  hedgeOf?: number,
]
const ABANDONED = ['superseded', 'recalled', 'conn_race']

/**
 * Stores the attempts of a sample. Times are in ms after the start of the previous minute; attempts wait neither for
 * slots nor for back-off.
 */
async function sample(index: number, calls: Call[]): Promise<void> {
  const beganMs = Math.floor(Date.now() / 60_000) * 60_000 - 60_000
  const attemptLog = calls.map(([attempt, startMs, endMs, serverId, outcome, hedgeOf]) => ({
    ...{ attempt, serverId, outcome, startedAtMs: beganMs + startMs, serviceMs: endMs - startMs },
    ...{ queueMs: 0, backoffMs: 0, status: null, detail: null },
    ...(hedgeOf !== undefined && { hedgeOf }),
    reason: outcome === 'ok' || ABANDONED.includes(outcome) ? null : ('transport' as const),
  }))
  const samples = [{ batchId: 1, index, attemptLog }]
  await db.adhoc(
    "insert into sample (batch_id, idx, group_no, data_source) values (1, $1, 0, '')",
    [index],
  )
  await db.transaction(async (client) => {
    await client.query(attemptsStatement(1, samples)!)
    await client.query(retriesStatement(samples))
  })
}

/** Counted retries and hedges by server and cause: one number for each slice length, shortest first. */
async function counted(): Promise<Record<string, number[]>> {
  const rows = await db.adhoc<{ cause: string; ns: number[] }>(
    `select cause, array_agg(n order by seconds) as ns from (
       select seconds, server_id || ' ' || cause as cause, sum(n)::int as n from retry_slice group by 1, 2) t
     group by 1 order by 1`,
  )
  return Object.fromEntries(rows.map(({ cause, ns }) => [cause, ns]))
}

async function retries(): Promise<{ byServer: Record<string, [number, number]>; total: number }> {
  const rows = await retriesByServer(db)
  const [slices] = await db.adhoc<{ total: number }>(
    "select coalesce(sum(n), 0)::int as total from retry_slice where seconds = 60 and cause <> 'hedge'",
  )
  return {
    byServer: Object.fromEntries(rows.map((r) => [r.server_id, [r.retries, r.same]])),
    total: slices!.total,
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
    [2, 20, 40, 3, 'ok', 2],
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
  expect(await counted()).toEqual({ '1 fault': [2, 2, 2], '2 hedge': [1, 1, 1] })
})

it('a call and its hedge that both fail are one retry, also if the retry is hedged', async () => {
  await sample(0, [
    [1, 0, 20, 1, 'fault'],
    [1, 5, 30, 2, 'fault', 1],
    [2, 30, 60, 3, 'superseded'],
    [2, 40, 60, 4, 'ok', 3],
  ])
  expect(await retries()).toEqual({ byServer: { 1: [1, 0] }, total: 1 })
  expect(await counted()).toEqual({
    ...{ '1 hedge': [1, 1, 1], '1 fault': [1, 1, 1], '3 hedge': [1, 1, 1] },
  })
})

it('retries are counted at the time of their failure, once for each stored attempt', async () => {
  await sample(0, [
    [1, 0, 9_000, 1, 'fault'],
    [2, 9_000, 25_000, 1, 'fault'],
    [3, 25_000, 26_000, 2, 'ok'],
  ])
  const rows = () =>
    db.adhoc(
      'select extract(second from at)::int as s, n from retry_slice where seconds = 10 order by at',
    )
  expect(await rows()).toEqual([
    { s: 0, n: 1 },
    { s: 20, n: 1 },
  ])
  // The attempts of a repeated flush are not stored again.
  await db.transaction(async (client) => {
    await client.query(retriesStatement([{ batchId: 1, index: 0, attemptLog: [] }]))
  })
  expect(await rows()).toHaveLength(2)
})

it('a failure without a retry does not count as a retry', async () => {
  await sample(0, [
    [1, 0, 10, 1, 'fault'],
    [2, 10, 20, 2, 'fault'],
  ])
  await sample(1, [[1, 0, 10, 3, 'client']])
  expect(await retries()).toEqual({ byServer: { 1: [1, 0] }, total: 1 })
})
