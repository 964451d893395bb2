import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { createLogger } from '../../log.ts'
import { TEST_PLAN } from '../../rewards/functions/testing/test-plan.ts'
import { Database } from '../../store/database.ts'
import { JobQueue } from '../../store/job-queue.ts'
import { testDatabaseForFile } from '../../store/postgres/test-database.ts'
import { IngestClient } from './ingest-client.ts'

const database = testDatabaseForFile()
const log = createLogger('error', 'test')
let db: Database
let queue: JobQueue

beforeAll(async () => {
  db = new Database(database.url, log, { max: 2, name: 'test' })
  // Creates the queue's tables, which the thread requires.
  queue = new JobQueue(db, log, { supervise: true })
  await queue.start()
})
afterAll(async () => {
  await queue.stop()
  await db.close()
})

async function* body() {
  yield Buffer.from('{"samples": [nothing')
}

it('receives a body that arrives while the idle thread ends', async () => {
  const functions = {
    versionsDir: '/nowhere',
    functionsDir: '/nowhere',
    settings: { env: {}, memoryBytes: 0, plan: TEST_PLAN },
  }
  const client = new IngestClient(
    {
      databaseUrl: database.url,
      functions,
      egressAllow: ['public'],
      sandboxes: {},
      logLevel: 'silent',
    },
    () => ({ maxBytes: 1, isApart: true }),
    () => Promise.reject(),
    log,
  )
  const refused = { reason: 'malformed_json' }
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  try {
    await expect(
      client.take('submit', body(), { name: 'local', scope: null }),
    ).rejects.toMatchObject(refused)
    // The thread is released after 20 s without a body.
    vi.advanceTimersByTime(20_000)
    await expect(
      client.take('submit', body(), { name: 'local', scope: null }),
    ).rejects.toMatchObject(refused)
  } finally {
    vi.useRealTimers()
    await client.close()
  }
})
