import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { createLogger } from '../log.ts'
import { Database } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { WorkerCounters } from './worker-counters.ts'
import { type ReportSources, WorkerReport } from './worker-report.ts'

const database = testDatabaseForFile()
const log = createLogger('silent', 'test')
let db: Database
let counters: WorkerCounters
let touch: ReturnType<typeof vi.fn>
let reported: ReturnType<typeof vi.fn>
let report: WorkerReport

beforeAll(() => {
  db = new Database(database.url, log, { max: 4, name: 'test' })
})
afterAll(() => db.close())
beforeEach(async () => {
  await db.adhoc('truncate worker_slice, worker_minute, latency_slice')
  counters = new WorkerCounters()
  touch = vi.fn()
  reported = vi.fn(async () => {})
  report = new WorkerReport({
    db,
    row: {
      ...{ id: 7, state: 'alive', report: reported, ended: async () => {} },
      clock: { nowMs: () => Date.now() },
    },
    queue: { touch },
    worker: {
      jobsByPool: () => new Map([['pool', []]]),
      counters,
      inFlight: 0,
      intake: { inUse: 0, capacity: 8 },
    },
    servers: { stats: () => ({}) },
    loopDelay: { take: () => ({ p99Ms: 0, maxMs: 0 }) },
    log,
  } as unknown as ReportSources)
})
afterEach(() => {
  vi.useRealTimers()
})

const SCORED = { ok: true, score: 1, extra: null, attempts: null } as const

function scored(): void {
  counters.ended(SCORED, { queueMs: 1, scoreMs: 1 })
}

async function stored(): Promise<{ loads: number; durations: number }> {
  const [row] = await db.adhoc<{ loads: number; durations: number }>(
    `select (select count(distinct worker_id) from worker_minute where capacity_seconds > 0)::int as loads,
       coalesce((select sum(n) from latency_slice, unnest(counts) n where seconds = 60), 0)::int as durations`,
  )
  return row!
}

async function whileLocked(table: string, work: () => Promise<void>): Promise<void> {
  await db.transaction(async (client) => {
    await client.query(`lock table ${table} in access exclusive mode`)
    await work()
    await client.query('commit')
  })
}

const waitingToWrite = () =>
  waitFor('a write of the load', async () => {
    const waiting = await db.adhoc(
      "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query ~ '^select add_worker_history'",
    )
    return waiting.length > 0
  })

it('sends three heartbeats of its jobs within the ten seconds that pg-boss allows', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  report.start()
  for (let second = 0; second < 9; second++) {
    await vi.waitFor(() => expect(reported).toHaveBeenCalledTimes(second + 1))
    // The tick ends only after `reported` was called.
    await new Promise((resolve) => setImmediate(resolve))
    await vi.advanceTimersByTimeAsync(1_000)
  }
  await report.ended()
  expect(touch.mock.calls.length).toBeGreaterThanOrEqual(3)
})

describe('the history of the fleet', () => {
  it('does not delay reports and heartbeats', async () => {
    scored()
    await whileLocked('worker_slice', async () => {
      report.start()
      await waitingToWrite()
      await waitFor('further reports', () => reported.mock.calls.length >= 4)
      expect(touch.mock.calls.length).toBeGreaterThanOrEqual(2)
    })
    await report.ended()
    expect(await stored()).toEqual({ loads: 1, durations: 2 })
  })

  it('has each duration once when the worker ends during a write', async () => {
    scored()
    let ending: Promise<void> | undefined
    await whileLocked('worker_slice', async () => {
      report.start()
      await waitingToWrite()
      scored()
      ending = report.ended()
      for (let i = 0; i < 10; i++) await db.adhoc('select 1')
    })
    await ending
    expect(await stored()).toEqual({ loads: 1, durations: 4 })
  })

  it('has the last load also if the durations cannot be written', async () => {
    scored()
    await db.adhoc('alter table latency_slice rename to elsewhere')
    await report.ended()
    await db.adhoc('alter table elsewhere rename to latency_slice')
    expect(await stored()).toEqual({ loads: 1, durations: 0 })
  })
})
