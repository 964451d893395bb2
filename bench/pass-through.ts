import { createServer, type ServerResponse } from 'node:http'
import { fileURLToPath } from 'node:url'
import { type Dispatcher, Pool } from 'undici'
import { type Child, startNode } from '../testkit/processes/child.ts'

/**
 * A bare proxy process, the reference for the cost of the router address. It forwards each request with node:http and
 * undici's dispatch, with no queue, limits, retries, deadlines or counters, so its cost is that of Node itself.
 */
export interface PassThrough extends Child {
  url: string
}

/** Starts a bare proxy to the server at `target`. The proxy ends with this process. */
export async function startPassThrough(target: string): Promise<PassThrough> {
  const child = await startNode(fileURLToPath(import.meta.url), [target], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = (await new Promise((resolve, reject) => {
    child.process.stdout?.once('data', (data: Buffer) => resolve([String(data)]))
    child.ended.then(({ code }) => reject(new Error(`the bare proxy ended (exit code ${code})`)))
  })) as [string]
  return { ...child, url: line.trim() }
}

/** Buffers an answer and sends it as a whole, with the fewest writes. */
class Answer implements Dispatcher.DispatchHandler {
  readonly #res: ServerResponse
  readonly #chunks: Buffer[] = []
  #status = 0
  #type = ''

  constructor(res: ServerResponse) {
    this.#res = res
  }

  onRequestStart(): void {}

  onResponseStart(
    _: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    this.#status = status
    this.#type = String(headers['content-type'] ?? '')
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#chunks.push(chunk)
  }

  onResponseEnd(): void {
    const body = Buffer.concat(this.#chunks)
    this.#res.writeHead(this.#status, {
      'content-type': this.#type,
      'content-length': body.length,
    })
    this.#res.end(body)
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    this.#res.destroy(error)
  }
}

function serve(target: string): void {
  const pool = new Pool(target, { pipelining: 1 })
  const server = createServer((req, res) => {
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => {
      const headers = ['content-type', req.headers['content-type'] ?? 'application/json']
      const request = { path: req.url ?? '/', method: 'POST', headers, body: Buffer.concat(chunks) }
      pool.dispatch(request as Dispatcher.DispatchOptions, new Answer(res))
    })
  })
  server.listen(0, '127.0.0.1', () => {
    const address = server.address()
    if (typeof address === 'object' && address !== null) {
      process.stdout.write(`http://127.0.0.1:${address.port}\n`)
    }
  })
}

if (process.argv[1] === fileURLToPath(import.meta.url)) serve(process.argv[2] as string)
