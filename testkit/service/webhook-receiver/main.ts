import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/**
 * A webhook receiver process. Its answer depends on the path: `/ok` 200, `/error` 500, `/redirect` 302 to `/ok`,
 * `/slow` never answers, `/flaky` 503 the first two times, `/broken` breaks off in the body of a 200, `/endless` sends
 * a 200 whose body never ends. `GET /__received` returns the received calls.
 */

export interface ReceivedCall {
  path: string
  headers: Record<string, string>
  body: string
}

const received: ReceivedCall[] = []
let flaky = 0

const server = createServer((req, res) => {
  const path = (req.url ?? '/').split('?')[0] as string
  if (path === '/__received') {
    res.setHeader('content-type', 'application/json').end(JSON.stringify(received))
    return
  }
  let body = ''
  req.setEncoding('utf8')
  req.on('data', (text: string) => {
    body += text
  })
  req.on('end', () => {
    received.push({ path, headers: req.headers as Record<string, string>, body })
    if (path === '/slow') return
    if (path === '/broken' || path === '/endless') {
      res.writeHead(200, { 'content-length': 100 }).write('thank', () => {
        if (path === '/broken') res.destroy()
      })
    } else if (path === '/redirect') res.writeHead(302, { location: '/ok' }).end()
    else if (path === '/error') res.writeHead(500).end('the receiver broke')
    else if (path === '/flaky' && ++flaky <= 2) res.writeHead(503).end('not yet')
    else res.end('thank you')
  })
})
server.listen(Number(process.argv[2] ?? 0), '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  process.stdout.write(`${JSON.stringify({ port })}\n`)
})
// The receiver ends with its parent, even if the parent is killed.
process.stdin.on('end', () => process.exit(0)).resume()
process.on('SIGTERM', () => process.exit(0))
