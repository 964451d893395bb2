import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import { createLogger } from '../log.ts'
import { createTrpcPlane, type TrpcPlaneOptions } from './trpc-plane.ts'

it('answers an internal error after a whole body with the status 500', async () => {
  const plane = createTrpcPlane({
    modules: { manager: { score: () => Promise.reject(new RangeError('stack')) } },
    access: { admit: () => ({ ended: new AbortController().signal }) },
    log: createLogger('silent', 'test'),
  } as unknown as TrpcPlaneOptions)
  const server = createServer((req, res) => void plane(req, res, randomUUID())).listen(0)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const sample = { uid: 'q', dataSource: 'math', prompt: '', response: '' }
  const answer = await fetch(`http://localhost:${port}/api/trpc/samples.score`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ run: 'r', step: 1, sample }),
  })
  expect(answer.status).toBe(500)
  expect(await answer.json()).toMatchObject({ error: { data: { reason: 'internal' } } })
  server.close()
})
