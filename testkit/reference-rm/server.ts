import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { z } from 'zod'
import {
  type Behaviour,
  BehaviourChange,
  changed,
  delayOfDraw,
  faultStrikes,
  PLAIN_BEHAVIOUR,
} from './behaviour.ts'
import { type ClassifyRequest, readClassifyRequest, scoreOf, type VllmError } from './classify.ts'
import { tailHash } from './score.ts'

/** What this server is, in the words it uses of itself everywhere. */
export const WHAT_IT_IS =
  'reference reward model: a documented linear model over plain text features, no neural network'

/** The vLLM release whose protocol is spoken, marked as not being one. */
export const REFERENCE_VERSION = '0.29.0+rewardops.reference'

/** How to start one. */
export interface ReferenceRmOptions {
  /** 0: a free one. */
  port?: number
  host?: string
  model?: string
  /** Tokens by this server's own count (UTF-16 units over 4). */
  maxModelLen?: number
  /** The vLLM release it says it is; what it takes stays the same. Default: {@link REFERENCE_VERSION}. */
  version?: string
  behaviour?: Partial<Behaviour>
}

/** Since the start or the last `resetCounters`; `inFlight` and `waiting` are of now. */
export interface ReferenceRmCounters {
  requests: number
  texts: number
  answered: number
  /** Refused with a 4xx for what was asked. */
  refused: number
  /** Struck by the fault that is set. */
  faults: number
  /** Gone before they were answered. */
  aborted: number
  inFlight: number
  /** Most requests at once. */
  maxInFlight: number
  /** Most texts worked on at once; requests answered without any wait are not counted. */
  maxWorking: number
  /** Of those in flight, waiting for a place under `concurrency`. */
  waiting: number
  connections: number
}

/** A running reference reward-model server. */
export interface ReferenceRm {
  url: string
  port: number
  model: string
  counters(): ReferenceRmCounters
  set(change: z.input<typeof BehaviourChange>): void
  close(): Promise<void>
}

const JSON_TYPE = 'application/json'
const BODY_LIMIT_BYTES = 64 * 1024 * 1024

/** A request that waits for its place or its delay. */
interface Waiting {
  texts: number
  start: () => void
}

/** Starts the server; resolves when it listens. @throws the listener's error, `EADDRINUSE` for a taken port. */
export async function startReferenceRm(options: ReferenceRmOptions = {}): Promise<ReferenceRm> {
  const model = options.model ?? 'reference-rm'
  const maxModelLen = options.maxModelLen ?? 32_768
  const version = options.version ?? REFERENCE_VERSION
  const startedSeconds = Math.floor(Date.now() / 1000)
  let behaviour: Behaviour = { ...PLAIN_BEHAVIOUR, ...options.behaviour }
  let counters = freshCounters()
  let inFlight = 0
  let working = 0
  let connections = 0
  let arrivals = 0
  const line: Waiting[] = []

  const handleClassify = (req: IncomingMessage, res: ServerResponse): void => {
    counters.requests += 1
    inFlight += 1
    if (inFlight > counters.maxInFlight) counters.maxInFlight = inFlight
    res.on('close', () => {
      inFlight -= 1
      if (!res.writableFinished) counters.aborted += 1
    })
    readBody(req, res, (bytes) => {
      const request = parseClassify(req, bytes)
      if ('status' in request) {
        counters.refused += 1
        sendError(res, request)
        return
      }
      const texts = request.conversations.length
      counters.texts += texts
      const arrival = arrivals++
      let delayMs = 0
      let struck = false
      for (const { response } of request.conversations) {
        const hash = tailHash(response)
        const delay = delayOfDraw(behaviour, behaviour.delayBy === 'text' ? hash : arrival)
        if (delay > delayMs) delayMs = delay
        struck ||= faultStrikes(behaviour, behaviour.faultBy === 'text' ? hash : arrival)
      }
      const answer = () => {
        if (struck) {
          counters.faults += 1
          if (!sendFault(res)) return
        } else {
          counters.answered += 1
          sendScores(res, request)
        }
      }
      if (delayMs === 0 && behaviour.concurrency === 0) answer()
      else enter(res, texts, delayMs, answer)
    })
  }

  /** Takes a place (or stands in line for one), waits the delay, answers, leaves; a client that goes is dropped at once. */
  const enter = (res: ServerResponse, texts: number, delayMs: number, answer: () => void): void => {
    let timer: NodeJS.Timeout | undefined
    let inside = false
    const leave = () => {
      if (!inside) return
      inside = false
      working -= texts
      admit()
    }
    const waiting: Waiting = {
      texts,
      start() {
        inside = true
        working += texts
        if (working > counters.maxWorking) counters.maxWorking = working
        timer = setTimeout(answer, delayMs)
      },
    }
    res.once('close', () => {
      clearTimeout(timer)
      const place = line.indexOf(waiting)
      if (place !== -1) line.splice(place, 1)
      leave()
    })
    res.once('finish', leave)
    line.push(waiting)
    admit()
  }

  const admit = (): void => {
    for (let next = line[0]; next !== undefined; next = line[0]) {
      // A request larger than the limit goes in alone, else it would wait for ever.
      const fits = behaviour.concurrency === 0 || working + next.texts <= behaviour.concurrency
      if (!fits && working > 0) return
      line.shift()
      next.start()
    }
  }

  const parseClassify = (req: IncomingMessage, bytes: Buffer): ClassifyRequest | VllmError => {
    if (!req.headers['content-type']?.startsWith(JSON_TYPE)) {
      return badRequest("Unsupported Media Type: Only 'application/json' is allowed")
    }
    let body: unknown
    try {
      body = JSON.parse(bytes.toString())
    } catch (error) {
      return badRequest(`JSON decode error: ${(error as Error).message}`)
    }
    return readClassifyRequest(body, { model, maxModelLen })
  }

  const sendScores = (res: ServerResponse, request: ClassifyRequest): void => {
    const { conversations, tokens, activate } = request
    let data = ''
    let prompted = 0
    for (let i = 0; i < conversations.length; i++) {
      const score = scoreOf(conversations[i]!, behaviour.score, activate)
      data += `${i === 0 ? '' : ','}${entry(i, String(score))}`
      prompted += tokens[i]!
    }
    sendJson(res, 200, listOf(data, prompted))
  }

  const entry = (index: number, score: string): string =>
    `{"index":${index},"label":"LABEL_0","probs":[${score}],"num_classes":1}`

  const listOf = (data: string, promptTokens: number): string =>
    `{"id":"classify-${(arrivals >>> 0).toString(16)}","object":"list","created":${Math.floor(Date.now() / 1000)},"model":${JSON.stringify(model)},"data":[${data}],"usage":{"prompt_tokens":${promptTokens},"total_tokens":${promptTokens},"completion_tokens":0,"prompt_tokens_details":null}}`

  /** False when nothing is sent: the client is to wait, or its connection is cut. */
  const sendFault = (res: ServerResponse): boolean => {
    const { fault } = behaviour
    switch (fault.kind) {
      case 'nan':
        sendJson(res, 200, listOf(entry(0, 'NaN'), 1))
        return true
      case 'null':
        sendJson(res, 200, listOf(entry(0, 'null'), 1))
        return true
      case 'html':
        send(
          res,
          200,
          'text/html; charset=utf-8',
          '<!doctype html><html><title>A proxy</title></html>',
        )
        return true
      case 'redirect':
        res.writeHead(307, { location: '/somewhere-else', 'content-length': 0 }).end()
        return true
      case 'status':
        sendError(res, {
          status: fault.status,
          message: `The reference server was told to answer ${fault.status}.`,
          type: fault.status >= 500 ? 'InternalServerError' : 'BadRequestError',
          param: null,
        })
        return true
      case 'drop':
        res.socket?.destroy()
        return false
      default:
        return false
    }
  }

  const handleControl = (req: IncomingMessage, res: ServerResponse): void => {
    if (!isLoopback(req.socket.remoteAddress)) {
      send(res, 403, JSON_TYPE, '{"detail":"/__control answers on loopback only"}')
      return
    }
    if (req.method === 'GET') {
      sendJson(res, 200, JSON.stringify({ behaviour, counters: countersNow() }))
      return
    }
    readBody(req, res, (bytes) => {
      try {
        const body = ControlBody.parse(JSON.parse(bytes.toString() || '{}'))
        const { resetCounters, ...change } = body
        behaviour = changed(behaviour, change)
        if (resetCounters) counters = freshCounters()
        admit()
      } catch (error) {
        const what = error instanceof z.ZodError ? z.prettifyError(error) : (error as Error).message
        send(res, 400, JSON_TYPE, JSON.stringify({ detail: what }))
        return
      }
      sendJson(res, 200, JSON.stringify({ behaviour, counters: countersNow() }))
    })
  }

  const countersNow = (): ReferenceRmCounters => ({
    ...counters,
    inFlight,
    waiting: line.length,
    connections,
  })

  const facts: Record<string, () => [type: string, body: string]> = {
    '/health': () => ['text/plain', ''],
    '/ping': () => ['text/plain', ''],
    '/version': () => [JSON_TYPE, JSON.stringify({ version })],
    '/load': () => [JSON_TYPE, JSON.stringify({ server_load: inFlight })],
    '/v1/models': () => [
      JSON_TYPE,
      JSON.stringify({
        object: 'list',
        data: [
          {
            id: model,
            object: 'model',
            created: startedSeconds,
            owned_by: 'vllm',
            root: 'rewardops/reference-rm',
            parent: null,
            max_model_len: maxModelLen,
            permission: [],
            description: WHAT_IT_IS,
          },
        ],
      }),
    ],
    '/metrics': () => [
      'text/plain; version=0.0.4; charset=utf-8',
      `# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name=${JSON.stringify(model)},engine="0"} ${inFlight - line.length}\n# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{model_name=${JSON.stringify(model)},engine="0"} ${line.length}\n`,
    ],
  }

  const server = createServer((req, res) => {
    const path = req.url as string
    if (path === '/classify') {
      if (req.method === 'POST') handleClassify(req, res)
      else send(res, 405, JSON_TYPE, '{"detail":"Method Not Allowed"}', { allow: 'POST' })
      return
    }
    if (path === '/__control') {
      handleControl(req, res)
      return
    }
    const fact = facts[path.split('?', 1)[0] as string]
    if (fact === undefined) send(res, 404, JSON_TYPE, '{"detail":"Not Found"}')
    else if (req.method !== 'GET') send(res, 405, JSON_TYPE, '{"detail":"Method Not Allowed"}')
    else send(res, 200, ...fact())
  })
  server.on('connection', (socket) => {
    connections += 1
    socket.on('close', () => {
      connections -= 1
    })
  })

  const host = options.host ?? '127.0.0.1'
  await listen(server, options.port ?? 0, host)
  const { port } = server.address() as AddressInfo
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    port,
    model,
    counters: countersNow,
    set(change) {
      behaviour = changed(behaviour, BehaviourChange.parse(change))
      admit()
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

const ControlBody = BehaviourChange.extend({ resetCounters: z.boolean().optional() })

function freshCounters(): ReferenceRmCounters {
  return {
    requests: 0,
    texts: 0,
    answered: 0,
    refused: 0,
    faults: 0,
    aborted: 0,
    inFlight: 0,
    maxInFlight: 0,
    maxWorking: 0,
    waiting: 0,
    connections: 0,
  }
}

/** A backlog of thousands: five thousand requests of 4 s arrive as five thousand connections at once. */
function listen(server: Server, port: number, host: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ port, host, backlog: 16_384 }, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

function readBody(req: IncomingMessage, res: ServerResponse, done: (bytes: Buffer) => void): void {
  const chunks: Buffer[] = []
  let length = 0
  req.on('data', (chunk: Buffer) => {
    length += chunk.length
    if (length <= BODY_LIMIT_BYTES) chunks.push(chunk)
  })
  req.on('end', () => {
    if (length > BODY_LIMIT_BYTES) send(res, 413, JSON_TYPE, '{"detail":"Request too large"}')
    else done(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks))
  })
}

function badRequest(message: string): VllmError {
  return { status: 400, message, type: 'Bad Request', param: null }
}

function sendError(res: ServerResponse, error: VllmError): void {
  const { status, message, type, param } = error
  sendJson(res, status, JSON.stringify({ error: { message, type, param, code: status } }))
}

function sendJson(res: ServerResponse, status: number, body: string): void {
  send(res, status, JSON_TYPE, body)
}

function send(
  res: ServerResponse,
  status: number,
  type: string,
  body: string,
  headers: Record<string, string> = {},
): void {
  res.writeHead(status, {
    'content-type': type,
    'content-length': Buffer.byteLength(body),
    ...headers,
  })
  res.end(body)
}

function isLoopback(address: string | undefined): boolean {
  return address !== undefined && /^(::1|(::ffff:)?127(\.\d{1,3}){3})$/.test(address)
}
