import { expect, it, vi } from 'vitest'
import { createLogger } from '../../log.ts'
import { TEST_PLAN } from '../../rewards/functions/testing/test-plan.ts'
import { testQueueForFile } from '../../store/testing/test-queue.ts'
import { IngestClient } from './ingest-client.ts'

// The thread requires the tables of the queue.
const database = testQueueForFile()
const log = createLogger('error', 'test')

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
