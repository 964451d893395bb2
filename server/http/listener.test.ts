import { once } from 'node:events'
import { type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { createLogger } from '../log.ts'
import type { Access } from './access.ts'
import { createListener, type Routes } from './listener.ts'

test.each(['/api/trpc/samples.score', '/v1/embeddings'])(
  '%s is not handled for a client that left while its process was looked up',
  async (path) => {
    const looked = Promise.withResolvers<IncomingMessage>()
    const found = Promise.withResolvers<void>()
    let lookUps = 0
    const access = {
      basePath: '',
      proxies: { isHttps: () => false },
      checkPeer(req: IncomingMessage) {
        if (++lookUps > 1) return
        looked.resolve(req)
        return found.promise
      },
      checkOrigin() {},
      findSession() {},
    }
    let handled = 0
    const handle = async (_: IncomingMessage, res: ServerResponse) => {
      handled++
      res.end()
    }
    const routes = { trpc: handle, proxy: handle, stopping: false }
    const log = createLogger('silent', 'test')
    const server = createListener(
      access as unknown as Access,
      routes as unknown as Routes,
      log,
      null,
    )
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`
    try {
      const left = request(url, { method: 'POST', agent: false }).on('error', () => {})
      left.end('{}')
      const { socket } = await looked.promise
      const closed = once(socket, 'close')
      left.destroy()
      await closed
      found.resolve()
      expect((await fetch(url, { method: 'POST', body: '{}' })).status).toBe(200)
      expect(handled).toBe(1)
    } finally {
      server.closeAllConnections()
      server.close()
    }
  },
)
