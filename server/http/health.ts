import type { IncomingMessage, ServerResponse } from 'node:http'
import { isLoopback } from '../config.ts'
import { forwardingHeader } from './trusted-proxies.ts'

export interface HealthSources {
  /** Null when batches can be accepted; otherwise the reason: starting, stopping, or no writes to the database. */
  unready(): string | null
  /** Null when a worker is alive or none is configured; otherwise the reason. Called only when the service is ready. */
  problem(): Promise<string | null>
  pids(): { server: number; postgres: number | null; workers: number[] }
  /** Longest block of the event loop since the last call, in ms. */
  eventLoopMaxMs(): number
}

export const HEALTH_PATHS = new Set(['/healthz', '/livez', '/readyz'])

/**
 * Answers the health checks with 200, or with 503 and the reason.
 *
 * - `/livez`: the process works. Restart it when this fails.
 * - `/readyz`: batches can be accepted. Send no requests while this fails.
 * - `/healthz`: ready, and a worker is alive. Callers on this machine also get the process ids.
 */
export function createHealth(sources: HealthSources) {
  return async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    const path = (req.url ?? '').split('?', 1)[0]
    const unready = path === '/livez' ? null : sources.unready()
    const problem =
      unready ??
      (path === '/healthz' ? await sources.problem().catch((error: Error) => error.message) : null)
    const address = (req.socket.remoteAddress ?? '').replace(/^::ffff:/, '')
    const local = isLoopback(address) && forwardingHeader(req) === null
    const body = JSON.stringify({
      status: problem === null ? 'ok' : 'unavailable',
      ...(problem === null ? {} : { reason: problem }),
      ...(local && path === '/healthz'
        ? { pids: sources.pids(), eventLoopMaxMs: sources.eventLoopMaxMs() }
        : {}),
    })
    res.writeHead(problem === null ? 200 : 503, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      ...(problem === null ? {} : { 'retry-after': '1' }),
    })
    res.end(body)
  }
}
