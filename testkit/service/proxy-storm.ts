import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Agent, request } from 'undici'

/** A seeded generator of integers below `n`. */
export function seeded(seed: number): (n: number) => number {
  let state = seed
  return (n) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
    // The low bits of this generator have short periods.
    return Math.floor((state / 2 ** 32) * n)
  }
}

/** A reward-model server that usually echoes the id it received, and sometimes fails. */
export interface MoodyServer {
  url: string
  /** Requests without a complete answer. */
  active: number
  open: number
  requests: number
  close(): Promise<void>
}

/**
 * Starts a server that looks like a vLLM with `model`. Of 1,000 requests, it answers 12 with 500, 8 with 503 (busy) and
 * 20 with 400. It closes 10 connections before the answer and 10 during the answer. It answers the other requests after
 * up to 11 ms, or as a stream if requested.
 */
export async function startMoodyServer(model: string, seed: number): Promise<MoodyServer> {
  const draw = seeded(seed)
  const moody: MoodyServer = {
    url: '',
    active: 0,
    open: 0,
    requests: 0,
    close: () => closed(server),
  }
  const server = createServer((req, res) => {
    if (req.method === 'GET') {
      const [status, facts] = factsOf(model, req.url ?? '')
      answer(res, status, facts)
      return
    }
    moody.active++
    moody.requests++
    res.once('close', () => moody.active--)
    const chunks: Buffer[] = []
    req.on('error', () => {})
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => {
      const { id, stream = false, messages = [] } = parsed(Buffer.concat(chunks))
      if (id === undefined) {
        // Requests that identify the server, and canaries after a refusal, never fail.
        if (messages.length > 0) answer(res, 200, scored('canary'))
        else answer(res, 400, { error: { message: 'messages are missing' } })
        return
      }
      const mood = draw(1_000)
      if (mood < 12) answer(res, 500, { error: { message: `failed ${id}` } })
      else if (mood < 20) answer(res, 503, { error: { message: 'busy' } }, { 'retry-after': '0' })
      else if (mood < 30) req.socket.destroy()
      else if (mood < 40) {
        res.writeHead(200, { 'content-length': '10000' })
        res.write('{"half":')
        setTimeout(() => req.socket.destroy(), draw(5))
      } else if (mood < 60) answer(res, 400, { error: { message: 'no' }, id })
      else if (stream) streamTokens(res, id, draw(4))
      else setTimeout(() => answer(res, 200, scored(id)), mood < 500 ? 0 : draw(12))
    })
  })
  server.on('connection', (socket) => {
    moody.open++
    socket.once('close', () => moody.open--)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  moody.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return moody
}

function parsed(body: Buffer): { id?: string; stream?: boolean; messages?: unknown[] } {
  try {
    return JSON.parse(body.toString()) as ReturnType<typeof parsed>
  } catch {
    return {}
  }
}

function scored(id: string) {
  return {
    id,
    data: [{ index: 0, label: 'LABEL_0', probs: [0.5], num_classes: 1 }],
    choices: [{ message: { content: id }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 30, total_tokens: 40 },
  }
}

function factsOf(model: string, url: string): [status: number, facts: object] {
  switch (url) {
    case '/v1/models':
      return [200, { object: 'list', data: [{ id: model, owned_by: 'vllm', max_model_len: 4096 }] }]
    case '/version':
      return [200, { version: '0.17.0' }]
    case '/health':
      return [200, {}]
    case '/v1/chat/completions':
      return [405, { detail: 'Method Not Allowed' }]
    default:
      return [404, { detail: 'Not Found' }]
  }
}

function answer(res: ServerResponse, status: number, value: unknown, headers = {}): void {
  if (res.destroyed) return
  res.writeHead(status, { 'content-type': 'application/json', ...headers })
  res.end(JSON.stringify(value))
}

function streamTokens(res: ServerResponse, id: string, everyMs: number): void {
  res.writeHead(200, { 'content-type': 'text/event-stream' })
  let token = 0
  const next = () => {
    if (res.destroyed) return
    if (token === 5) {
      res.end('data: [DONE]\n\n')
      return
    }
    res.write(`data: ${JSON.stringify({ id, token: token++ })}\n\n`)
    setTimeout(next, everyMs)
  }
  next()
}

async function closed(server: Server): Promise<void> {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
}

export interface StormCounts {
  /** Complete answers with the request's own id. */
  answered: number
  /** Answers of a server with status 400, each with the request's own id. */
  refused: number
  /** Answers of the router with status 503: every attempt failed. */
  failed: number
  aborted: number
  /** Answers cut off after their start. */
  broken: number
  /** Violations: the answer to another request, or an unexpected status. */
  wrong: string[]
}

export interface StormOptions {
  url: string
  model: string
  requests: number
  inFlight: number
  seed: number
  headers?: Record<string, string>
  onTenth?: (tenth: number) => Promise<void> | void
}

/** Sends many requests through the router address and checks every answer; one in twelve is aborted at a random moment. */
export async function proxyStorm(options: StormOptions): Promise<StormCounts> {
  const counts: StormCounts = {
    answered: 0,
    refused: 0,
    failed: 0,
    aborted: 0,
    broken: 0,
    wrong: [],
  }
  const agent = new Agent({ connections: options.inFlight, pipelining: 1 })
  const draw = seeded(options.seed)
  const tenth = Math.ceil(options.requests / 10)
  try {
    for (let begin = 0, i = 1; begin < options.requests; begin += tenth, i++) {
      let next = begin
      const end = Math.min(options.requests, begin + tenth)
      await Promise.all(
        Array.from({ length: options.inFlight }, async () => {
          while (next < end) await one(options, agent, next++, draw, counts)
        }),
      )
      await options.onTenth?.(i)
    }
  } finally {
    await agent.destroy()
  }
  return counts
}

async function one(
  { url, model, seed, headers }: StormOptions,
  agent: Agent,
  n: number,
  draw: (n: number) => number,
  counts: StormCounts,
): Promise<void> {
  const id = `storm-${seed}-${n}`
  const kind = draw(3)
  const stream = kind === 0
  const path = kind === 2 ? '/classify' : '/v1/chat/completions'
  const text = 'A rollout of some length. '.repeat(1 + draw(60))
  const gone = new AbortController()
  const timer = draw(12) === 0 ? setTimeout(() => gone.abort(), draw(10)) : undefined
  let status = 0
  try {
    const answer = await request(`${url}${path}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-request-id': id,
        'x-group-id': `g-${n >> 3}`,
        ...headers,
      },
      body: JSON.stringify({ model, id, stream, messages: [{ role: 'user', content: text }] }),
      signal: gone.signal,
      dispatcher: agent,
    })
    status = answer.statusCode
    const body = await answer.body.text()
    const mine =
      answer.headers['x-request-id'] === id &&
      (stream && status === 200
        ? body === streamOf(id)
        : (JSON.parse(body) as { id?: string }).id === id)
    if (status === 200 && mine) counts.answered++
    else if (status === 400 && mine) counts.refused++
    else if (status === 503 && body.includes('"upstream_failed"')) counts.failed++
    else counts.wrong.push(`${id}: ${status} ${body.slice(0, 200)}`)
  } catch (error) {
    if (gone.signal.aborted) counts.aborted++
    else if (status === 200) counts.broken++
    else counts.wrong.push(`${id}: ${(error as Error).message}`)
  } finally {
    clearTimeout(timer)
  }
}

function streamOf(id: string): string {
  const tokens = Array.from(
    { length: 5 },
    (_, token) => `data: ${JSON.stringify({ id, token })}\n\n`,
  )
  return `${tokens.join('')}data: [DONE]\n\n`
}
