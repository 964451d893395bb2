import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { createLogger } from '../log.ts'
import { Permits } from '../router/permits.ts'
import type { RatePermits as Granted, RouterServerStats } from '../router/router-types.ts'
import { Database } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { type PermitRouter, type RateLimits, RatePermits } from './rate-permits.ts'

const database = testDatabaseForFile()
const log = createLogger('silent', 'test')
const SERVER = 7
/** The burst as a fraction of a minute's limit. */
const BURST = 1 / 30

let db: Database
const processes: Process[] = []

beforeAll(() => {
  db = new Database(database.url, log, { max: 2, name: 'test' })
})
afterAll(() => db.close())
beforeEach(() => db.adhoc('truncate rate_bucket'))
afterEach(async () => {
  for (const process of processes.splice(0)) await process.close()
})

/** A process that needs permits and sends each sample as soon as it has one. */
class Process implements PermitRouter {
  readonly db: Database
  readonly permits: RatePermits
  readonly #held = new Permits()
  readonly #tokensOfOne: number
  waiting = 0
  readonly sent: { atMs: number; tokens: number }[] = []
  readonly grants: Granted[] = []
  idle = false

  constructor(limits: RateLimits, options: { tokens?: number; max?: number } = {}) {
    this.#tokensOfOne = options.tokens ?? 100
    this.#held.limit(limits.rpm !== null, limits.tpm !== null)
    this.db = new Database(database.url, log, { max: options.max ?? 2, name: 'test' })
    this.permits = new RatePermits(this.db, this, log)
    this.permits.track(SERVER, limits)
    processes.push(this)
  }

  add(samples: number): this {
    this.waiting += samples
    this.permits.want(SERVER)
    return this
  }

  setPermits(_: number, granted: Granted): void {
    this.grants.push(granted)
    this.#held.add(granted, performance.now())
    const nowMs = performance.now()
    while (!this.idle && this.waiting > 0 && this.#held.allow(nowMs)) {
      this.waiting--
      this.#held.use(this.#tokensOfOne)
      this.sent.push({ atMs: nowMs, tokens: this.#tokensOfOne })
    }
  }

  permitDemand() {
    const tokensOverspent = this.#held.takeOverspent()
    return { requests: this.waiting, tokens: this.waiting * this.#tokensOfOne, tokensOverspent }
  }

  reclaimPermits() {
    return this.#held.takeUnused(performance.now())
  }

  /** Every sample sent counts as scored. */
  snapshot(): RouterServerStats[] {
    const latency = [this.sent.length]
    const tokens = this.sent.reduce((sum, { tokens }) => sum + tokens, 0)
    return [{ serverId: SERVER, latency, tokens } as RouterServerStats]
  }

  /** Records that answers had this many more tokens than estimated. */
  counted(tokensMore: number): void {
    this.#held.correct(0, tokensMore)
  }

  /** Ends the process like `kill -9`: it returns no permits and never reports again. */
  async kill(): Promise<void> {
    this.waiting = 0
    await this.db.close()
  }

  async close(): Promise<void> {
    await this.permits.close()
    await this.db.close().catch(() => {})
  }
}

function mostWithin(
  sent: readonly { atMs: number; tokens: number }[],
  forMs: number,
  of: 'requests' | 'tokens',
) {
  const all = [...sent].sort((a, b) => a.atMs - b.atMs)
  let most = 0
  let sum = 0
  let from = 0
  for (const each of all) {
    sum += of === 'tokens' ? each.tokens : 1
    while ((all[from] as { atMs: number }).atMs <= each.atMs - forMs) {
      sum -= of === 'tokens' ? (all[from] as { tokens: number }).tokens : 1
      from++
    }
    most = Math.max(most, sum)
  }
  return most
}

async function level(of: 'rpm' | 'tpm'): Promise<number> {
  const [row] = await db.adhoc<{ level: number }>(
    'select level from rate_bucket where resource = $1',
    [`server:${SERVER}:${of}`],
  )
  return row?.level ?? Number.NaN
}

describe('a limit of requests', () => {
  it('holds for two processes in every window, and is used in full', async () => {
    const rpm = 60_000
    const [a, b] = [new Process({ rpm, tpm: null }), new Process({ rpm, tpm: null })]
    const begun = performance.now()
    a.add(2_000)
    b.add(2_000)
    await waitFor('all sent', () => a.waiting + b.waiting === 0)
    const seconds = (performance.now() - begun) / 1_000
    const sent = [...a.sent, ...b.sent]
    expect(sent).toHaveLength(4_000)
    for (const windowMs of [100, 500, 1_000, 2_000]) {
      const allowed = (rpm * windowMs) / 60_000 + rpm * BURST
      expect(mostWithin(sent, windowMs, 'requests'), `${windowMs} ms`).toBeLessThanOrEqual(allowed)
    }
    // Both processes got their part while both had demand, and the rate was used in full.
    expect(Math.min(a.sent.length, b.sent.length)).toBe(2_000)
    expect(4_000).toBeGreaterThan(0.7 * (rpm / 60) * seconds)
    const most = Math.max(...[...a.grants, ...b.grants].map((granted) => granted.requests))
    expect(most).toBeLessThanOrEqual((rpm / 60) * 0.25)
  })

  it('belongs to the other process when one is killed', async () => {
    const rpm = 12_000
    const [a, b] = [new Process({ rpm, tpm: null }), new Process({ rpm, tpm: null })]
    a.add(100_000)
    b.add(100_000)
    await waitFor('samples sent by both', () => Math.min(a.sent.length, b.sent.length) > 50)
    await a.kill()
    const begun = performance.now()
    const before = b.sent.length
    await waitFor('the other’s samples', () => b.sent.length > before + 400)
    const seconds = (performance.now() - begun) / 1_000
    expect(b.sent.length - before).toBeGreaterThan(0.8 * (rpm / 60) * seconds)
  })

  it('grants only whole requests, and no more than the bucket holds', async () => {
    const [a, b] = [new Process({ rpm: 240, tpm: null }), new Process({ rpm: 240, tpm: null })]
    a.add(20)
    b.add(20)
    await waitFor('a few sent', () => a.sent.length + b.sent.length >= 14)
    for (const { requests } of [...a.grants, ...b.grants]) expect(requests).toBe(1)
    const sent = [...a.sent, ...b.sent]
    expect(mostWithin(sent, 1_000, 'requests')).toBeLessThanOrEqual(4 + 240 * BURST)
  })

  it('takes back unused permits before they expire, so that the next process need not wait a minute', async () => {
    const limits = { rpm: 1, tpm: null }
    const a = new Process(limits)
    a.idle = true
    a.add(1)
    await waitFor('a grant', () => a.grants.length === 1)
    a.waiting = 0
    await waitFor('the permit to be returned', async () => (await level('rpm')) > 0.99)
    const b = new Process(limits).add(1)
    await waitFor('the other’s sample', () => b.sent.length === 1)
  })

  it('returns everything when the process ends', async () => {
    const a = new Process({ rpm: 6_000, tpm: null })
    a.idle = true
    a.add(1_000)
    await waitFor('a grant', () => a.grants.length > 0)
    await a.permits.close()
    expect(await level('rpm')).toBeGreaterThanOrEqual(6_000 / 40 - 1)
  })

  it('applies a new limit at once', async () => {
    const a = new Process({ rpm: 1, tpm: null }).add(50)
    await waitFor('the only permitted sample', () => a.sent.length === 1)
    a.permits.track(SERVER, { rpm: 60_000, tpm: null })
    await waitFor('all other samples', () => a.sent.length === 50)
  })
})

describe('a limit of tokens', () => {
  it('holds for two processes in every window', async () => {
    const tpm = 600_000
    const tokens = 333
    const options = { tokens }
    const [a, b] = [
      new Process({ rpm: null, tpm }, options),
      new Process({ rpm: null, tpm }, options),
    ]
    a.add(60)
    b.add(60)
    await waitFor('all sent', () => a.waiting + b.waiting === 0)
    for (const windowMs of [250, 1_000, 2_000]) {
      // One remaining token suffices to send a sample, so each process may exceed the limit by one sample.
      const allowed = (tpm * windowMs) / 60_000 + tpm * BURST + 2 * tokens
      const most = mostWithin([...a.sent, ...b.sent], windowMs, 'tokens')
      expect(most, `${windowMs} ms`).toBeLessThanOrEqual(allowed)
    }
  })

  it('sends a sample larger than the burst, and then waits until its debt is paid', async () => {
    const tpm = 60_000
    const a = new Process({ rpm: null, tpm }, { tokens: 4_000 }).add(2)
    await waitFor('the first', () => a.sent.length === 1)
    await waitFor('its debt', async () => (await level('tpm')) < -2_000)
    await waitFor('the second', () => a.sent.length === 2)
    const [first, second] = a.sent
    expect(second!.atMs - first!.atMs).toBeGreaterThan(3_400)
  })

  it('charges tokens beyond the estimate, even if no sample waits', async () => {
    const a = new Process({ rpm: null, tpm: 60_000 }).add(1)
    await waitFor('it to be sent', () => a.sent.length === 1)
    a.counted(20_000)
    await waitFor('the debt', async () => (await level('tpm')) < -15_000)
    a.counted(-20_000)
    await waitFor('the debt paid', async () => (await level('tpm')) > 0)
  })

  it('grants requests and tokens together or not at all', async () => {
    const limits = { rpm: 6_000, tpm: 600 }
    const a = new Process(limits, { tokens: 15 }).add(30)
    await waitFor('the permitted samples', () => a.sent.length >= 2)
    await waitFor('unused requests to be returned', async () => (await level('rpm')) > 100)
    expect(a.sent.length).toBeLessThan(30)
    for (const { requests, tokens } of a.grants) {
      expect(requests).toBeGreaterThan(0)
      expect(tokens).toBeGreaterThan(0)
    }
  })
})

it('grants no permits while the database is down, and grants them again afterwards', async () => {
  const a = new Process({ rpm: 60_000, tpm: null }).add(10)
  await waitFor('all sent', () => a.waiting === 0)
  await db.adhoc('alter table rate_bucket rename to elsewhere')
  const failures = vi.spyOn(log, 'debug')
  a.grants.length = 0
  a.add(10)
  await waitFor('two failed requests', () => {
    a.permits.want(SERVER)
    return failures.mock.calls.length >= 2
  })
  failures.mockRestore()
  expect(a.grants).toEqual([])
  await db.adhoc('alter table elsewhere rename to rate_bucket')
  await waitFor('all sent', () => a.waiting === 0)
})
