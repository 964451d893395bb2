import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { insertServer } from '../cluster/testing/servers.ts'
import { createLogger } from '../log.ts'
import { Database } from './database.ts'
import { JobQueue } from './job-queue.ts'
import { MetricsReader } from './metrics-reader.ts'
import { testDatabaseForFile } from './postgres/test-database.ts'

const database = testDatabaseForFile()
const log = createLogger('silent', 'test')

let db: Database
let queue: JobQueue

beforeAll(async () => {
  db = new Database(database.url, log, { max: 4, name: 'test' })
  queue = new JobQueue(db, log, { supervise: true })
  await queue.start()
})
afterAll(async () => {
  await queue.stop()
  await db.close()
})
beforeEach(() => db.adhoc('truncate server, server_minute, batch'))

describe('finished data', () => {
  it('of a server’s calls is counted once; the current minute is updated', async () => {
    const id = await insertServer(db)
    const minute = (minutesAgo: number, tokens: number) =>
      db.adhoc(
        `insert into server_minute as m (server_id, minute, requests, errors, retries, latency_ms, tokens)
         values ($1, date_trunc('minute', now()) - $2 * interval '1 minute', 1, 1, 0, array[0, $3::int], $3)
         on conflict (server_id, minute) do update set tokens = m.tokens + excluded.tokens`,
        [id, minutesAgo, tokens],
      )
    await minute(90, 5_000)
    await minute(20, 100)
    await minute(3, 10)
    await minute(0, 1)
    const reader = new MetricsReader(db, new Date(Date.now() - 3_600_000))
    for (let round = 0; round < 3; round++) {
      const figures = await reader.read()
      const calls = figures.calls.get(id)!
      expect(calls.tokens).toBe(111 + round)
      expect(calls.latency).toEqual([0, 111])
      expect(calls.errors).toBe(3)
      await minute(0, 1)
    }
    // Settled minutes are not read again: deleting them changes no figure.
    await db.adhoc("delete from server_minute where minute < now() - interval '2 minutes'")
    expect((await reader.read()).calls.get(id)?.tokens).toBe(114)
    // By default, counters begin with the reader.
    expect((await new MetricsReader(db).read()).calls.get(id)?.tokens).toBe(4)
  })

  it('of batches is counted once; unfinished batches are read each time', async () => {
    const batch = (id: number, status: string, scored: number, endedAgo: string | null) =>
      db.adhoc(
        `insert into batch (id, run_id, step, split, status, closed, reward, reward_name, samples, scored, text_bucket,
           completed_at)
         values ($1, 1, 1, 'train', $2, true, '{}', 'rule', 10, $3, now(), now() - $4::interval)`,
        [id, status, scored, endedAgo],
      )
    await batch(1, 'completed', 10, '1 hour')
    await batch(2, 'running', 1, null)
    await batch(3, 'completed', 9, '1 hour')
    await batch(4, 'completed', 8, '1 second')
    const reader = new MetricsReader(db)
    expect((await reader.read()).batches).toMatchObject({ scored: 28, pending: 9 })
    await db.adhoc(
      "update batch set status = 'completed', scored = 10, completed_at = now() - interval '1 hour' where id = 2",
    )
    expect((await reader.read()).batches).toMatchObject({ scored: 37, pending: 0 })
    const { batches } = await reader.read()
    expect(batches.scored).toBe(37)
    expect(batches.batches).toEqual(new Map([['completed', 4]]))
  })
})

it('is read once for concurrent callers', async () => {
  const reader = new MetricsReader(db)
  const [a, b] = [reader.read(), reader.read()]
  expect(await a).toBe(await b)
  expect(await reader.read()).not.toBe(await a)
})
