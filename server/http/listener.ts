import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { withoutBasePath } from '../base-path.ts'
import { isLoopback } from '../config.ts'
import { IMAGES_PATH } from '../contract/images.ts'
import { RewardOpsError, shuttingDown } from '../errors.ts'
import type { Logger } from '../log.ts'
import { activeTrace, type TraceContext } from '../trace-context.ts'
import { type Access, hostName } from './access.ts'
import { COMPAT_PATH } from './compat/compat.ts'
import { decodedPart } from './decoded-part.ts'
import { HEALTH_PATHS } from './health.ts'
import { refuseProxied } from './proxy/refusal.ts'
import { isRouterPath } from './proxy/routes.ts'
import { refuse } from './refuse.ts'
import { ANSWER_HEADERS, setAnswerHeaders, setStrictTransport } from './security-headers.ts'

export type Handler = (
  req: IncomingMessage,
  res: ServerResponse,
  requestId: string,
) => Promise<void> | void

/** The handlers of requests. Each is set when its module has started. */
export interface Routes {
  health: Handler
  metrics?: Handler | null
  trpc: Handler | null
  openApi?: Handler | null
  exports?: Handler | null
  images?: Handler | null
  /** The router address. Its paths are at the root, where clients of reward models expect them. */
  proxy: Handler | null
  /** The dialects of trainers that support a remote reward server. */
  compat?: Handler | null
  /**
   * A promise, so that a page opened during the start loads late instead of failing. Null, or resolves to null, if
   * pages are disabled or not built.
   */
  pages: Promise<Handler | null> | null
  /** The trace of a request that changes something; null while tracing is off, or if the request is not traced. */
  traceOf?: ((req: IncomingMessage) => TraceContext | null) | null
  /** True while the service stops: everything but health checks is answered with 503 and Retry-After. */
  stopping: boolean
}

/** The answer to bytes that are not an HTTP request. */
const BAD_REQUEST = [
  'HTTP/1.1 400 Bad Request',
  ...Object.entries(ANSWER_HEADERS).map(([name, value]) => `${name}: ${value}`),
  'content-length: 0\r\nconnection: close\r\n\r\n',
].join('\r\n')

/**
 * Idle connections stay open for longer than the usual 60 s of proxies and clients, so that the client closes them
 * first.
 */
const TIMEOUTS = { keepAliveTimeout: 65_000, requestTimeout: 600_000 }

/** Creates the HTTP server that passes requests to `routes`. With `tls`, the server speaks TLS only. */
export function createListener(
  access: Access,
  routes: Routes,
  log: Logger,
  tls: { cert: Buffer; key: Buffer } | null,
): Server {
  const server = tls === null ? createServer(TIMEOUTS) : createTlsServer({ ...TIMEOUTS, ...tls })
  server.on('request', (req, res) => {
    const given = req.headers['x-request-id']
    const requestId =
      typeof given === 'string' && /^[\w.-]{1,64}$/.test(given) ? given : randomUUID()
    req.url = withoutBasePath(req.url ?? '/', access.basePath)
    const path = req.url.split('?', 1)[0] as string
    const { proxies } = access
    if (proxies.isHttps(req) && !isLoopback(hostName(proxies.host(req)))) setStrictTransport(res)
    // The handler of the router address writes all headers in one call, which takes half the time of separate calls.
    if (!isRouterPath(path)) {
      setAnswerHeaders(res)
      res.setHeader('x-request-id', requestId)
    }
    const trace = (req.method === 'POST' && routes.traceOf?.(req)) || null
    const answered =
      trace === null
        ? route(path, req, res, requestId)
        : activeTrace.run({ trace, spanId: trace.parentId }, () => route(path, req, res, requestId))
    void answered.catch((error) => {
      if (isRouterPath(path)) refuseProxied(res, error, requestId)
      else refuse(res, error, requestId, null)
    })
  })
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    if (error.code === 'ECONNRESET' || !socket.writable) return
    log.debug({ err: error.message }, 'client error')
    socket.end(BAD_REQUEST)
  })

  async function route(
    path: string,
    req: IncomingMessage,
    res: ServerResponse,
    requestId: string,
  ): Promise<void> {
    checkRequestLine(req, res)
    if (HEALTH_PATHS.has(path)) return routes.health(req, res, requestId)
    const looking = access.checkPeer(req, isRouterPath(path))
    if (looking !== undefined) await looking
    access.checkOrigin(req)
    if (routes.stopping) throw shuttingDown()
    if (path === '/metrics') {
      if (!routes.metrics)
        throw new RewardOpsError('busy', 'The service is starting.', { retryAfterMs: 500 })
      return routes.metrics(req, res, requestId)
    }
    const finding = path.startsWith('/api/') ? access.findSession(req) : undefined
    if (finding !== undefined) await finding
    // Handlers notice clients that disconnect later, but not clients that have disconnected already.
    if (res.destroyed) return
    if (path.startsWith('/api/export/')) {
      if (!routes.exports)
        throw new RewardOpsError('busy', 'The service is starting.', { retryAfterMs: 500 })
      return routes.exports(req, res, requestId)
    }
    if (path.startsWith(IMAGES_PATH)) {
      if (!routes.images)
        throw new RewardOpsError('busy', 'The service is starting.', { retryAfterMs: 500 })
      return routes.images(req, res, requestId)
    }
    if (path === '/api/openapi.json') {
      if (!routes.openApi)
        throw new RewardOpsError('busy', 'The service is starting.', { retryAfterMs: 500 })
      return routes.openApi(req, res, requestId)
    }
    if (path.startsWith('/api/')) {
      if (!path.startsWith('/api/trpc/'))
        throw new RewardOpsError('not_found', `There is nothing at ${path.slice(0, 100)}.`)
      if (!routes.trpc)
        throw new RewardOpsError('busy', 'The service is starting.', { retryAfterMs: 500 })
      return routes.trpc(req, res, requestId)
    }
    if (path.startsWith(COMPAT_PATH)) {
      if (!routes.compat)
        throw new RewardOpsError('busy', 'The service is starting.', { retryAfterMs: 500 })
      return routes.compat(req, res, requestId)
    }
    if (isRouterPath(path)) {
      if (!routes.proxy)
        throw new RewardOpsError('busy', 'The service is starting.', { retryAfterMs: 500 })
      return routes.proxy(req, res, requestId)
    }
    // Pages accept only GET and HEAD. A POST to an unknown path is answered with JSON, not with a page.
    if (req.method !== 'GET' && req.method !== 'HEAD') {
      throw new RewardOpsError(
        'not_found',
        `There is nothing to ${req.method} at ${path.slice(0, 100)}.`,
      )
    }
    // Refuses invalid % escapes, which Next would answer with 500.
    decodedPart(path)
    const pages = await routes.pages
    if (!pages) {
      throw new RewardOpsError(
        'busy',
        'The pages are starting, disabled or not built. "npm start" builds them.',
        {
          retryAfterMs: 1_000,
        },
      )
    }
    return pages(req, res, requestId)
  }
  return server
}

/**
 * Refuses requests that proxies and this service could read in different ways: requests whose target is not a path, or
 * that have several Host headers. Also refuses TRACE, which would return the caller's own headers.
 * @throws RewardOpsError `method_not_allowed`, `malformed_request`
 */
function checkRequestLine(req: IncomingMessage, res: ServerResponse): void {
  if (req.method === 'TRACE') {
    res.setHeader('allow', 'GET, HEAD, POST')
    throw new RewardOpsError('method_not_allowed', 'TRACE is not supported.')
  }
  if (!req.url?.startsWith('/')) {
    const target = JSON.stringify((req.url ?? '').slice(0, 100))
    throw new RewardOpsError('malformed_request', `The target ${target} is not a path.`)
  }
  let hosts = 0
  for (let i = 0; i < req.rawHeaders.length; i += 2) {
    const name = req.rawHeaders[i] as string
    if (name.length === 4 && name.toLowerCase() === 'host') hosts++
  }
  if (hosts > 1) {
    throw new RewardOpsError('malformed_request', `The request has ${hosts} Host headers.`)
  }
}
