import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { insertServer } from '../cluster/testing/servers.ts'
import { createLogger } from '../log.ts'
import { Database } from './database.ts'
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
