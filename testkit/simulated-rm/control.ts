import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { z } from 'zod'
import { ControlChange } from './options.ts'
import type { SimulatedServer } from './server.ts'

/**
 * Listens on a loopback address for `/__control?server=0` and `GET /__stats?server=0`. Without `server` they apply to
 * all servers. The answer is a list with one entry per server. Unlike a server's own URL, the control URL also
 * reaches servers that are down.
 */
export async function startControl(
  servers: readonly SimulatedServer[],
): Promise<{ url: string; close(): Promise<void> }> {
  const listener = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const [status, value] = answer(request.method ?? 'GET', request.url ?? '/', chunks)
      const body = JSON.stringify(value)
      response.writeHead(status, {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
      })
      response.end(body)
    })
  })
  const answer = (method: string, target: string, chunks: Buffer[]): [number, unknown] => {
    const [path, query] = target.split('?', 2)
    const number = new URLSearchParams(query).get('server')
    const chosen = number === null ? servers : servers.slice(Number(number), Number(number) + 1)
    if (chosen.length === 0) return [404, { detail: `there is no server ${number}` }]
    if (path === '/__stats') return [200, chosen.map((server) => server.stats())]
    if (path !== '/__control') return [404, { detail: 'Not Found' }]
    if (method === 'GET') return [200, chosen.map((server) => server.status())]
    try {
      const change = JSON.parse(Buffer.concat(chunks).toString())
      ControlChange.parse(change)
      for (const server of chosen) server.control(change)
      return [200, chosen.map((server) => server.status())]
    } catch (error) {
      const what = error instanceof z.ZodError ? z.prettifyError(error) : (error as Error).message
      return [400, { detail: what }]
    }
  }
  await new Promise<void>((resolve, reject) => {
    listener.once('error', reject)
    listener.listen(0, '127.0.0.1', () => resolve())
  })
  const { port } = listener.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        listener.close(() => resolve())
        listener.closeAllConnections()
      }),
  }
}
