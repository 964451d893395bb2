import type { IncomingMessage, ServerResponse } from 'node:http'
import type { KeyHolder } from '../../admin/key-holder.ts'
import { RewardOpsError } from '../../errors.ts'
import type { Logger } from '../../log.ts'
import type { RewardRouter } from '../../router/router-types.ts'
import { SwapList } from '../../router/swap-list.ts'
import type { Access } from '../access.ts'
import { ANSWER_HEADERS } from '../security-headers.ts'
import { Exchange, type ExchangeContext } from './exchange.ts'
import { type KnownServer, ModelDirectory } from './model-directory.ts'
import { refuseProxied } from './refusal.ts'
import { isProxied, MODELS_PATH } from './routes.ts'
import { Upstreams } from './upstreams.ts'

export interface RouterProxyOptions {
  router: RewardRouter
  /** The registered servers, unusable ones included, in a new array whenever a server has changed. */
  servers: () => readonly KnownServer[]
  access: Pick<Access, 'admit'>
  log: Logger
  refresh?: () => Promise<void>
  /** Called to wake a server when a requested model's servers sleep; at most once a second for each model. */
  onAsleep?: (model: string) => void
}

/**
 * Numbers of open requests, calls and connections. All are 0 when the proxy is idle, except that connections stay open
 * for a few seconds.
 */
export interface RouterProxyCounts {
  requests: number
  calls: number
  connections: number
}

/** The router address: passes requests for a model on to one of its servers. */
export interface RouterProxy {
  handle(req: IncomingMessage, res: ServerResponse, requestId: string): Promise<void>
  counts(): RouterProxyCounts
  /** Waits up to `ms` for open requests, then aborts them and closes the connections. */
  close(ms: number): Promise<void>
}

const TICK_MS = 1_000

export function createRouterProxy(options: RouterProxyOptions): RouterProxy {
  const { router, access, log } = options
  const upstreams = new Upstreams()
  const directory = new ModelDirectory({
    servers: options.servers,
    refresh: options.refresh ?? (async () => {}),
    onAsleep: options.onAsleep ?? (() => {}),
  })
  const context: ExchangeContext = { router, upstreams, directory, log }
  const active = new SwapList<Exchange>(
    (exchange) => exchange.index,
    (exchange, index) => {
      exchange.index = index
    },
  )
  let idle: (() => void) | null = null
  const startedAt = Math.floor(Date.now() / 1_000)

  const timer = setInterval(() => {
    const nowMs = performance.now()
    for (const exchange of active.all()) exchange.tick(nowMs)
    upstreams.sweep(nowMs)
  }, TICK_MS)
  timer.unref()

  /** Answers with OpenAI's list of models plus fields of this service. */
  async function listModels(res: ServerResponse, requestId: string): Promise<void> {
    const data = (await directory.list()).map(({ model, kind, servers }) => ({
      id: model,
      object: 'model',
      created: startedAt,
      owned_by: 'rewardops',
      kind,
      servers: servers.length,
    }))
    const body = JSON.stringify({ object: 'list', data })
    res.writeHead(200, {
      ...ANSWER_HEADERS,
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      'x-request-id': requestId,
    })
    res.end(body)
  }

  return {
    async handle(req, res, requestId) {
      const path = (req.url ?? '/').split('?', 1)[0] as string
      let holder: KeyHolder
      try {
        holder = access.admit(req, path === MODELS_PATH ? 'models' : 'router')
        const method = path === MODELS_PATH ? 'GET' : 'POST'
        if (req.method !== method && !(method === 'GET' && req.method === 'HEAD')) {
          res.setHeader('allow', method)
          throw new RewardOpsError('method_not_allowed', `${path} accepts only ${method}.`, {
            hint: `Send the request as ${method}.`,
          })
        }
        if (!isProxied(path)) return await listModels(res, requestId)
      } catch (error) {
        refuseProxied(res, error, requestId)
        return
      }
      const exchange = new Exchange(context, req, res, requestId, path, holder.ended)
      active.add(exchange)
      await exchange.run()
      active.delete(exchange)
      if (active.size === 0) idle?.()
    },

    counts() {
      const { active: calls, connections } = upstreams.counts()
      return { requests: active.size, calls, connections }
    },

    async close(ms) {
      if (active.size > 0) {
        await new Promise<void>((resolve) => {
          const last = setTimeout(resolve, ms)
          idle = () => {
            clearTimeout(last)
            resolve()
          }
        })
      }
      clearInterval(timer)
      for (const exchange of active.all()) exchange.cut()
      await upstreams.close()
    },
  }
}
