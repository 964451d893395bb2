import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { createLogger } from '../log.ts'
import { LatencyHistogram } from '../router/latency-histogram.ts'
import { createRewardRouter } from '../router/reward-router.ts'
import type { RouterServer } from '../router/router-types.ts'
import { Database } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { addServerCalls, type ServerCalls } from '../store/sql/server-reports.ts'
import { RouterReport } from './router-report.ts'
import { RecordingRouter } from './testing/recording-router.ts'
import { insertServer } from './testing/servers.ts'

const database = testDatabaseForFile()
const log = createLogger('silent', 'test')

let db: Database
let router: RecordingRouter
let report: RouterReport
let id: number

beforeAll(() => {
  db = new Database(database.url, log, { max: 4, name: 'test', keyed: true })
})
afterAll(() => db.close())
beforeEach(async () => {
  await db.adhoc('truncate server, server_minute, server_event')
  id = await insertServer(db)
  router = new RecordingRouter()
  report = new RouterReport({ db, router, process: 'w3', log })
})
afterEach(() => report.close())

const latencyOf = (...durationsMs: number[]) => {
  const histogram = new LatencyHistogram()
  for (const ms of durationsMs) histogram.add(ms)
  return histogram.toJSON()
}
const noFailures = { client: 0, busy: 0, fault: 0, stall: 0, corrupt: 0, conn_race: 0 }

/** Sums all minutes, because a test may cross a minute's end. */
async function minutes() {
  const [row] = await db.adhoc<Record<string, number>>(
    `select count(*)::int as rows, sum(requests)::int as requests, sum(errors)::int as errors,
            sum(retries)::int as retries, sum(hedges)::int as hedges, sum(busy)::int as busy,
            sum(corrupt)::int as corrupt, sum(client)::int as client, sum(tokens)::int as tokens,
            sum(ejections)::int as ejections,
            sum((select sum(n) from unnest(latency_ms) n))::int as scored
     from server_minute where server_id = $1`,
    [id],
  )
  return row!
}
const events = () =>
  db.adhoc<{ from: string; to: string; cause: string; evidence: object; kind: string; at: Date }>(
    'select "from", "to", cause, evidence, kind, at from server_event order by id',
  )

describe('calls', () => {
  it('are added once to the minute and the totals, from several processes', async () => {
    const other = new RecordingRouter()
    const second = new RouterReport({ db, router: other, process: 'w4', log })
    router.set(id, {
      requests: 10,
      errors: 4,
      retries: 2,
      hedges: 1,
      tokens: 1_234.6,
      failures: { ...noFailures, busy: 1, corrupt: 1, client: 2 },
      latency: latencyOf(1, 2, 300),
    })
    other.set(id, { requests: 5, tokens: 100, latency: latencyOf(1) })
    await Promise.all([report.write(), second.write()])
    await Promise.all([report.write(), second.write()])
    expect(await minutes()).toMatchObject({ requests: 15, tokens: 1_335, scored: 4 })
    router.set(id, { requests: 12, latency: latencyOf(1, 2, 300, 300) })
    await report.write()
    await second.close()
    expect(await minutes()).toMatchObject({
      requests: 17,
      errors: 4,
      retries: 2,
      hedges: 1,
      busy: 1,
      corrupt: 1,
      client: 2,
      tokens: 1_335,
      scored: 5,
    })
    const totals = await db.adhoc('select requests, errors, retries from server')
    expect(totals).toEqual([{ requests: '17', errors: '4', retries: '2' }])
  })

  it('of an idle server leave no row', async () => {
    router.set(id, { waiting: 5 })
    await report.write()
    expect(await minutes()).toMatchObject({ rows: 0 })
  })

  it.each(['retries', 'hedges', 'ejections', 'tokens'] as const)(
    'of a server without capacity are written even if no new request was sent: %s',
    async (count) => {
      router.set(id, { requests: 4, health: 'suspect' })
      await report.write()
      router.set(id, { [count]: 1, health: 'ejected' })
      await report.write()
      expect(await minutes()).toMatchObject({ requests: 4, [count]: 1 })
    },
  )

  it('of all servers are written by one statement, which leaves the totals of idle servers alone', async () => {
    const idle = await insertServer(db)
    const rowOf = async () =>
      (await db.adhoc('select xmin::text, requests from server where id = $1', [idle]))[0]
    const before = await rowOf()
    router.set(id, { requests: 3 })
    router.set(idle, { capacity: 4 })
    const rows = vi.spyOn(db, 'rows')
    await report.write()
    expect(rows.mock.calls.map(([name]) => name)).toEqual(['server-calls'])
    rows.mockRestore()
    expect(await rowOf()).toEqual(before)
    const minute = await db.adhoc(
      'select capacity_seconds > 0 as has_capacity from server_minute where server_id = $1',
      [idle],
    )
    expect(minute).toEqual([{ has_capacity: true }])
  })

  it('are added by concurrent processes without deadlocks', async () => {
    const ids = [id]
    for (let i = 0; i < 9; i++) ids.push(await insertServer(db))
    const calls = (serverId: number): ServerCalls => ({
      ...{ serverId, requests: 1, errors: 1, retries: 1, hedges: 0, busy: 0, corrupt: 0 },
      ...{ client: 0, ejections: 0, inFlightSeconds: 1, capacitySeconds: 1, tokens: 1 },
      latency: latencyOf(1),
    })
    const rounds = Array.from({ length: 40 }, (_, i) =>
      addServerCalls(db, (i % 2 === 0 ? ids : ids.toReversed()).map(calls)),
    )
    await Promise.all(rounds)
    const totals = await db.adhoc('select distinct requests, errors, retries from server')
    expect(totals).toEqual([{ requests: '40', errors: '40', retries: '40' }])
    expect(await minutes()).toMatchObject({ requests: 40, tokens: 40, scored: 40 })
  })

  it('that could not be written are written with the next ones', async () => {
    router.set(id, { requests: 10 })
    router.event(id)
    await db.adhoc('alter table server_minute rename to elsewhere')
    await report.write()
    await db.adhoc('alter table elsewhere rename to server_minute')
    router.set(id, { requests: 11 })
    await report.write()
    expect(await minutes()).toMatchObject({ requests: 11 })
    expect(await events()).toHaveLength(1)
  })

  it('are written a last time at the end', async () => {
    router.set(id, { requests: 3 })
    await report.close()
    expect(await minutes()).toMatchObject({ requests: 3 })
  })
})

describe('the capacity of a server', () => {
  const config: Omit<RouterServer, 'id' | 'maxInFlight'> = {
    name: 's',
    url: 'http://127.0.0.1:9',
    engine: 'vllm',
    model: 'rm',
    version: null,
    weight: 1,
    apiKey: null,
    state: 'ready',
  }

  it.each([
    ['a configured limit', { maxInFlight: 8 }, 8],
    ['the maximum that it reports', { maxInFlight: null, maxConcurrent: 4 }, 4],
  ])('is at most %s, over all processes', async (_, limits, capacity) => {
    const processes = 4
    const routers = Array.from({ length: processes }, () => createRewardRouter({ processes }))
    const reports = routers.map((one) => new RouterReport({ db, router: one, process: 'w', log }))
    for (const one of routers) {
      one.setServers([{ id, ...config, ...limits }])
      one.setSlots(id, capacity / processes)
      await one.acquire({ model: 'rm', tokens: 1 })
    }
    await Promise.all(reports.map((one) => one.write()))
    const [row] = await db.adhoc<{ ratio: number }>(
      'select sum(capacity_seconds) / sum(in_flight_seconds) as ratio from server_minute',
    )
    // Each process has one request in flight.
    expect((row?.ratio ?? 0) * processes).toBeCloseTo(capacity, 3)
    await Promise.all([...reports, ...routers].map((one) => one.close()))
  })

  it('is, in one process, its slots or an equal share of the limit, whichever is more', async () => {
    const one = createRewardRouter({ processes: 4 })
    one.setServers([{ id, ...config, maxInFlight: 8 }])
    expect(one.snapshot()[0]).toMatchObject({ limit: 8, capacity: 2 })
    one.setSlots(id, 6)
    expect(one.snapshot()[0]).toMatchObject({ limit: 8, capacity: 6 })
    await one.close()
  })
})

describe('a process’s report of its servers', () => {
  it('is the router’s snapshot with calls per second since the last report', async () => {
    router.set(id, { requests: 100 })
    await report.write()
    router.set(id, {
      requests: 150,
      inFlight: 2,
      slots: 4,
      limit: 6,
      health: 'slow_start',
      consecutiveFaults: 1,
      tokensPerSecond: 5_000,
      hedges: 3,
      ejections: 2,
      waiting: 9,
    })
    await report.write()
    const { requestsPerSecond, ...rest } = report.servers()[id]!
    expect(requestsPerSecond).toBeGreaterThan(0)
    expect(rest).toEqual({
      inFlight: 2,
      slots: 4,
      limit: 6,
      health: 'slow_start',
      consecutiveFaults: 1,
      tokensPerSecond: 5_000,
      hedges: 3,
      ejections: 2,
      waiting: 9,
    })
  })
})

describe('changes of health', () => {
  it('are stored as events with cause, evidence and process', async () => {
    const atMs = Date.now() - 60_000
    router.event(id, { evidence: { faults: 5, status: null }, atMs })
    router.event(id, { from: 'ejected', to: 'half_open', cause: 'its time is over' })
    await report.write()
    await report.write()
    const stored = await events()
    expect(stored).toMatchObject([
      {
        from: 'ok',
        to: 'ejected',
        cause: '5 faults in a row',
        evidence: { faults: 5, status: null, process: 'w3' },
        kind: 'health',
      },
      { from: 'ejected', to: 'half_open', evidence: { process: 'w3' } },
    ])
    expect(Math.abs(stored[0]!.at.getTime() - atMs)).toBeLessThan(5_000)
  })

  it('are stored up to fifty times per minute and server, the rest as one event', async () => {
    const other = await insertServer(db)
    for (let i = 0; i < 200; i++) router.event(id, { cause: `fault ${i}` })
    router.event(other)
    await report.write()
    expect(await events()).toHaveLength(51)
    router.event(id, { from: 'slow_start', to: 'ok', cause: 'the last' })
    await report.write()
    expect(await events()).toHaveLength(51)
    // The other events are stored as one event when the minute or the process ends.
    await report.close()
    const stored = await events()
    expect(stored).toHaveLength(52)
    expect(stored.at(-1)).toMatchObject({
      from: 'ok',
      to: 'ok',
      cause: '151 more changes within a minute; last: the last',
      evidence: { omitted: 151, process: 'w3' },
      kind: 'health',
    })
  })

  it.each([
    ['the end of a minute', 40],
    ['the end of a full minute', 60],
  ])('are not lost while %s is written', async (_, count) => {
    const atMs = Date.now() - 61_000
    for (let i = 0; i < count; i++) router.event(id, { cause: `fault ${i}`, atMs })
    await db.transaction(async (client) => {
      await client.query('lock table server_event in access exclusive mode')
      const writing = report.write()
      await waitFor('the insert', async () => {
        const waiting = await db.adhoc(
          "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '%server_event%'",
        )
        return waiting.length > 0
      })
      router.event(id, { cause: 'meanwhile' })
      await client.query('commit')
      await writing
    })
    await report.close()
    const causes = (await events()).map(({ cause }) => cause)
    const last = count > 50 ? '10 more changes within a minute; last: fault 59' : 'fault 39'
    expect(causes.slice(-2)).toEqual([last, 'meanwhile'])
    expect(causes).toHaveLength(count > 50 ? 52 : 41)
  })
})
