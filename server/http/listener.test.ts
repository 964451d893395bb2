import { once } from 'node:events'
import { type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { createLogger } from '../log.ts'
import type { Access } from './access.ts'
import { createListener, type Routes } from './listener.ts'

const log = createLogger('silent', 'test')

async function listening(
  access: object,
  routes: object,
  work: (url: string) => Promise<void>,
): Promise<void> {
  const common = {
    basePath: '',
    proxies: { isHttps: () => false },
    checkOrigin() {},
    findSession() {},
  }
  const server = createListener(
    { ...common, ...access } as unknown as Access,
    routes as unknown as Routes,
    log,
    null,
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    await work(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

test('every path whose module has not started is answered with 503 and Retry-After', async () => {
  const routes = { trpc: null, proxy: null, pages: null, stopping: false }
  await listening({ checkPeer() {} }, routes, async (url) => {
    for (const path of [
      ...['/metrics', '/api/export/samples.csv', '/api/images/1', '/api/openapi.json'],
      ...['/api/trpc/runs.list', '/compat/verl', '/v1/embeddings', '/runs'],
    ]) {
      const answer = await fetch(`${url}${path}`, { signal: AbortSignal.timeout(10_000) })
      expect([path, answer.status]).toEqual([path, 503])
      expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
    }
  })
})

test.each(['/api/trpc/samples.score', '/v1/embeddings'])(
  '%s is not handled for a client that left while its process was looked up',
  async (path) => {
    const looked = Promise.withResolvers<IncomingMessage>()
    const found = Promise.withResolvers<void>()
    let lookUps = 0
    const checkPeer = (req: IncomingMessage) => {
      if (++lookUps > 1) return
      looked.resolve(req)
      return found.promise
    }
    let handled = 0
    const handle = async (_: IncomingMessage, res: ServerResponse) => {
      handled++
      res.end()
    }
    await listening({ checkPeer }, { trpc: handle, proxy: handle, stopping: false }, async (at) => {
      const url = at + path
      const left = request(url, { method: 'POST', agent: false }).on('error', () => {})
      left.end('{}')
      const { socket } = await looked.promise
      const closed = once(socket, 'close')
      left.destroy()
      await closed
      found.resolve()
      expect((await fetch(url, { method: 'POST', body: '{}' })).status).toBe(200)
      expect(handled).toBe(1)
    })
  },
)
