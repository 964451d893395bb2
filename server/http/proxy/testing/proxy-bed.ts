import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Agent, request } from 'undici'
import { createLogger } from '../../../log.ts'
import type { RewardRouter } from '../../../router/router-types.ts'
import { Access } from '../../access.ts'
import { createListener, type Routes } from '../../listener.ts'
import { createRouterProxy, type RouterProxy, type RouterProxyOptions } from '../router-proxy.ts'

export interface Received {
  method: string
  url: string
  headers: IncomingMessage['headers']
  body: Buffer
}

export interface TestUpstream {
  url: string
  received: Received[]
  open: number
  connections: number
  close(): Promise<void>
}

export async function startUpstream(
  answer: (res: ServerResponse, received: Received, req: IncomingMessage) => void,
): Promise<TestUpstream> {
  const upstream: TestUpstream = {
    url: '',
    received: [],
    open: 0,
    connections: 0,
    close: () => closeServer(server),
  }
  const server = createServer((req, res) => {
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => {
      const received = {
        method: req.method as string,
        url: req.url as string,
        headers: req.headers,
        body: Buffer.concat(chunks),
      }
      upstream.received.push(received)
      answer(res, received, req)
    })
    req.on('error', () => {})
  })
  server.on('connection', (socket) => {
    upstream.open++
    upstream.connections++
    socket.once('close', () => upstream.open--)
  })
  upstream.url = await listen(server)
  return upstream
}

async function listen(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function closeServer(server: Server): Promise<void> {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
}

export interface ProxyBed {
  url: string
  proxy: RouterProxy
  routes: Routes
  agent: Agent
  send(
    path: string,
    options?: {
      method?: 'GET' | 'POST' | 'HEAD'
      headers?: Record<string, string>
      body?: string | Buffer | object
      signal?: AbortSignal
    },
  ): Promise<Answered>
  close(): Promise<void>
}

export interface Answered {
  status: number
  headers: Record<string, string | string[] | undefined>
  bytes: Buffer
  text: string
  error: {
    message: string
    type: string
    code: string
    reason: string
    param: string | null
    hint: string
    requestId: string
  }
  json: unknown
}

export async function startProxy(
  router: RewardRouter,
  servers: RouterProxyOptions['servers'],
  options: Partial<RouterProxyOptions> & { keys?: string[] } = {},
): Promise<ProxyBed> {
  const { keys = [], ...rest } = options
  const log = createLogger('silent', 'test')
  const access = new Access(
    {
      apiKeys: keys.map((key) => ({ key, role: 'admin' })),
      trustedProxies: [],
      allowedHosts: [],
      basePath: '',
    },
    log,
  )
  const proxy = createRouterProxy({ router, servers, access, log, ...rest })
  const routes: Routes = {
    health: (_, res) => void res.end('ok'),
    trpc: null,
    proxy: proxy.handle,
    pages: null,
    stopping: false,
  }
  const server = createListener(access, routes, log, null)
  const url = await listen(server)
  const agent = new Agent({ headersTimeout: 60_000, bodyTimeout: 60_000 })
  return {
    url,
    proxy,
    routes,
    agent,
    async send(path, { method = 'POST', headers = {}, body, signal } = {}) {
      const plain = typeof body === 'string' || Buffer.isBuffer(body)
      const answer = await request(`${url}${path}`, {
        method,
        headers: { 'content-type': 'application/json', ...headers },
        body: body === undefined ? null : plain ? body : JSON.stringify(body),
        signal: signal ?? null,
        dispatcher: agent,
      })
      const bytes = Buffer.from(await answer.body.arrayBuffer())
      const text = bytes.toString()
      let json: unknown = null
      try {
        json = JSON.parse(text)
      } catch {
        // Not every answer is JSON.
      }
      const error = (json as { error?: Answered['error'] } | null)?.error
      return {
        status: answer.statusCode,
        headers: answer.headers,
        bytes,
        text,
        json,
        error: error as Answered['error'],
      }
    },
    async close() {
      await proxy.close(0)
      await agent.destroy()
      await closeServer(server)
    },
  }
}
