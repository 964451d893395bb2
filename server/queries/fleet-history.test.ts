import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { insertServer } from '../cluster/testing/servers.ts'
import type { FleetHistoryDto } from '../contract/fleet-history.ts'
import { createLogger } from '../log.ts'
import { LatencyHistogram } from '../router/latency-histogram.ts'
import { DatabaseClock } from '../store/clock.ts'
import { Database } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import {
  addLatencies,
  addServerCalls,
  addWorkerLoad,
  LATENCY_KINDS,
  pruneFleetHistory,
  type ServerCalls,
} from '../store/sql/server-reports.ts'
import { FleetHistory } from './fleet-history.ts'

/** Tests that the fleet over time equals what servers and workers reported. */

const database = testDatabaseForFile()
let db: Database
let clock: DatabaseClock

beforeAll(async () => {
  db = new Database(database.url, createLogger('error', 'test'), {
    max: 2,
    name: 'test',
    keyed: true,
    statementTimeoutMs: 10_000,
  })
  clock = await DatabaseClock.of(db)
})
afterAll(() => db.close())
beforeEach(() =>
  db.adhoc(
    'truncate server, server_minute, server_slice, worker_slice, worker_minute, latency_slice',
  ),
)

const bucketsOf = (...durationsMs: number[]) => {
  const histogram = new LatencyHistogram()
  for (const ms of durationsMs) histogram.add(ms)
  return histogram.toJSON()
}

const calls = (serverId: number, fields: Partial<ServerCalls>) =>
  addServerCalls(db, [
    {
      ...{
        serverId,
        requests: 0,
        errors: 0,
        retries: 0,
        hedges: 0,
        busy: 0,
        corrupt: 0,
        client: 0,
      },
      ...{ ejections: 0, inFlightSeconds: 0, capacitySeconds: 0, tokens: 0, latency: bucketsOf() },
      ...fields,
    },
  ])

const sum = (values: readonly (number | null)[]) =>
  values.reduce<number>((total, value) => total + (value ?? 0), 0)

describe.each([900, 21_600, 604_800])('a range of %i s', (seconds) => {
  const read = (): Promise<FleetHistoryDto> => new FleetHistory(db, clock).get({ seconds })

  it('has each result, request and failure once', async () => {
    const id = await insertServer(db)
    for (let report = 0; report < 3; report++) {
      await addWorkerLoad(db, 7, {
        ...{ scored: 5, failed: 1, inFlightSeconds: 8, capacitySeconds: 16, loopP99Ms: 3 + report },
      })
      await calls(id, { requests: 10, errors: 4, busy: 1, corrupt: 1, client: 1, retries: 2 })
    }
    const { workers, servers, intervals } = await read()
    expect(intervals).toBeLessThanOrEqual(180)
    expect(workers).toHaveLength(1)
    const [worker] = workers
    expect([worker?.id, sum(worker?.scored ?? []), sum(worker?.failed ?? [])]).toEqual([
      'w7',
      15,
      3,
    ])
    expect(Math.max(...(worker?.loopP99Ms ?? []).map((ms) => ms ?? 0))).toBe(5)
    const [server] = servers
    expect(sum(server?.requests ?? [])).toBe(30)
    const { busy, invalid, refused, fault } = server?.failures ?? {}
    expect([busy, invalid, refused, fault].map((of) => sum(of ?? []))).toEqual([3, 3, 3, 3])
    expect(sum(server?.retries ?? [])).toBe(6)
  })

  it('compares the requests of a pool with its capacity', async () => {
    const [a, b] = [
      await insertServer(db, { name: 'a', model: 'm' }),
      await insertServer(db, { name: 'b', model: 'm' }),
    ]
    await calls(a, { requests: 30, capacitySeconds: 8 })
    await calls(b, { requests: 10, capacitySeconds: 8 })
    const { imbalance } = await read()
    expect(imbalance.map(({ model }) => model)).toEqual(['m'])
    expect(Math.max(...(imbalance[0]?.values ?? []).map((value) => value ?? 0))).toBeCloseTo(1.5, 5)
  })

  it('has quantiles of durations within a bucket of the exact ones', async () => {
    const durations = Array.from({ length: 100 }, (_, i) => i + 1)
    const counts = bucketsOf(...durations)
    await addLatencies(db, { queue: counts, router: bucketsOf(), service: counts })
    await addLatencies(db, { queue: counts, router: bucketsOf(), service: bucketsOf() })
    const { latency } = await read()
    const queue = latency.queue.filter(({ n }) => n > 0)
    expect(sum(queue.map(({ n }) => n))).toBe(200)
    const [first] = queue
    for (const [q, exact] of [
      [first?.p50, 50],
      [first?.p95, 95],
      [first?.p99, 99],
    ] as const) {
      expect(Math.abs((q ?? 0) / exact - 1)).toBeLessThan(0.19)
    }
    expect(latency.router.every(({ p50 }) => p50 === null)).toBe(true)
  })
})

it('rows beyond their time are deleted', async () => {
  await addWorkerLoad(db, 1, {
    ...{ scored: 1, failed: 0, inFlightSeconds: 0, capacitySeconds: 0, loopP99Ms: 0 },
  })
  await db.adhoc("update worker_slice set at = at - interval '25 hours'")
  await db.adhoc("update worker_minute set at = at - interval '25 hours'")
  await pruneFleetHistory(db)
  const rows = await db.adhoc(
    'select (select count(*)::int from worker_slice) as slices, (select count(*)::int from worker_minute) as minutes',
  )
  expect(rows).toEqual([{ slices: 0, minutes: 1 }])
})

it('keeps latencies of ten seconds for a day, of minutes for thirty days, of hours for a year', async () => {
  await db.adhoc(
    `insert into latency_slice (kind, seconds, at, counts)
     select kind, seconds, now() - days * interval '1 day', '{1}'
     from unnest($1::text[]) kind, unnest('{10,60,3600}'::int[]) seconds, unnest('{0.5,2,40,400}'::float8[]) days`,
    [LATENCY_KINDS],
  )
  await pruneFleetHistory(db)
  const kept = await db.adhoc(
    `select seconds, count(*)::int as n, extract(day from now() - min(at))::int as days
     from latency_slice group by 1 order by 1`,
  )
  expect(kept).toEqual([
    { seconds: 10, n: 3, days: 0 },
    { seconds: 60, n: 6, days: 2 },
    { seconds: 3_600, n: 9, days: 40 },
  ])
})
