import type { IncomingMessage, ServerResponse } from 'node:http'
import { isLoopback } from '../config.ts'

/** What /healthz looks at. */
export interface HealthSources {
  /** Null when batches can be accepted and a worker lives (or none is wanted); else why not. */
  problem(): Promise<string | null>
  pids(): { server: number; postgres: number | null; workers: number[] }
  /** Longest stretch the event loop was blocked since the last reading, ms. */
  eventLoopMaxMs(): number
}

/** `GET /healthz`: 200 or 503 with the reason; process ids for those on this machine. */
export function createHealth(sources: HealthSources) {
  return async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    const problem = await sources.problem().catch((error: Error) => error.message)
    const local = isLoopback((req.socket.remoteAddress ?? '').replace(/^::ffff:/, ''))
    const body = JSON.stringify({
      status: problem === null ? 'ok' : 'unavailable',
      ...(problem === null ? {} : { reason: problem }),
      ...(local ? { pids: sources.pids(), eventLoopMaxMs: sources.eventLoopMaxMs() } : {}),
    })
    res.writeHead(problem === null ? 200 : 503, {
      'content-type': 'application/json',
      'cache-control': 'no-store',
      'content-length': Buffer.byteLength(body),
      ...(problem === null ? {} : { 'retry-after': '1' }),
    })
    res.end(body)
  }
}
