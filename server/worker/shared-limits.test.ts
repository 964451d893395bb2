import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { waitFor } from '../../testkit/service/wait-for.ts'
import type { LeaseHolder } from '../cluster/lease-holder.ts'
import { ShortGraceHolder } from '../cluster/testing/short-grace-holder.ts'
import { createLogger, type Logger } from '../log.ts'
import { readLimits } from '../rewards/limits/limit-settings.ts'
import { runLimited } from '../rewards/limits/limited-run.ts'
import { Database } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { SharedLimits } from './shared-limits.ts'

const database = testDatabaseForFile()
const silent = createLogger('silent', 'test')

let db: Database
const workers: Worker[] = []

beforeAll(() => {
  db = new Database(database.url, silent, { max: 2, name: 'test' })
})
afterAll(() => db.close())
beforeEach(() => db.adhoc('truncate rate_bucket, lease, call_limiter'))
afterEach(async () => {
  vi.useRealTimers()
  for (const worker of workers.splice(0)) await worker.close()
})

class Worker {
  readonly db: Database
  readonly leases: LeaseHolder
  readonly limits: SharedLimits
  readonly warnings: { ignored: string[] }[] = []
  readonly sent: number[] = []
  inFlight = 0

  constructor() {
    const log = {
      ...silent,
      debug: () => {},
      warn: (what: { ignored: string[] }) => this.warnings.push(what),
    } as unknown as Logger
    this.db = new Database(database.url, silent, { max: 2, name: 'test' })
    this.leases = new ShortGraceHolder(this.db, workers.length + 1, silent)
    this.limits = new SharedLimits(this.db, this.leases, log)
    workers.push(this)
  }

  async run(count: number, kwargs: Record<string, unknown>, forMs = 0, used?: number) {
    const limits = readLimits(kwargs)
    return Promise.all(
      Array.from({ length: count }, async () => {
        const gate = await this.limits.gate({ name: 'judge', limits })
        const call = async () => {
          this.sent.push(performance.now())
          this.inFlight++
          most = Math.max(most, inFlight())
          await new Promise((resolve) => setTimeout(resolve, forMs))
          this.inFlight--
        }
        return runLimited(gate, this.limits.clock, call, { usedTokens: () => used })
      }),
    )
  }

  async kill(): Promise<void> {
    this.limits.close()
    await this.db.close()
  }

  async close(): Promise<void> {
    this.limits.close()
    await this.leases.close()
    await this.db.close().catch(() => {})
  }
}

let most = 0
const inFlight = () => workers.reduce((sum, worker) => sum + worker.inFlight, 0)
const allSent = () => workers.flatMap((worker) => worker.sent).sort((a, b) => a - b)

function mostWithin(sorted: readonly number[], forMs: number): number {
  let from = 0
  return sorted.reduce((so, atMs, i) => {
    while ((sorted[from] as number) <= atMs - forMs) from++
    return Math.max(so, i - from + 1)
  }, 0)
}

describe('one limit over all workers', () => {
  it('of requests per minute: no window exceeds rate plus burst', async () => {
    // 50 per second with a burst of 50.
    const kwargs = { max_rpm: 3_000, max_concurrent: 500 }
    const all = Array.from({ length: 4 }, () => new Worker())
    const ran = await Promise.all(all.map((worker) => worker.run(50, kwargs)))
    expect(ran.flat().every((outcome) => outcome.ok)).toBe(true)
    const sent = allSent()
    expect(sent).toHaveLength(200)
    for (const forMs of [200, 1_000, 2_000]) {
      // A late timer shortens the gap between two calls by a few ms, once for each worker.
      expect(mostWithin(sent, forMs), `${forMs} ms`).toBeLessThanOrEqual(54 + (50 * forMs) / 1_000)
    }
    // After the burst of 50, 150 calls take 3 s.
    expect(sent.at(-1)! - sent[0]!).toBeGreaterThan(2_500)
  })

  it('of concurrent calls, even with fewer slots than workers; a dead worker’s share is reassigned', async () => {
    const kwargs = { max_concurrent: 2 }
    const all = Array.from({ length: 4 }, () => new Worker())
    most = 0
    const running = all.map((worker) => worker.run(30, kwargs, 5))
    await waitFor('some calls', () => allSent().length > 40)
    const holding = await waitFor('a worker with a slot', async () => {
      const [row] = await db.adhoc<{ worker_id: number }>(
        'select worker_id from lease where slots > 0 order by slots desc limit 1',
      )
      return row
    })
    const dead = all[holding.worker_id - 1] as Worker
    dead.leases.forget('limit:judge')
    await dead.kill()
    const left = all.filter((worker) => worker !== dead)
    await waitFor('all other calls', () => left.every((worker) => worker.sent.length === 30))
    expect(most).toBeLessThanOrEqual(2)
    await Promise.all(running.filter((_, at) => all[at] !== dead))
  })

  it('of concurrent calls, when a worker cannot renew its share for longer than the grace period', async () => {
    const limits = readLimits({ max_concurrent: 1 })
    const [a, b] = [new Worker(), new Worker()]
    let inFlight = 0
    let most = 0
    const call = async (signal: AbortSignal, forMs: number) => {
      most = Math.max(most, ++inFlight)
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, forMs)
        signal.addEventListener('abort', () => {
          clearTimeout(timer)
          resolve(null)
        })
      })
      inFlight--
      return forMs
    }
    const run = async (worker: Worker, forMs: number[]) =>
      runLimited(
        await worker.limits.gate({ name: 'judge', limits }),
        worker.limits.clock,
        (signal) => call(signal, forMs.shift() as number),
      )
    const ofA = run(a, [60_000, 10])
    await waitFor('the first call', () => inFlight === 1)
    const lost = vi.spyOn(a.db, 'rows').mockRejectedValue(new Error('Connection terminated'))
    expect(await run(b, [20])).toMatchObject({ ok: true, value: 20 })
    expect(most).toBe(1)
    lost.mockRestore()
    expect(await ofA).toMatchObject({ ok: true, value: 10 })
    expect(most).toBe(1)
  }, 30_000)

  it('of tokens per minute, corrected by the actual use', async () => {
    // The limit is 10,000 tokens per second. Each of the 120 calls is estimated at 1,000 tokens and uses 10.
    const kwargs = { max_tpm: 600_000, estimated_tokens_per_request: 1_000, max_concurrent: 4 }
    const [a, b] = [new Worker(), new Worker()]
    await Promise.all([a.run(60, kwargs, 1, 10), b.run(60, kwargs, 1, 10)])
    expect(allSent()).toHaveLength(120)
    // With the estimates alone, the bucket would be empty.
    await waitFor('the unused tokens to be returned', async () => {
      const [row] = await db.adhoc<{ level: number }>('select level from rate_bucket')
      return (row?.level ?? 0) > 5_000
    })
  })
})

describe('the limits in force', () => {
  it('are those of the first caller in any process; others are logged once', async () => {
    const [a, b] = [new Worker(), new Worker()]
    await a.run(1, { max_rpm: 6_000, max_concurrent: 3 })
    await b.run(3, { max_rpm: 60, max_concurrent: 9, timeout: 5 })
    const gate = await b.limits.gate({ name: 'judge', limits: readLimits({ max_rpm: 60 }) })
    expect(gate.limits).toMatchObject({ maxRpm: 6_000, maxConcurrent: 3 })
    expect(a.warnings).toEqual([])
    expect(b.warnings.map(({ ignored }) => ignored)).toEqual([
      ['maxConcurrent stays 3, 9 is ignored', 'maxRpm stays 6000, 60 is ignored'],
      ['maxConcurrent stays 3, 1 is ignored', 'maxRpm stays 6000, 60 is ignored'],
    ])
  })

  it('are replaced after 30 s without use', async () => {
    await new Worker().run(1, { max_rpm: 6_000 })
    await db.adhoc("update call_limiter set used_at = used_at - interval '31 seconds'")
    const gate = await new Worker().limits.gate({
      name: 'judge',
      limits: readLimits({ max_rpm: 600 }),
    })
    expect(gate.limits.maxRpm).toBe(600)
  })

  it('stay in force while a call is in flight, even if no other call begins for 10 s', async () => {
    const worker = new Worker()
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    const limits = new SharedLimits(worker.db, worker.leases, silent)
    const gateOf = () => limits.gate({ name: 'judge', limits: readLimits({ max_concurrent: 1 }) })
    const gate = await gateOf()
    const now = vi.spyOn(performance, 'now')
    now.mockReturnValueOnce(performance.now() - 11_000)
    await gateOf()
    now.mockRestore()
    const permit = await gate.acquire()
    await vi.advanceTimersByTimeAsync(5_000)
    expect(worker.leases.slots('limit:judge')).toBe(1)
    permit.release()
    await vi.advanceTimersByTimeAsync(5_000)
    expect(await gateOf()).not.toBe(gate)
  })

  it('are separate for each name', async () => {
    const worker = new Worker()
    const gateOf = (name: string, kwargs: object) =>
      worker.limits.gate({ name, limits: readLimits({ ...kwargs }) })
    const one = await gateOf('a', { max_rpm: 60 })
    expect(await gateOf('a', { max_rpm: 60 })).toBe(one)
    expect((await gateOf('b', { max_rpm: 120 })).limits.maxRpm).toBe(120)
    expect(worker.warnings).toEqual([])
  })
})
