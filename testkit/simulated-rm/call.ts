import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'

export interface Answer {
  status: number
  body: string
  /** Content type; default JSON. */
  type?: string
  headers?: Record<string, string>
}

export function json(status: number, value: unknown, headers?: Record<string, string>): Answer {
  const body = JSON.stringify(value)
  return headers === undefined ? { status, body } : { status, body, headers }
}

export type CallEnd = 'answered' | 'aborted' | 'cut'

/** Header of every answer, which marks it as simulated. */
const MARK = { 'x-simulated': 'rewardops' }

export class Call {
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
  /** Method and path: `POST /classify`. */
  readonly route: string
  body = ''
  /** Status of the answer once it has started. */
  status: number | null = null
  readonly #query: string
  readonly #response: ServerResponse
  #cut = false
  #onEnd: ((end: CallEnd) => void)[] = []

  constructor(request: IncomingMessage, response: ServerResponse) {
    const [path = '/', query = ''] = (request.url ?? '/').split('?', 2)
    this.method = request.method ?? 'GET'
    this.path = path
    this.#query = query
    this.headers = request.headers
    this.route = `${this.method} ${path}`
    this.#response = response
    response.on('close', () => {
      const end = this.#cut ? 'cut' : response.writableFinished ? 'answered' : 'aborted'
      for (const listener of this.#onEnd.splice(0)) listener(end)
    })
  }

  get query(): URLSearchParams {
    return new URLSearchParams(this.#query)
  }

  /** Calls the listener once, when the answer is sent or the connection is closed. */
  onEnd(listener: (end: CallEnd) => void): void {
    this.#onEnd.push(listener)
  }

  /** Whether an answer is no longer possible. */
  get over(): boolean {
    return this.#response.writableEnded || this.#response.destroyed
  }

  json(): unknown {
    try {
      return JSON.parse(this.body)
    } catch {
      return undefined
    }
  }

  send(answer: Answer): void {
    if (this.over) return
    this.#head(answer)
    this.#response.end(answer.body)
  }

  sendHalf(answer: Answer): void {
    if (this.over) return
    this.#head(answer)
    this.#response.write(answer.body.slice(0, answer.body.length >> 1), () => this.cut())
  }

  event(data: string): void {
    if (this.over) return
    if (this.status === null) {
      this.status = 200
      this.#response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', ...MARK })
    }
    this.#response.write(`data: ${data}\n\n`)
  }

  endStream(): void {
    if (!this.over) this.#response.end()
  }

  cut(): void {
    this.#cut = true
    this.#response.destroy()
  }

  /** Marks the call as cut, before the server cuts all connections. */
  willBeCut(): void {
    this.#cut = true
  }

  #head(answer: Answer): void {
    this.status = answer.status
    this.#response.writeHead(answer.status, {
      'content-type': answer.type ?? 'application/json',
      'content-length': Buffer.byteLength(answer.body),
      ...MARK,
      ...answer.headers,
    })
  }
}
