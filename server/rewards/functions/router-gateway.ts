import { chownSync } from 'node:fs'
import { createServer, request } from 'node:http'
import { join } from 'node:path'
import { FUNCTION_CALLER_HEADER } from '../../contract/isolation.ts'
import { ROUTER_SOCKET } from './protocol.ts'

export interface RouterGateway {
  /** Opens the socket in the folder that the sandbox sees. */
  listen(folder: string, user: { uid: number; gid: number } | null): void
  close(): void
}

/**
 * Forwards requests from a Unix socket to the router address. Each request gets a header that makes the server refuse
 * all paths outside the router, because the connection comes from the service's own user, who may use every path.
 */
export function serveRouter(rewardRouterAddress: string): RouterGateway {
  const at = rewardRouterAddress.lastIndexOf(':')
  const host = rewardRouterAddress.slice(0, at).replace(/^\[(.*)\]$/, '$1')
  const port = Number(rewardRouterAddress.slice(at + 1))
  const server = createServer((req, res) => {
    const headers = { ...req.headers, host: rewardRouterAddress, [FUNCTION_CALLER_HEADER]: '1' }
    const { method, url } = req
    const passed = request({ host, port, method, path: url, headers }, (answer) => {
      res.writeHead(answer.statusCode as number, answer.headers)
      answer.pipe(res)
      answer.on('error', () => res.destroy())
    })
    passed.on('error', () => {
      if (res.headersSent) res.destroy()
      else res.writeHead(502).end()
    })
    res.on('close', () => passed.destroy())
    req.pipe(passed)
  })
  server.on('error', () => {})
  return {
    listen(folder, user) {
      const socket = join(folder, ROUTER_SOCKET)
      server.listen(socket, () => {
        try {
          if (user !== null) chownSync(socket, user.uid, user.gid)
        } catch {
          // The process has ended already.
        }
      })
    },
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}
