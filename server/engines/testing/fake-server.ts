import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { EngineName } from '../engine.ts'
import { dialectOf } from './dialects.ts'

export interface FakeCall {
  /** Number of the request, from 0, in order of arrival. */
  index: number
  method: string
  path: string
  headers: IncomingHttpHeaders
  body: string
  /** Whether the client disconnected before the end of the answer. */
  aborted: boolean
}

export type FakeHandler = (call: FakeCall, response: ServerResponse) => void

export class FakeServer {
  handler: FakeHandler
  readonly calls: FakeCall[] = []
  inFlight = 0
  maxInFlight = 0
  readonly sockets = new Set<Socket>()
  #server: Server
  #port = 0

  constructor(handler: FakeHandler) {
    this.handler = handler
    this.#server = this.#create()
  }

  static async start(handler: FakeHandler): Promise<FakeServer> {
    const fake = new FakeServer(handler)
    await fake.listen()
    return fake
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  get port(): number {
    return this.#port
  }

  /** Starts to listen; after {@link close}, on the same port as before. */
  listen(): Promise<void> {
    this.#server = this.#create()
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen(this.#port, '127.0.0.1', () => {
        this.#port = (this.#server.address() as AddressInfo).port
        resolve()
      })
    })
  }

  /** Stops immediately and breaks requests in flight. */
  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => resolve())
      for (const socket of this.sockets) socket.destroy()
    })
  }

  #create(): Server {
    const server = createServer((request, response) => {
      const chunks: Buffer[] = []
      const call: FakeCall = {
        index: this.calls.length,
        method: request.method ?? '',
        path: request.url ?? '',
        headers: request.headers,
        body: '',
        aborted: false,
      }
      this.calls.push(call)
      this.inFlight++
      this.maxInFlight = Math.max(this.maxInFlight, this.inFlight)
      response.on('close', () => {
        this.inFlight--
        call.aborted = !response.writableFinished
      })
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        call.body = Buffer.concat(chunks).toString()
        this.handler(call, response)
      })
    })
    server.keepAliveTimeout = 60_000
    server.on('connection', (socket) => {
      this.sockets.add(socket)
      socket.on('close', () => this.sockets.delete(socket))
    })
    return server
  }
}

export function answer(
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): FakeHandler {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const type = typeof body === 'string' ? 'text/plain' : 'application/json'
  return (_call, response) => {
    response.writeHead(status, { 'content-type': type, ...headers })
    response.end(text)
  }
}

/** The body of an engine's answer with a score. `literal` is the JSON of the score. */
export function scoreBody(engine: EngineName, literal: string): string {
  return dialectOf(engine).one(literal)
}

export function scores(score: number): FakeHandler {
  return answer(200, scoreBody('vllm', String(score)), { 'content-type': 'application/json' })
}

export const hangs: FakeHandler = () => {}
