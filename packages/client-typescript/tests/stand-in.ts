import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Seen {
  path: string
  body: unknown
}

/** A scripted HTTP server, for situations that are hard to produce with a real service. */
export interface StandIn {
  url: string
  seen: Seen[]
  close(): Promise<void>
}

export async function startStandIn(
  answer: (seen: Seen, res: ServerResponse, times: number) => void,
  session: object | null = { auth: 'open', signedIn: true, version: '0.1.0', address: '' },
): Promise<StandIn> {
  const seen: Seen[] = []
  const server: Server = createServer((req: IncomingMessage, res: ServerResponse) => {
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => {
      const path = (req.url ?? '').split('?', 1)[0] as string
      if (session !== null && path.endsWith('/session.get')) {
        res.setHeader('content-type', 'application/json')
        res.end(JSON.stringify({ result: { data: session } }))
        return
      }
      const text = Buffer.concat(chunks).toString()
      const one = { path, body: text === '' ? null : JSON.parse(text) }
      seen.push(one)
      answer(one, res, seen.filter((each) => each.path === path).length)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

export function result(res: ServerResponse, data: unknown): void {
  res.setHeader('content-type', 'application/json')
  res.end(JSON.stringify({ result: { data } }))
}

export function refusal(
  res: ServerResponse,
  httpStatus: number,
  reason: string,
  message: string,
  retryAfterMs?: number,
): void {
  res.statusCode = httpStatus
  res.setHeader('content-type', 'application/json')
  const data = {
    code: 'X',
    httpStatus,
    reason,
    hint: 'h',
    requestId: 'r-1',
    path: null,
    retryAfterMs,
  }
  res.end(JSON.stringify({ error: { message, code: -32_000, data } }))
}
