import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { insertServer } from '../cluster/testing/servers.ts'
import { createLogger } from '../log.ts'
import { type Client, Database, isOutage, isRetryableConflict } from './database.ts'
import { testDatabaseForFile } from './postgres/test-database.ts'
import { ServerRegistry } from './server-registry.ts'

const database = testDatabaseForFile()
let db: Database

beforeAll(() => {
  db = new Database(database.url, createLogger('error', 'test'), { max: 2, name: 'test' })
})
afterAll(() => db.close())

it('the times of a server are those of the database’s clock', async () => {
  const id = await insertServer(db, { name: 'rm', model: 'm', url: 'http://rm:8000' })
  const registry = new ServerRegistry(db)
  const facts = { version: null, maxModelLen: null, maxConcurrent: null, canSleep: false }
  const { maxInFlight } = (await registry.byNumber(id))!
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() - 3_600_000 })
  try {
    await registry.probed(id, facts)
    await registry.remove(id, 'test')
    await registry.save('rm', {
      fields: {
        url: 'http://rm:8000',
        engine: 'vllm',
        kind: 'discriminative',
        model: 'm',
        maxInFlight,
      } as never,
      ...{ facts, launch: null, state: 'dead', cause: 'test', pool: null },
    })
  } finally {
    vi.useRealTimers()
  }
  const [row] = await db.adhoc<{ since: number; probed: number }>(
    `select extract(epoch from clock_timestamp() - state_since)::float8 as since,
       extract(epoch from clock_timestamp() - last_probe_at)::float8 as probed from server where id = $1`,
    [id],
  )
  expect(row?.since).toBeLessThan(1_800)
  expect(row?.probed).toBeLessThan(1_800)
})

describe('a write that the database refuses', () => {
  let id: number
  let own: Database
  let registry: ServerRegistry
  const write = () => registry.update(id, { weight: 2 })
  const reasonOf = (work: Promise<unknown>) =>
    work.then(
      () => 'none',
      (error: Error) => error,
    )

  beforeAll(async () => {
    id = await insertServer(db, { name: 'refused', model: 'm', url: 'http://refused:8000' })
  })
  beforeEach(() => {
    own = new Database(database.url, createLogger('silent', 'test'), { max: 1, name: 'own' })
    registry = new ServerRegistry(own)
  })
  afterEach(() => own.close())

  it('because it is read-only is an outage', async () => {
    await own.adhoc('set default_transaction_read_only = on')
    const error = await reasonOf(write())
    expect(error).toMatchObject({ code: '25006' })
    expect(isOutage(error)).toBe(true)
  })

  /** Runs `then` while the write waits for a lock that `sql` took. Returns the error of the write. */
  async function refusedAfter(
    sql: string,
    then: (client: Client, pid: number) => Promise<unknown>,
  ) {
    const [backend] = await own.adhoc<{ pid: number }>('select pg_backend_pid() as pid')
    const { pid } = backend!
    const { refused } = await db.transaction(async (client) => {
      await client.query(sql, [id])
      const refused = reasonOf(write())
      await vi.waitFor(async () => {
        const { rowCount } = await client.query(
          "select from pg_stat_activity where pid = $1 and wait_event_type = 'Lock'",
          [pid],
        )
        expect(rowCount).toBe(1)
      }, 30_000)
      await then(client, pid)
      return { refused }
    })
    return refused
  }

  it('because its connection ended is an outage', async () => {
    const error = await refusedAfter('select from server where id = $1 for update', (client, pid) =>
      client.query('select pg_terminate_backend($1)', [pid]),
    )
    expect(error).toMatchObject({ code: '57P01' })
    expect(isOutage(error)).toBe(true)
  })

  it('because of a conflict may be repeated', async () => {
    await own.adhoc("set default_transaction_isolation = 'repeatable read'")
    const error = await refusedAfter(
      'update server set weight = 3 where id = $1',
      async () => undefined,
    )
    expect(isRetryableConflict(error)).toBe(true)
  })
})
