import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createLogger } from '../log.ts'
import { WORKER_POOL } from './connection-budget.ts'
import { Database } from './database.ts'
import { testDatabaseForFile } from './postgres/test-database.ts'
import { claimJob } from './sql/claims.ts'
import { reportProcess } from './sql/processes.ts'

const database = testDatabaseForFile()
let db: pg.Pool

beforeAll(() => {
  db = new pg.Pool({ connectionString: database.url, max: 8 })
})
afterAll(() => db.end())
beforeEach(() => db.query('truncate lease'))

async function renew(
  worker: number,
  demand: number,
  limit: number,
  inFlight = 0,
  ttlMs = 60_000,
): Promise<number> {
  const { rows } = await db.query<{ slots: number }>(
    "select renew_lease('server:1', $1, $2, $3, $4, $5) as slots",
    [worker, demand, inFlight, limit, ttlMs],
  )
  return rows[0]!.slots
}

async function held(): Promise<number> {
  const { rows } = await db.query<{ n: number }>(
    'select coalesce(sum(slots), 0)::int as n from lease where expires_at > now()',
  )
  return rows[0]!.n
}

it('take_rate charges the amount used beyond the grants, and puts back the unused rest', async () => {
  const take = async (charge: number, want: number) => {
    const { rows } = await db.query<{ granted: number }>(
      "select take_rate('r', $1, $2, 0, 10) as granted",
      [charge, want],
    )
    return rows[0]!.granted
  }
  expect(await take(0, 4)).toBe(4)
  expect(await take(8, 0)).toBe(0)
  expect(await take(0, 1)).toBe(0)
  expect(await take(-5, 9)).toBe(3)
})

describe('renew_lease', () => {
  it('gives a single worker its demand, up to the limit', async () => {
    expect(await renew(1, 10, 64)).toBe(10)
    expect(await renew(1, 500, 64)).toBe(64)
    expect(await renew(1, 3, 64)).toBe(3)
  })

  it('shares by demand: small demands are met, the rest is split evenly', async () => {
    await renew(1, 100, 64)
    // The first worker holds all slots. The second waits for their release, then both have their fair share.
    expect(await renew(2, 100, 64)).toBe(0)
    expect(await renew(1, 100, 64)).toBe(32)
    expect(await renew(2, 100, 64)).toBe(32)
    expect(await renew(2, 8, 64)).toBe(8)
    expect(await renew(1, 100, 64)).toBe(56)
  })

  it('leaves a holder the slots of its calls in flight', async () => {
    expect(await renew(1, 64, 64)).toBe(64)
    expect(await renew(2, 64, 64)).toBe(0)
    expect(await renew(1, 64, 64, 50)).toBe(50)
    expect(await renew(2, 64, 64)).toBe(14)
    expect(await held()).toBe(64)
  })

  it('gives slots to only some workers if the limit is below their number', async () => {
    const slots = []
    for (const worker of [1, 2, 3, 4]) slots.push(await renew(worker, 10, 1))
    expect(slots).toEqual([1, 0, 0, 0])
    // After the release, the slot goes to worker 2, the first in order of (demand, worker).
    expect(await renew(1, 0, 1)).toBe(0)
    expect(await renew(3, 10, 1)).toBe(0)
    expect(await renew(2, 10, 1)).toBe(1)
  })

  it('gives nothing to a process that was declared dead, until it has reported twice', async () => {
    const worker = new Database(database.url, createLogger('error', 'test'), {
      max: 2,
      name: 'test',
    })
    await db.query(
      `insert into process (id, host, pid, local, state, role, ended_at)
       values (900, 'host', 1, false, 'dead', 'worker', now() - interval '1 second')`,
    )
    const job = { jobId: randomUUID(), queue: 'rules', workerId: 900, batchId: 1 }
    const claim = () => claimJob(worker, { ...job, firstIndex: 0, lastIndex: 0, samples: 1 })
    const report = (mayRevive: boolean) => reportProcess(worker, 900, 'alive', {}, mayRevive)
    expect(await renew(900, 8, 64)).toBe(0)
    expect(await claim()).toBe(false)
    expect((await report(false)).deadForMs).toBeGreaterThanOrEqual(1_000)
    expect(await renew(900, 8, 64)).toBe(0)
    await report(true)
    expect((await report(false)).deadForMs).toBeNull()
    expect(await renew(900, 8, 64)).toBe(8)
    expect(await claim()).toBe(true)
    await worker.close()
  })

  it('waits for the disk only when it grants more slots', async () => {
    const worker = new Database(database.url, createLogger('error', 'test'), WORKER_POOL)
    const commitOf = (statement: string) =>
      worker.transaction(async (client) => {
        await client.query("select set_config('synchronous_commit', 'on', true)")
        await client.query(statement)
        const { rows } = await client.query('show synchronous_commit')
        return rows[0].synchronous_commit
      })
    const renewed = (demand: number) =>
      commitOf(`select renew_lease('server:1', 1, ${demand}, 0, 64, 60000)`)
    expect(await renewed(8)).toBe('on')
    expect(await renewed(8)).toBe('off')
    expect(await renewed(4)).toBe('off')
    expect(await renewed(5)).toBe('on')
    await worker.close()
  })

  it('frees a share that was not renewed', async () => {
    expect(await renew(1, 64, 64, 0, 1)).toBe(64)
    await expect.poll(() => renew(2, 64, 64)).toBe(64)
  })

  it('never exceeds the limit under concurrent requests', async () => {
    for (let round = 0; round < 40; round++) {
      const limit = 1 + (round % 7)
      await Promise.all(
        Array.from({ length: 6 }, (_, worker) =>
          renew(worker, (worker * 7 + round * 13) % 11, limit, worker % 3),
        ),
      )
      expect(await held()).toBeLessThanOrEqual(7)
    }
    await db.query('truncate lease')
    for (let round = 0; round < 20; round++) {
      await Promise.all(
        Array.from({ length: 6 }, (_, worker) => renew(worker, 1 + ((worker + round) % 9), 5, 0)),
      )
      expect(await held()).toBeLessThanOrEqual(5)
    }
  })
})
