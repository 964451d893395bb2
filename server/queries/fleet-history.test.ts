import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { insertServer } from '../cluster/testing/servers.ts'
import type { CountsDto, FleetHistoryDto } from '../contract/fleet-history.ts'
import { createLogger } from '../log.ts'
import { LatencyHistogram } from '../router/latency-histogram.ts'
import { DatabaseClock } from '../store/clock.ts'
import { Database } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import {
  addLatencies,
  addServerCalls,
  LATENCY_KINDS,
  pruneFleetHistory,
  type ServerCalls,
} from '../store/sql/server-reports.ts'
import { WorkerCounters } from '../worker/worker-counters.ts'
import { type ReportSources, WorkerReport } from '../worker/worker-report.ts'
import { FleetHistory } from './fleet-history.ts'

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
    `truncate server, server_minute, server_slice, server_hour, server_event, worker_slice, worker_minute, worker_hour, latency_slice, retry_slice,
       process cascade`,
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

const works = (worker_id: number, fields: Record<string, number | string>) =>
  db.rows('works', 'select add_worker_history($1)', [JSON.stringify([{ worker_id, ...fields }])])

const retried = (serverId: number, cause: string, n: number) =>
  db.adhoc(
    `insert into retry_slice (seconds, at, server_id, cause, n)
     select seconds, date_bin(seconds * interval '1 second', now(), 'epoch'), $1, $2, $3
     from unnest('{10,60,3600}'::int[]) seconds`,
    [serverId, cause, n],
  )

const sum = (values: readonly (number | null)[]) =>
  values.reduce<number>((total, value) => total + (value ?? 0), 0)

const totals = ({ series }: CountsDto) =>
  Object.fromEntries(series.map(({ name, values }) => [name, sum(values)]))

describe.each([900, 21_600, 604_800])('a range of %i s', (seconds) => {
  const read = (): Promise<FleetHistoryDto> => new FleetHistory(db, clock).get({ seconds })

  it('has each result, request and failure once', async () => {
    const id = await insertServer(db, { name: 'rm' })
    for (let report = 0; report < 3; report++) {
      await works(7, {
        ...{ scored: 5, failed: 1, loop_p99_ms: 3 + report },
        ...{ in_flight_seconds: 8, capacity_seconds: 16 },
      })
      await calls(id, { requests: 10, errors: 4, busy: 1, corrupt: 1, client: 1 })
    }
    await retried(id, 'fault', 4)
    await retried(id, 'stall', 2)
    await retried(id, 'hedge', 7)
    const { intervals, intervalSeconds, ...history } = await read()
    const { throughput, load, loopP99Ms, requests, failures, retries } = history
    expect(intervals).toBeLessThanOrEqual(180)
    expect(totals(throughput)).toEqual({ w7: 18 })
    expect(sum(load.inFlight) * intervalSeconds).toBeCloseTo(24, 3)
    expect(sum(load.capacity) * intervalSeconds).toBeCloseTo(48, 3)
    expect(Math.max(...(loopP99Ms.series[0]?.values ?? []).map((ms) => ms ?? 0))).toBe(5)
    expect(totals(requests)).toEqual({ rm: 30 })
    expect(Object.values(failures).map(sum)).toEqual([3, 3, 3, 3])
    expect([retries.byCause.fault, retries.byCause.stall, retries.hedges].map(sum)).toEqual([
      4, 2, 7,
    ])
    expect(totals(retries.byServer)).toEqual({ rm: 6 })
  })

  it('has at most eight series of a chart, and the sum of the others', async () => {
    for (let i = 1; i <= 10; i++) {
      const id = await insertServer(db, { name: `rm-${i}`, model: `m${i}` })
      await calls(id, { requests: i, capacitySeconds: 1, latency: bucketsOf(i) })
      await retried(id, 'busy', i)
      await works(i, { scored: i, loop_p99_ms: i })
    }
    const { throughput, loopP99Ms, requests, retries, imbalance, p95Ms } = await read()
    for (const { series, others } of [throughput, requests, retries.byServer]) {
      expect(series.map(({ values }) => sum(values))).toEqual([3, 4, 5, 6, 7, 8, 9, 10])
      expect([others?.n, sum(others?.values ?? [])]).toEqual([2, 3])
    }
    expect(loopP99Ms).toMatchObject({ n: 10, series: { length: 8 } })
    expect(loopP99Ms.series.map(({ name }) => name)).toEqual(
      [3, 4, 5, 6, 7, 8, 9, 10].map((id) => `w${id}`),
    )
    expect(imbalance).toMatchObject({ n: 10, series: { length: 8 } })
    expect(p95Ms).toMatchObject({ n: 10, series: { length: 8 } })
  })

  it('has ejections, outages and returns of servers, and deaths of workers', async () => {
    const id = await insertServer(db, { name: 'rm' })
    await db.adhoc(
      `insert into server_event (server_id, kind, "from", "to", cause, at)
       select $1, kind, "from", "to", cause, now() - ago * interval '1 second'
       from (values ('health', 'ok', 'ejected', '5 consecutive faults', 3), ('health', 'ok', 'ejected', 'by another process', 3),
         ('health', 'ejected', 'half_open', 'time over', 2), ('state', 'probing', 'ready', 'registered', 2),
         ('state', 'ready', 'unreachable', 'no answer', 2), ('state', 'unreachable', 'probing', 'answers', 1),
         ('state', 'probing', 'ready', 'answers', 1)) e(kind, "from", "to", cause, ago)`,
      [id],
    )
    await db.adhoc(
      `insert into process (id, host, pid, local, state, role, requeued, last_seen_at, ended_at)
       values (3, '', 0, true, 'dead', 'worker', 12, now() - interval '1 second', now()),
         (4, '', 0, true, 'dead', 'worker', 0, now(), now())`,
    )
    const { events } = await read()
    expect(events.map(({ kind, name, to, cause, n }) => [kind, name, to, cause, n])).toEqual([
      ['ejected', 'rm', 'ejected', '5 consecutive faults', 2],
      ['state', 'rm', 'unreachable', 'no answer', 1],
      ['state', 'rm', 'ready', 'answers', 1],
      ['died', 'w3', null, '12 samples were requeued', 1],
    ])
  })

  it('compares the requests of a pool with its capacity', async () => {
    const [a, b] = [
      await insertServer(db, { name: 'a', model: 'm' }),
      await insertServer(db, { name: 'b', model: 'm' }),
    ]
    await calls(a, { requests: 30, capacitySeconds: 8 })
    await calls(b, { requests: 10, capacitySeconds: 8 })
    const { imbalance } = await read()
    expect(imbalance.series.map(({ name }) => name)).toEqual(['m'])
    const [pool] = imbalance.series
    expect(Math.max(...(pool?.values ?? []).map((value) => value ?? 0))).toBeCloseTo(1.5, 5)
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

it('has the capacity and event-loop delay of an idle worker, with one write for ten seconds', async () => {
  const startS = Math.floor(clock.nowMs() / 10_000) * 10 - 60
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
  const queries = vi.spyOn(db, 'rows')
  try {
    const begunMs = performance.now()
    const nowMs = () => startS * 1_000 + 4_500 + performance.now() - begunMs
    const report = new WorkerReport({
      ...{ db, log: createLogger('silent', 'test'), servers: { stats: () => ({}) } },
      row: { id: 7, clock: { nowMs }, report: async () => {}, ended: async () => {} },
      queue: { touch: async () => {} },
      worker: {
        ...{ jobsByPool: () => [], counters: new WorkerCounters(), inFlight: 0 },
        intake: { inUse: 0, capacity: 8 },
      },
      loopDelay: { take: () => ({ p99Ms: 3, maxMs: 3 }) },
    } as unknown as ReportSources)
    const turn = () => new Promise((resolve) => setImmediate(resolve))
    report.start()
    for (let second = 0; second < 40; second++) {
      await turn()
      await Promise.all(queries.mock.results.map(({ value }) => value))
      await turn()
      await vi.advanceTimersByTimeAsync(1_000)
    }
    await report.ended()
    expect(queries.mock.calls.filter(([name]) => name === 'worker-load')).toHaveLength(5)
  } finally {
    queries.mockRestore()
    vi.useRealTimers()
  }
  const { load, loopP99Ms, from } = await new FleetHistory(db, clock).get({ seconds: 900 })
  const first = (startS - Date.parse(from) / 1_000) / 10
  const of = (values: readonly (number | null)[] = []) => values.slice(first, first + 5)
  const capacity = of(load.capacity)
  expect(capacity.slice(1, 4)).toEqual([8, 8, 8].map((n) => expect.closeTo(n, 3)))
  expect(sum(capacity) * 10).toBeCloseTo(8 * 40, 2)
  expect(of(load.inFlight)).toEqual([0, 0, 0, 0, 0])
  expect(of(loopP99Ms.series[0]?.values)).toEqual([3, 3, 3, 3, 3])
})

it('reads an hour in the past, which has no ten-second rows left, from minutes', async () => {
  await works(1, { scored: 6 })
  await db.adhoc("update worker_minute set at = at - interval '3 days'")
  await db.adhoc('truncate worker_slice')
  const until = Math.floor(clock.nowMs() / 1_000) - 3 * 86_400 + 600
  const history = await new FleetHistory(db, clock).get({ seconds: 3_600, until })
  expect([history.intervalSeconds, totals(history.throughput)]).toEqual([60, { w1: 6 }])
})

it('a range ends with the interval that contains its end', async () => {
  const untils = [1_800_000_000, 1_800_000_001]
  const ends = await Promise.all(
    untils.map(async (until) => {
      const { from, intervals, intervalSeconds } = await new FleetHistory(db, clock).get({
        ...{ seconds: 900, until },
      })
      return Date.parse(from) / 1_000 + intervals * intervalSeconds
    }),
  )
  expect(ends).toEqual([1_800_000_000, 1_800_000_010])
})

it('rows are deleted after their retention time', async () => {
  await works(1, { scored: 1 })
  await db.adhoc("update worker_slice set at = at - interval '25 hours'")
  await db.adhoc("update worker_minute set at = at - interval '25 hours'")
  await pruneFleetHistory(db)
  const rows = await db.adhoc(
    'select (select count(*)::int from worker_slice) as slices, (select count(*)::int from worker_minute) as minutes',
  )
  expect(rows).toEqual([{ slices: 0, minutes: 1 }])
})

it('keeps latencies and retries of ten seconds for a day, of minutes for thirty days, of hours for a year', async () => {
  await db.adhoc(
    `insert into latency_slice (kind, seconds, at, counts)
     select kind, seconds, now() - days * interval '1 day', '{1}'
     from unnest($1::text[]) kind, unnest('{10,60,3600}'::int[]) seconds, unnest('{0.5,2,40,400}'::float8[]) days`,
    [LATENCY_KINDS],
  )
  await db.adhoc(
    `insert into retry_slice (seconds, at, server_id, cause, n)
     select seconds, at, 1, 'fault', 1 from latency_slice where kind = 'queue'`,
  )
  await pruneFleetHistory(db)
  const retries = await db.adhoc(
    'select seconds, count(*)::int as n from retry_slice group by 1 order by 1',
  )
  expect(retries).toEqual([10, 60, 3_600].map((seconds, i) => ({ seconds, n: i + 1 })))
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
