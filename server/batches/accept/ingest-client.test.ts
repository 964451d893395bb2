import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { expect, it, vi } from 'vitest'
import { freePort } from '../../../testkit/processes/port.ts'
import { rollouts } from '../../../testkit/service/rollouts.ts'
import { createLogger } from '../../log.ts'
import { TEST_PLAN } from '../../rewards/functions/testing/test-plan.ts'
import { isOutage } from '../../store/database.ts'
import { testQueueForFile } from '../../store/testing/test-queue.ts'
import { IngestClient } from './ingest-client.ts'

// The thread requires the tables of the queue.
const database = testQueueForFile()
const log = createLogger('error', 'test')

async function* body(text = '{"samples": [nothing') {
  yield Buffer.from(text)
}

function clientOf(databaseUrl: string): IngestClient {
  const functions = {
    versionsDir: '/nowhere',
    functionsDir: '/nowhere',
    settings: { env: {}, memoryBytes: 0, plan: TEST_PLAN },
  }
  return new IngestClient(
    {
      databaseUrl,
      functions,
      egressAllow: ['public'],
      sandboxes: {},
      logLevel: 'silent',
    },
    () => ({ maxBytes: 1, isApart: true }),
    () => Promise.reject(),
    log,
  )
}

it('receives a body that arrives while the idle thread ends', async () => {
  const client = clientOf(database.url)
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

it('receives bodies after an outage in which its thread was started', async () => {
  const { pathname, searchParams } = new URL(database.url)
  const port = await freePort()
  const url = `postgresql://rewardops@127.0.0.1:${port}${pathname}?sslmode=disable`
  const socket = join(searchParams.get('host') as string, '.s.PGSQL.5432')
  const relay = createServer((from) => {
    const to = connect(socket)
    from.on('error', () => to.destroy()).on('close', () => to.destroy())
    to.on('error', () => from.destroy()).on('close', () => from.destroy())
    from.pipe(to).pipe(from)
  })
  const client = clientOf(url)
  const submit = () => {
    const text = JSON.stringify({ run: 'r', step: 1, samples: rollouts(8) })
    return client.take('submit', body(text), { name: 'local', scope: null })
  }
  try {
    expect(isOutage(await submit().catch((error: Error) => error))).toBe(true)
    relay.listen(port, '127.0.0.1')
    await once(relay, 'listening')
    expect(await submit()).toMatchObject({ accepted: 8, groups: 1 })
  } finally {
    await client.close()
    relay.close()
  }
})
