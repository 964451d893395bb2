import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { createLogger } from '../log.ts'
import { Database } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { LeaseHolder } from './lease-holder.ts'
import { ModelRegistry } from './model-registry.ts'
import { RatePermits } from './rate-permits.ts'
import { RecordingRouter } from './testing/recording-router.ts'
import { insertServer } from './testing/servers.ts'

const database = testDatabaseForFile()
const log = createLogger('silent', 'test')

let db: Database
let close: (() => Promise<void>)[] = []

beforeAll(() => {
  db = new Database(database.url, log, { max: 6, name: 'test', keyed: true })
})
afterAll(() => db.close())
beforeEach(() => db.adhoc('truncate server, pool, lease, rate_bucket, process'))
afterEach(async () => {
  for (const end of close) await end()
  close = []
})

async function member(holderId = 1) {
  const router = new RecordingRouter()
  const leases = new LeaseHolder(db, holderId, log)
  const permits = new RatePermits(db, router, log)
  const models = new ModelRegistry({ db, router, leases, permits, log })
  close.push(
    () => models.close(),
    () => permits.close(),
    () => leases.close(),
  )
  await models.reload()
  return { router, leases, models }
}

const worker = (state = 'alive') =>
  db.adhoc(
    "insert into process (role, host, pid, local, state) values ('worker', 'h', 1, true, $1)",
    [state],
  )

describe('the router receives', () => {
  it('all settings of a server', async () => {
    const id = await insertServer(db, {
      name: 'judge',
      url: 'https://judge.example/v1',
      engine: 'openai',
      kind: 'generative',
      model: 'judge-1',
      version: '3',
      weight: 2.5,
      max_in_flight: 40,
      max_concurrent: 16,
      api_key: 'secret',
      rpm: 600,
      route: 'pair',
      state: 'draining',
    })
    const { router } = await member()
    expect(router.servers).toEqual([
      {
        id,
        name: 'judge',
        url: 'https://judge.example/v1',
        engine: 'openai',
        kind: 'generative',
        model: 'judge-1',
        version: '3',
        route: 'pair',
        label: null,
        plainText: false,
        maxConcurrent: 16,
        weight: 2.5,
        maxInFlight: 40,
        limited: { requests: true, tokens: false },
        apiKey: 'secret',
        chatTemplate: null,
        state: 'draining',
      },
    ])
  })

  it('changes of the registry: limits, removals', async () => {
    const id = await insertServer(db, { tpm: 1_000 })
    const { router, models } = await member()
    expect(router.servers[0]?.limited).toEqual({ requests: false, tokens: true })
    expect(router.servers[0]?.maxInFlight).toBeNull()
    await db.adhoc('update server set tpm = null, max_in_flight = 3 where id = $1', [id])
    await models.reload()
    expect(router.servers[0]).toMatchObject({
      limited: { requests: false, tokens: false },
      maxInFlight: 3,
    })
    await db.adhoc('update server set removed_at = now() where id = $1', [id])
    await models.reload()
    expect(router.servers).toEqual([])
  })

  it('a server registered during a reload, for a caller that waits for the registry', async () => {
    const { router, models } = await member()
    const reading = models.reload()
    await insertServer(db, {})
    await models.refresh()
    expect(router.servers).toHaveLength(1)
    await reading
  })

  it('the last servers when a reload fails, and an error for a caller that waits for the registry', async () => {
    await insertServer(db, {})
    const { router, models } = await member()
    await db.adhoc('alter table pool rename to pool_away')
    try {
      await models.reload()
      await expect(models.refresh()).rejects.toThrow('pool')
    } finally {
      await db.adhoc('alter table pool_away rename to pool')
    }
    expect(router.servers).toHaveLength(1)
  })

  it('the policy of each pool when it changes', async () => {
    await insertServer(db, { model: 'a' })
    await insertServer(db, { model: 'b' })
    await db.adhoc("update pool set policy = 'deterministic' where model = 'b'")
    const { router, models } = await member()
    expect(router.policies).toEqual([['b', 'deterministic']])
    await models.reload()
    expect(router.policies).toHaveLength(1)
    await db.adhoc("update pool set policy = null where model = 'b'")
    await models.reload()
    expect(router.policies.slice(1)).toEqual([['b', null]])
  })

  it('the number of live workers', async () => {
    await worker()
    await worker()
    await worker('dead')
    const { router, models } = await member()
    expect(router.processes).toBe(2)
    await db.adhoc("update process set state = 'dead'")
    await models.reload()
    expect(router.processes).toBe(1)
  })
})

describe('the turn to fetch jobs first', () => {
  it('belongs to exactly one live worker, even if the ids of the workers have gaps', async () => {
    for (const [id, state] of [
      [3, 'alive'],
      [5, 'alive'],
      [7, 'dead'],
      [8, 'alive'],
    ] as const) {
      await db.adhoc(
        "insert into process (id, role, host, pid, local, state) values ($1, 'worker', 'h', 1, true, $2)",
        [id, state],
      )
    }
    const { models } = await member()
    const first = [0, 1, 2, 3, 4, 5].map((turn) =>
      [3, 5, 7, 8].filter((id) => models.isTurnOf(id, turn)),
    )
    expect(first).toEqual([[3], [5], [8], [3], [5], [8]])
  })

  it('belongs to a worker that knows of no other', async () => {
    const { models } = await member()
    expect(models.isTurnOf(4, 1)).toBe(true)
  })
})

describe('leases', () => {
  async function mostSlots(fields: Parameters<typeof insertServer>[1]): Promise<number> {
    const id = await insertServer(db, fields)
    const { router } = await member()
    router.wait(id, 10_000)
    await waitFor('slots', () => (router.slots.get(id)?.slots ?? 0) > 0)
    const { slots, untilMs } = router.slots.get(id)!
    expect(untilMs).toBeGreaterThan(performance.now())
    return slots
  }

  it.each([
    ['as configured', { max_in_flight: 200, max_concurrent: 16 }, 200],
    ['96 if neither limit is known', {}, 96],
    ['as reported by the server', { max_concurrent: 16 }, 16],
    ['96 if the server reports more', { max_concurrent: 512 }, 96],
  ])('are limited: %s', async (_, fields, most) => {
    expect(await mostSlots(fields)).toBe(most)
  })

  it('let the worker fetch jobs when its slots increase', async () => {
    const id = await insertServer(db, {})
    const { router, models } = await member()
    const fetched = new Set<string | null>()
    models.onPool = (_, model) => {
      // Reloads call it too, at any time.
      if ((router.slots.get(id)?.slots ?? 0) > 0) fetched.add(model)
    }
    router.wait(id, 5)
    await waitFor('slots', () => (router.slots.get(id)?.slots ?? 0) > 0)
    expect([...fetched]).toEqual(['rm'])
  })

  it('of a removed server are released', async () => {
    const id = await insertServer(db, {})
    const { router, models, leases } = await member()
    router.wait(id, 5)
    await waitFor('slots', () => leases.slots(`server:${id}`) === 5)
    await db.adhoc('update server set removed_at = now() where id = $1', [id])
    await models.reload()
    expect(router.slots.get(id)?.slots).toBe(0)
  })
})

describe('the intake limit of a model', () => {
  it('is the router’s own limit, not the leasable one', async () => {
    await worker()
    await worker()
    const [a, b] = [await insertServer(db, {}), await insertServer(db, { max_in_flight: 40 })]
    const { router, models, leases } = await member()
    router.set(a, { limit: 8 })
    router.set(b, { limit: 40 })
    await waitFor('the limits', () => models.fairShareOf('rm') === 8 + 20)
    router.wait(a, 500)
    router.wait(b, 500)
    await waitFor('slots', () => leases.slots(`server:${a}`) + leases.slots(`server:${b}`) === 136)
    expect(models.slotsOf('rm')).toBe(8 + 40)
    expect(models.slotsOf('another')).toBe(0)
  })
})
