import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { afterEach, describe, expect, it } from 'vitest'
import { waitFor } from '../../../testkit/service/wait-for.ts'
import { PROXIED_PATHS } from '../../contract/proxied-paths.ts'
import { RewardOpsError } from '../../errors.ts'
import { createRewardRouter } from '../../router/reward-router.ts'
import { config } from '../../router/testing/harness.ts'
import { MAX_PROXIED_BYTES } from './read-body.ts'
import type { RouterProxyOptions } from './router-proxy.ts'
import {
  type ProxyBed,
  type Received,
  startProxy,
  startUpstream,
  type TestUpstream,
} from './testing/proxy-bed.ts'
import { SlotRouter, type SlotServer } from './testing/slot-router.ts'

/** Tests the router address over sockets, with slots from a router that records every decision. */

const closers: (() => Promise<void>)[] = []
const beds: { bed: ProxyBed; slots: SlotRouter }[] = []

afterEach(async () => {
  for (const { bed, slots } of beds.splice(0)) {
    await waitFor('an idle proxy', () => bed.proxy.counts().requests === 0)
    expect(bed.proxy.counts()).toMatchObject({ requests: 0, calls: 0 })
    expect([...slots.inFlight.values()].every((n) => n === 0)).toBe(true)
    await bed.close()
  }
  for (const close of closers.splice(0)) await close()
})

type Answer = (res: ServerResponse, received: Received, req: IncomingMessage) => void

async function upstream(answer: Answer = (res) => json(res, 200, {})): Promise<TestUpstream> {
  const started = await startUpstream(answer)
  closers.push(() => started.close())
  return started
}

async function bedOver(
  servers: (Partial<SlotServer> & { url: string })[],
  options: Partial<RouterProxyOptions> & { keys?: string[] } = {},
) {
  const slots = new SlotRouter(
    servers.map((server, i) => ({ id: i + 1, name: `rm-${i + 1}`, model: 'rm', ...server })),
  )
  const bed = await startProxy(slots.router, () => slots.known(), options)
  beds.push({ bed, slots })
  return { bed, slots }
}

function json(res: ServerResponse, status: number, value: unknown, headers = {}): void {
  res.writeHead(status, { 'content-type': 'application/json', ...headers })
  res.end(JSON.stringify(value))
}

const chat = (fields: object = {}) => ({ model: 'rm', messages: [], ...fields })

describe('requests and answers are passed on', () => {
  it.each([200, 201, 202, 204, 400, 401, 403, 404, 413, 418, 422, 501])(
    'an answer %i, unchanged',
    async (status) => {
      const body = Buffer.from(status === 204 ? '' : `{"odd":  "bytes\u0000é" ,"n":1.50e0}\n`)
      const { url } = await upstream((res) => {
        res.writeHead(status, 'Its Own Words', {
          'content-type': 'application/json; charset=utf-8',
          'x-compute-time': '12',
          'x-many': ['a', 'b'],
          date: 'Thu, 01 Jan 2026 00:00:00 GMT',
          server: 'uvicorn',
          ...(status === 204 ? {} : { 'content-length': body.length }),
        })
        res.end(body)
      })
      const { bed, slots } = await bedOver([{ url }])
      const answer = await bed.send('/classify', { body: { model: 'rm', input: 'x' } })
      expect(answer.status).toBe(status)
      expect(answer.bytes).toEqual(body)
      expect(answer.headers).toMatchObject({
        'content-type': 'application/json; charset=utf-8',
        'x-compute-time': '12',
        'x-many': ['a', 'b'],
        date: 'Thu, 01 Jan 2026 00:00:00 GMT',
        server: 'uvicorn',
        'x-worker': 'rm-1',
        'x-attempts': '1',
        'x-queue-ms': expect.stringMatching(/^\d+(\.\d)?$/),
        'x-upstream-ms': expect.stringMatching(/^\d+(\.\d)?$/),
      })
      // Calls through the router address are not hedged.
      expect(answer.headers).not.toHaveProperty('x-hedged')
      expect(slots.ends).toMatchObject([{ end: { outcome: status < 400 ? 'ok' : 'client' } }])
      const words = await new Promise<string | undefined>((resolve) => {
        const req = httpRequest(`${bed.url}/classify`, { method: 'POST' }, (res) => {
          res.resume()
          resolve(res.statusMessage)
        })
        req.end('{"model":"rm"}')
      })
      expect(words).toBe('Its Own Words')
    },
  )

  it.each(PROXIED_PATHS)('a request to %s, byte for byte', async (path) => {
    const rm = await upstream((res) => json(res, 200, {}))
    const engine = ['/generate', '/v1/classify'].includes(path)
      ? 'sglang'
      : path === '/predict'
        ? 'tei'
        : 'vllm'
    const { bed } = await bedOver([{ url: `${rm.url}/base/v1`, engine }])
    const body = Buffer.from(
      `{"model" :"rm", "x": 1.0, "y":"\\u00e9é",  "big": 12345678901234567890 }`,
    )
    const answer = await bed.send(`${path}?a=1&b=%20`, {
      body,
      headers: { 'x-custom': 'kept', accept: 'text/event-stream', 'user-agent': 'trainer/1' },
    })
    expect(answer.status).toBe(200)
    expect(rm.received).toHaveLength(1)
    const [{ url, body: got, headers, method }] = rm.received as [Received]
    expect(method).toBe('POST')
    expect(url).toBe(`/base${path}?a=1&b=%20`)
    expect(got).toEqual(body)
    expect(headers).toMatchObject({
      'content-type': 'application/json',
      'content-length': String(body.length),
      'x-custom': 'kept',
      accept: 'text/event-stream',
      'user-agent': 'trainer/1',
      'x-request-id': answer.headers['x-request-id'],
    })
  })

  it('without headers of the connection, in either direction, and without cookies of a server', async () => {
    const rm = await upstream((res) =>
      json(
        res,
        200,
        {},
        {
          connection: 'close, x-hop',
          'x-hop': 'a',
          'keep-alive': 'timeout=1',
          'proxy-authenticate': 'Basic',
          upgrade: 'h2c',
          'set-cookie': 'rewardops_session=0',
          'clear-site-data': '*',
          'x-stays': 'b',
        },
      ),
    )
    const { bed } = await bedOver([{ url: rm.url }])
    const answer = await raw(
      bed.url,
      'POST /classify HTTP/1.1\r\nhost: localhost\r\nconnection: close, x-mine\r\nx-mine: 1\r\nte: trailers\r\n' +
        'proxy-authorization: Basic x\r\nx-run-id: r\r\ncookie: rewardops_session=1\r\nx-stays: c\r\n' +
        'content-length: 14\r\n\r\n{"model":"rm"}',
    )
    expect(answer).toMatch(/^HTTP\/1\.1 200 /)
    expect(answer).toMatch(/x-stays: b/i)
    expect(answer).not.toMatch(/x-hop|keep-alive|proxy-auth|h2c|set-cookie|clear-site/i)
    const { headers } = rm.received[0] as Received
    expect(headers['x-stays']).toBe('c')
    for (const name of ['x-mine', 'te', 'proxy-authorization', 'x-run-id', 'cookie']) {
      expect(headers[name], name).toBeUndefined()
    }
  })

  it('compressed answers unchanged, with their encoding', async () => {
    const packed = gzipSync('{"usage":{"total_tokens":5}}')
    const { url } = await upstream((res) => {
      res.writeHead(200, { 'content-encoding': 'gzip', 'content-type': 'application/json' })
      res.end(packed)
    })
    const { bed } = await bedOver([{ url }])
    for (const path of ['/classify', '/v1/chat/completions']) {
      const answer = await bed.send(path, { body: chat(), headers: { 'accept-encoding': 'gzip' } })
      expect(answer.headers['content-encoding']).toBe('gzip')
      expect(answer.bytes).toEqual(packed)
    }
  })

  it.each([
    ['gzip', gzipSync],
    ['zstd', zstdCompressSync],
  ] as const)(
    'requests compressed with %s, decompressed, because engines read plain JSON',
    async (name, pack) => {
      const rm = await upstream()
      const { bed } = await bedOver([{ url: rm.url }])
      const text = JSON.stringify({ input: 'x'.repeat(10_000), model: 'rm' })
      const answer = await bed.send('/classify', {
        body: pack(text),
        headers: { 'content-encoding': name },
      })
      expect(answer.status).toBe(200)
      expect(rm.received[0]?.body.toString()).toBe(text)
      expect(rm.received[0]?.headers['content-encoding']).toBeUndefined()
    },
  )

  it('large answers, no faster than the client reads them', async () => {
    const chunk = Buffer.alloc(1 << 20, 'abcdefgh')
    const chunks = 96
    let sent = 0
    const { url } = await upstream((res) => {
      res.writeHead(200, { 'content-type': 'application/json' })
      const more = () => {
        while (sent < chunks) {
          sent++
          if (!res.write(chunk)) {
            res.once('drain', more)
            return
          }
        }
        res.end()
      }
      more()
    })
    const { bed } = await bedOver([{ url }])
    const req = httpRequest(`${bed.url}/v1/embeddings`, { method: 'POST' })
    req.end('{"model":"rm"}')
    const [res] = (await once(req, 'response')) as [IncomingMessage]
    // The client does not read, so the sockets' buffers fill up and the transfer stops.
    let last = -1
    let same = 0
    await waitFor('a server that is blocked', () => {
      same = sent === last ? same + 1 : 0
      last = sent
      return same >= 8
    })
    expect(sent).toBeLessThan(chunks)
    let bytes = 0
    let wrong = 0
    for await (const part of res) {
      const offset = bytes % 8
      if (part[0] !== chunk[offset] || part.at(-1) !== chunk[(offset + part.length - 1) % 8])
        wrong++
      bytes += part.length
    }
    expect({ bytes, wrong }).toEqual({ bytes: chunks << 20, wrong: 0 })
  })

  it('tokens one by one: the next is sent only when the last one arrived', async () => {
    let next: () => void = () => {}
    const { url } = await upstream(async (res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      res.flushHeaders()
      for (let i = 0; i < 20; i++) {
        await new Promise<void>((resolve) => {
          next = resolve
        })
        res.write(`data: {"token":${i}}\n\n`)
      }
      res.end('data: [DONE]\n\n')
    })
    const { bed } = await bedOver([{ url }])
    const req = httpRequest(`${bed.url}/v1/chat/completions`, { method: 'POST' })
    req.end(JSON.stringify(chat({ stream: true })))
    const [res] = (await once(req, 'response')) as [IncomingMessage]
    expect(res.headers['content-type']).toBe('text/event-stream')
    const parts: string[] = []
    res.setEncoding('utf8').on('data', (text: string) => {
      parts.push(text)
      next()
    })
    next()
    await once(res, 'end')
    expect(parts.slice(0, 20)).toEqual(
      Array.from({ length: 20 }, (_, i) => `data: {"token":${i}}\n\n`),
    )
    expect(parts.slice(20).join('')).toBe('data: [DONE]\n\n')
  })

  it('a small answer of a judge in one write, a large one as it arrives, with their token counts', async () => {
    const small = JSON.stringify({ choices: [], usage: { prompt_tokens: 7, total_tokens: 9 } })
    const large = JSON.stringify({ text: 'x'.repeat(200_000), usage: { total_tokens: 1 } })
    const answers = [small, large, small, '{"usage":{"total_tokens":12}}']
    const { url } = await upstream((res) => {
      const text = answers.shift() as string
      res.writeHead(200, { 'content-type': 'application/json' })
      res.write(text.slice(0, 40))
      setImmediate(() => res.end(text.slice(40)))
    })
    const { bed, slots } = await bedOver([{ url }])
    expect((await bed.send('/v1/chat/completions', { body: chat() })).text).toBe(small)
    expect((await bed.send('/v1/chat/completions', { body: chat() })).text).toBe(large)
    expect((await bed.send('/v1/completions', { body: chat() })).text).toBe(small)
    await bed.send('/classify', { body: chat() })
    expect(slots.ends.map(({ end }) => end.tokens)).toEqual([9, undefined, 9, 12])
  })
})

describe('an expired share of a limit', () => {
  async function recallingBed(url: string) {
    const router = createRewardRouter()
    router.setServers([config(1, url)])
    router.setSlots(1, 4)
    const known = [{ id: 1, model: 'rm', engine: 'vllm', state: 'ready' }] as const
    const bed = await startProxy(router, () => known)
    closers.push(
      () => bed.close(),
      () => router.close(),
    )
    const recall = () => {
      router.setSlots(1, 0)
      router.recall(1)
    }
    return { bed, router, recall }
  }

  it('cancels the call upstream, which is repeated with the next slot', async () => {
    let closed = 0
    let isSlow = true
    const rm = await upstream((res) => {
      if (isSlow) res.once('close', () => closed++)
      else json(res, 200, { data: 'second' })
    })
    const { bed, router, recall } = await recallingBed(rm.url)
    const call = bed.send('/classify', { body: chat() })
    await waitFor('a call upstream', () => rm.received.length === 1)
    recall()
    await waitFor('the end of the call upstream', () => closed === 1)
    expect(router.inFlight(1)).toBe(0)
    isSlow = false
    router.setSlots(1, 4)
    const { status, headers } = await call
    expect([status, headers['x-attempts']]).toEqual([200, '1'])
    expect(router.snapshot()[0]).toMatchObject({ inFlight: 0, errors: 0 })
  })

  it('breaks off an answer that has begun', async () => {
    let closed = 0
    const rm = await upstream((res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      res.write('data: 1\n\n')
      res.once('close', () => closed++)
    })
    const { bed, router, recall } = await recallingBed(rm.url)
    const req = httpRequest(`${bed.url}/v1/completions`, { method: 'POST' })
    req.on('error', () => {})
    req.end(JSON.stringify(chat({ stream: true })))
    const [res] = (await once(req, 'response')) as [IncomingMessage]
    res.on('error', () => {})
    await once(res, 'data')
    recall()
    await waitFor('the end of the call upstream', () => closed === 1)
    await waitFor('the end of the answer', () => res.destroyed)
    expect(res.complete).toBe(false)
    expect(router.snapshot()[0]).toMatchObject({ inFlight: 0, errors: 0 })
  })
})

describe('a client that disconnects', () => {
  it('cancels the call upstream and releases its slot', async () => {
    let closed = 0
    const rm = await upstream((res) => res.once('close', () => closed++))
    const { bed, slots } = await bedOver([{ url: rm.url }])
    const gone = new AbortController()
    const call = bed.send('/classify', { body: chat(), signal: gone.signal })
    await waitFor('a call upstream', () => rm.received.length === 1)
    gone.abort()
    await expect(call).rejects.toThrow()
    await waitFor('the end of the call upstream', () => closed === 1)
    expect(slots.ends).toEqual([{ serverId: 1, end: { outcome: 'cancelled' } }])
  })

  it('in the middle of a stream cancels the call too', async () => {
    let closed = 0
    const rm = await upstream((res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      res.write('data: 1\n\n')
      res.once('close', () => closed++)
    })
    const { bed, slots } = await bedOver([{ url: rm.url }])
    const req = httpRequest(`${bed.url}/v1/completions`, { method: 'POST' })
    req.on('error', () => {})
    req.end(JSON.stringify(chat({ stream: true })))
    const [res] = (await once(req, 'response')) as [IncomingMessage]
    res.on('error', () => {})
    await once(res, 'data')
    req.destroy()
    await waitFor('the end of the call upstream', () => closed === 1)
    await waitFor('the slot back', () => slots.ends.length === 1)
    expect(slots.ends[0]?.end.outcome).toBe('cancelled')
  })

  it('while it waits for a slot leaves the queue without a call', async () => {
    const open: ServerResponse[] = []
    const rm = await upstream((res) => open.push(res))
    const { bed, slots } = await bedOver([{ url: rm.url, slots: 1 }])
    const first = bed.send('/classify', { body: chat() })
    await waitFor('a call upstream', () => open.length === 1)
    const gone = new AbortController()
    const second = bed.send('/classify', { body: chat(), signal: gone.signal })
    await waitFor('a waiting call', () => slots.waiting === 1)
    gone.abort()
    await expect(second).rejects.toThrow()
    await waitFor('an empty queue', () => slots.waiting === 0)
    json(open[0] as ServerResponse, 200, {})
    expect((await first).status).toBe(200)
    expect(rm.received).toHaveLength(1)
  })

  it('before its request is complete causes no call', async () => {
    const rm = await upstream()
    const { bed } = await bedOver([{ url: rm.url }])
    const { hostname, port } = new URL(bed.url)
    const socket = connect(Number(port), hostname)
    socket.write(
      'POST /classify HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{"model"',
    )
    await waitFor('a request under way', () => bed.proxy.counts().requests === 1)
    socket.destroy()
    await waitFor('no open request', () => bed.proxy.counts().requests === 0)
    expect(rm.received).toHaveLength(0)
  })
})

describe('retries', () => {
  it.each([500, 502, 504, 503, 429, 408, 424])('%i: retried on another server', async (status) => {
    const bad = await upstream((res) =>
      json(res, status, { error: { message: 'no' } }, { 'retry-after': '7' }),
    )
    const good = await upstream((res, { body }) => res.end(body))
    const { bed, slots } = await bedOver([{ url: bad.url }, { url: good.url }])
    const answer = await bed.send('/classify', { body: chat({ id: 7 }) })
    expect(answer.status).toBe(200)
    expect(answer.json).toEqual(chat({ id: 7 }))
    expect(answer.headers).toMatchObject({ 'x-worker': 'rm-2', 'x-attempts': '2' })
    expect(slots.requests[1]?.avoid).toEqual([1])
    const busy = status === 429 || status === 503
    expect(slots.ends).toMatchObject([
      { serverId: 1, end: busy ? { outcome: 'busy', retryAfterMs: 7_000 } : { outcome: 'fault' } },
      { serverId: 2, end: { outcome: 'ok' } },
    ])
  })

  it('a server that is down or hangs up without an answer is replaced by another', async () => {
    const dead = await upstream()
    await dead.close()
    const rude = await upstream((_, __, req) => req.socket.destroy())
    const good = await upstream()
    const { bed, slots } = await bedOver([{ url: dead.url }, { url: rude.url }, { url: good.url }])
    const answer = await bed.send('/classify', { body: chat() })
    expect(answer.status).toBe(200)
    expect(answer.headers['x-attempts']).toBe('3')
    expect(slots.ends.map(({ end }) => end.outcome)).toEqual(['fault', 'fault', 'ok'])
  })

  it('a call whose reused connection closes before the first byte is repeated once, uncounted', async () => {
    const seen = new WeakMap<object, number>()
    const rm = await upstream((res, _, { socket }) => {
      const calls = (seen.get(socket) ?? 0) + 1
      seen.set(socket, calls)
      if (calls === 2) socket.destroy()
      else json(res, 200, {})
    })
    const { bed, slots } = await bedOver([{ url: rm.url }])
    expect((await bed.send('/classify', { body: chat() })).status).toBe(200)
    const second = await bed.send('/classify', { body: chat() })
    expect(second.status).toBe(200)
    expect(second.headers['x-attempts']).toBe('1')
    expect(slots.ends.map(({ end }) => end.outcome)).toEqual(['ok', 'conn_race', 'ok'])
    expect(rm.received).toHaveLength(3)
  })

  it('at most three calls; then 503 with the last status and message, without the key', async () => {
    const apiKey = 'sk-of-the-server'
    const rm = await upstream((res) =>
      json(res, 500, { error: { message: `engine died, key ${apiKey}` } }),
    )
    const { bed } = await bedOver([{ url: rm.url, apiKey }])
    const answer = await bed.send('/v1/chat/completions', { body: chat() })
    expect(rm.received).toHaveLength(3)
    expect(answer.status).toBe(503)
    expect(answer.error).toMatchObject({
      type: 'server_error',
      code: 'upstream_failed',
      reason: 'upstream_failed',
      requestId: answer.headers['x-request-id'],
    })
    expect(answer.error.message).toMatch(/3 calls.*"rm-1".*500.*engine died, key \*\*\*/)
    expect(answer.headers).toMatchObject({
      'x-upstream-status': '500',
      'x-attempts': '3',
      'retry-after': '1',
    })
    expect(answer.text).not.toContain(apiKey)
  })

  it('a busy pool: 503 with the server’s Retry-After', async () => {
    const rm = await upstream((res) => json(res, 429, { error: 'later' }, { 'retry-after': '9' }))
    const { bed } = await bedOver([{ url: rm.url }])
    const answer = await bed.send('/classify', { body: chat() })
    expect(answer.status).toBe(503)
    expect(answer.headers).toMatchObject({ 'retry-after': '9', 'x-upstream-status': '429' })
  })

  it('a 4xx never becomes a 500: a persistent 408 or 424 is passed on', async () => {
    const rm = await upstream((res) => json(res, 424, { error: 'the backend failed' }))
    const { bed, slots } = await bedOver([{ url: rm.url, engine: 'tei' }])
    const answer = await bed.send('/predict', { body: { inputs: 'x' } })
    expect(answer.status).toBe(424)
    expect(answer.json).toEqual({ error: 'the backend failed' })
    expect(slots.ends.map(({ end }) => end.outcome)).toEqual(['fault', 'fault', 'fault'])
  })

  it('an endless error body is not read to its end', async () => {
    const endless = await upstream((res) => {
      res.writeHead(500)
      const more = () => {
        while (!res.destroyed && res.write(Buffer.alloc(64 << 10, 'x')));
        res.once('drain', more)
      }
      more()
    })
    const good = await upstream()
    const { bed } = await bedOver([{ url: endless.url }, { url: good.url }])
    expect((await bed.send('/classify', { body: chat() })).headers['x-worker']).toBe('rm-2')
    await waitFor('the end of the call upstream', () => endless.open === 0)
  })

  it('the 200 of a server put to sleep during its answer is not passed on', async () => {
    const asleep = await upstream((res) =>
      json(res, 200, { choices: [{ text: 'half', finish_reason: 'abort' }] }),
    )
    const good = await upstream((res) =>
      json(res, 200, { choices: [{ text: '"finish_reason":"abort"', finish_reason: 'stop' }] }),
    )
    const { bed, slots } = await bedOver([{ url: asleep.url }, { url: good.url }])
    const answer = await bed.send('/v1/chat/completions', { body: chat() })
    expect(answer.json).toMatchObject({ choices: [{ finish_reason: 'stop' }] })
    expect(answer.headers['x-attempts']).toBe('2')
    expect(slots.ends[0]?.end).toMatchObject({ outcome: 'fault' })
    const streamed = await bed.send('/v1/chat/completions', { body: chat({ stream: true }) })
    expect(streamed.text).toContain('"abort"')
    const alone = await bedOver([{ url: asleep.url }])
    const refused = await alone.bed.send('/v1/chat/completions', { body: chat() })
    expect(refused).toMatchObject({ status: 503, error: { reason: 'upstream_failed' } })
  })

  it('a redirect is never followed', async () => {
    const elsewhere = await upstream()
    const rm = await upstream((res) => {
      res.writeHead(307, { location: `${elsewhere.url}/classify` })
      res.end()
    })
    const { bed, slots } = await bedOver([{ url: rm.url }, { url: elsewhere.url }])
    const answer = await bed.send('/classify', { body: chat() })
    expect(answer).toMatchObject({ status: 502, error: { reason: 'upstream_redirects' } })
    expect(elsewhere.received).toHaveLength(0)
    expect(slots.ends).toMatchObject([{ end: { outcome: 'corrupt' } }])
  })
})

describe('an answer that breaks off', () => {
  const heads: [what: string, head: Record<string, string>, version: string][] = [
    ['of a known length', { 'content-length': '1000' }, '1.1'],
    ['in chunks', {}, '1.1'],
    ['to a client that does not support chunks', {}, '1.0'],
  ]
  it.each(heads)('%s: the client notices it', async (_, head, version) => {
    let broken: () => void = () => {}
    const rm = await upstream((res) => {
      res.writeHead(200, head)
      res.write('half')
      broken = () => res.socket?.resetAndDestroy()
    })
    const { bed, slots } = await bedOver([{ url: rm.url }])
    const { hostname, port } = new URL(bed.url)
    const socket = connect(Number(port), hostname)
    let got = ''
    let error: Error | null = null
    socket.on('error', (e) => {
      error = e
    })
    socket.setEncoding('utf8').on('data', (text: string) => {
      got += text
      if (got.includes('half')) broken()
    })
    socket.write(
      `POST /classify HTTP/${version}\r\nhost: localhost\r\ncontent-length: 14\r\n\r\n{"model":"rm"}`,
    )
    await new Promise((resolve) => socket.once('close', resolve))
    expect(got).toContain('half')
    if (version === '1.0') expect(error).toMatchObject({ code: 'ECONNRESET' })
    else expect(got).not.toMatch(/\r\n0\r\n/)
    await waitFor('the slot back', () => slots.ends.length === 1)
    expect(slots.ends[0]?.end.outcome).toBe('fault')
    expect(rm.received).toHaveLength(1)
  })
})

describe('headers', () => {
  it('set the options of the request to the router', async () => {
    const rm = await upstream()
    const { bed, slots } = await bedOver([{ url: rm.url }])
    const send = (headers: Record<string, string>, fields = {}) =>
      bed.send('/v1/chat/completions', { body: chat(fields), headers })
    await send({})
    expect(slots.requests.at(-1)).toMatchObject({ model: 'rm', run: 'proxy' })
    expect(slots.requests.at(-1)).not.toHaveProperty('deadlineMs')
    expect(slots.requests.at(-1)?.tokens).toBeGreaterThan(256)
    await send({}, { max_tokens: 10 })
    expect(slots.requests.at(-1)?.tokens).toBeLessThan(40)
    await send({ 'x-group-id': 'q-17', 'x-run-id': 'gsm8k', 'x-route-policy': 'round_robin' })
    expect(slots.requests.at(-1)).toMatchObject({
      group: 'q-17',
      run: 'gsm8k',
      policy: 'round_robin',
    })
    await send({ 'x-priority': 'high', 'x-deadline-ms': '30000' })
    const last = slots.requests.at(-1)
    expect(last?.urgent).toBe(true)
    expect(last?.deadlineMs).toBeGreaterThan(20_000)
    expect(last?.deadlineMs).toBeLessThanOrEqual(30_000)
    const sentMs = Number(rm.received.at(-1)?.headers['x-deadline-ms'])
    expect(sentMs).toBeGreaterThan(20_000)
    expect(sentMs).toBeLessThanOrEqual(30_000)
    await send({ 'x-priority': 'normal' })
    expect(slots.requests.at(-1)).not.toHaveProperty('urgent')
    await send({ 'x-priority': 'low', 'x-deadline-ms': '99999999' })
    expect(slots.requests.at(-1)?.priority).toBeLessThan(0)
    expect(slots.requests.at(-1)?.deadlineMs).toBeLessThanOrEqual(600_000)
    await send({ 'x-priority': '-3.5' })
    expect(slots.requests.at(-1)?.priority).toBe(-3.5)
    const [a, b, c] = slots.requests
    expect(a?.key).toBe(slots.requests[2]?.key)
    expect(a?.key).not.toBe(b?.key)
    expect(c?.key).toBe(a?.key)
  })

  it.each([
    ['x-priority', 'urgent', /high, normal, low/],
    ['x-deadline-ms', '0', /above 0/],
    ['x-deadline-ms', 'soon', /above 0/],
    ['x-route-policy', 'best', /least_work, .*round_robin/],
    ['x-group-id', 'g'.repeat(300), /256/],
  ])('%s: %s is refused, and the message names the header', async (header, value, message) => {
    const rm = await upstream()
    const { bed } = await bedOver([{ url: rm.url }])
    const answer = await bed.send('/classify', { body: chat(), headers: { [header]: value } })
    expect(answer).toMatchObject({ status: 400, error: { reason: 'invalid_input' } })
    expect(answer.error.message).toContain(header)
    expect(answer.error.message).toMatch(message)
    expect(rm.received).toHaveLength(0)
  })

  it('x-request-id is passed on and returned', async () => {
    const rm = await upstream((res) => json(res, 200, {}, { 'x-request-id': 'of the server' }))
    const { bed } = await bedOver([{ url: rm.url }])
    const answer = await bed.send('/classify', {
      body: chat(),
      headers: { 'x-request-id': 'run-7.3' },
    })
    expect(answer.headers['x-request-id']).toBe('run-7.3')
    expect(rm.received[0]?.headers['x-request-id']).toBe('run-7.3')
  })

  it('a server name that no header can hold is URI-encoded', async () => {
    const rm = await upstream()
    const { bed } = await bedOver([{ url: rm.url, name: 'judge № 1\n' }])
    const answer = await bed.send('/classify', { body: chat() })
    expect(decodeURIComponent(String(answer.headers['x-worker']))).toBe('judge № 1\n')
  })
})

describe('time limits', () => {
  it('a deadline ends the call upstream: 504', async () => {
    let closed = 0
    const rm = await upstream((res) => res.once('close', () => closed++))
    const { bed, slots } = await bedOver([{ url: rm.url }])
    const answer = await bed.send('/classify', { body: chat(), headers: { 'x-deadline-ms': '50' } })
    expect(answer).toMatchObject({ status: 504, error: { reason: 'deadline' } })
    await waitFor('the end of the call upstream', () => closed === 1)
    expect(slots.ends).toEqual([{ serverId: 1, end: { outcome: 'cancelled' } }])
  })

  it('a deadline ends the wait for a slot: 504', async () => {
    const open: ServerResponse[] = []
    const rm = await upstream((res) => open.push(res))
    const { bed } = await bedOver([{ url: rm.url, slots: 1 }])
    const first = bed.send('/classify', { body: chat() })
    await waitFor('a call upstream', () => open.length === 1)
    const late = await bed.send('/classify', { body: chat(), headers: { 'x-deadline-ms': '50' } })
    expect(late).toMatchObject({ status: 504, error: { reason: 'deadline' } })
    json(open[0] as ServerResponse, 200, {})
    await first
    expect(rm.received).toHaveLength(1)
  })

  it('a deadline does not cut an answer that has begun', async () => {
    let end: () => void = () => {}
    const { url } = await upstream((res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      res.write('data: 1\n\n')
      end = () => res.end('data: 2\n\n')
    })
    const { bed } = await bedOver([{ url }])
    const req = httpRequest(`${bed.url}/v1/completions`, {
      method: 'POST',
      headers: { 'x-deadline-ms': '1500' },
    })
    const sentAt = performance.now()
    req.end(JSON.stringify(chat({ stream: true })))
    const [res] = (await once(req, 'response')) as [IncomingMessage]
    let text = ''
    res.setEncoding('utf8').on('data', (part: string) => {
      text += part
    })
    await waitFor('the deadline to have passed', () => performance.now() - sentAt > 1_550)
    end()
    await once(res, 'end')
    expect(text).toBe('data: 1\n\ndata: 2\n\n')
  })

  it('a full queue refuses requests: 429', async () => {
    const open: ServerResponse[] = []
    const rm = await upstream((res) => open.push(res))
    const { bed, slots } = await bedOver([{ url: rm.url, slots: 1 }])
    slots.queueRows = 0
    const first = bed.send('/classify', { body: chat() })
    await waitFor('a call upstream', () => open.length === 1)
    const refused = await bed.send('/classify', { body: chat() })
    expect(refused).toMatchObject({
      status: 429,
      error: { reason: 'queue_full', type: 'rate_limit_error' },
      headers: { 'retry-after': '3' },
    })
    json(open[0] as ServerResponse, 200, {})
    await first
  })
})

describe('servers that cannot be used', () => {
  it('none is ready: 503', async () => {
    const rm = await upstream()
    const { bed } = await bedOver([{ url: rm.url, state: 'unreachable' }])
    const answer = await bed.send('/classify', { body: chat() })
    expect(answer).toMatchObject({
      status: 503,
      error: { reason: 'no_server' },
      headers: { 'retry-after': '2' },
    })
  })

  it('none is ready and one sleeps: 503, Retry-After 10 s, and one wake request', async () => {
    const rm = await upstream()
    const woken: string[] = []
    const { bed, slots } = await bedOver(
      [
        { url: rm.url, state: 'sleeping' },
        { url: rm.url, state: 'unreachable' },
      ],
      { onAsleep: (model) => woken.push(model) },
    )
    const answers = await Promise.all(
      ['', '', '60000'].map((deadline) =>
        bed.send('/classify', {
          body: chat(),
          ...(deadline && { headers: { 'x-deadline-ms': deadline } }),
        }),
      ),
    )
    for (const answer of answers) {
      expect(answer).toMatchObject({
        status: 503,
        error: { reason: 'model_asleep', param: 'model' },
        headers: { 'retry-after': '10' },
      })
    }
    expect(woken).toEqual(['rm'])
    ;(slots.servers[0] as SlotServer).state = 'ready'
    expect((await bed.send('/classify', { body: chat() })).status).toBe(200)
  })
})

describe('the model', () => {
  it('is named by the body, otherwise by the header, otherwise it is the only registered one', async () => {
    const [a, b] = await Promise.all([upstream(), upstream()])
    const { bed, slots } = await bedOver([
      { url: a.url, model: 'a', engine: 'sglang' },
      { url: b.url, model: 'b/7b', engine: 'sglang' },
    ])
    const send = (body: object, headers = {}) => bed.send('/classify', { body, headers })
    expect((await send({ model: 'b/7b' })).headers['x-worker']).toBe('rm-2')
    expect((await send({ text: 'x' }, { 'x-model': 'b/7b' })).headers['x-worker']).toBe('rm-2')
    expect((await send({ model: 'a' }, { 'x-model': 'b/7b' })).headers['x-worker']).toBe('rm-1')
    const unnamed = await send({ text: 'x' })
    expect(unnamed).toMatchObject({
      status: 400,
      error: { reason: 'model_not_named', param: 'model', type: 'invalid_request_error' },
    })
    expect(unnamed.error.message).toContain('a, b/7b')
    expect(unnamed.error.hint).toContain('x-model')
    for (const body of ['', 'a', '[']) {
      expect(await bed.send('/classify', { body }), body).toMatchObject({
        status: 400,
        error: { reason: 'malformed_json' },
      })
    }
    slots.servers.pop()
    expect((await send({ text: 'x' })).headers['x-worker']).toBe('rm-1')
    expect((await bed.send('/classify', { body: 'not JSON' })).status).toBe(200)
  })

  it('that is not registered: 404 in OpenAI’s shape, after a reload of the registry', async () => {
    const rm = await upstream()
    let reloads = 0
    const { bed, slots } = await bedOver([{ url: rm.url }], {
      refresh: async () => {
        reloads++
        if (reloads === 2) slots.servers.push({ id: 9, name: 'new', url: rm.url, model: 'new' })
      },
    })
    const unknown = await bed.send('/v1/embeddings', { body: { model: 'none' } })
    expect(unknown.status).toBe(404)
    expect(unknown.json).toEqual({
      error: {
        message: 'The model "none" is not registered. Registered: rm.',
        type: 'invalid_request_error',
        param: 'model',
        code: 'model_not_found',
        reason: 'model_not_found',
        hint: expect.stringContaining('/v1/models'),
        requestId: unknown.headers['x-request-id'],
      },
    })
    expect((await bed.send('/classify', { body: { model: 'new' } })).status).toBe(200)
    expect(reloads).toBe(2)
    expect(rm.received).toHaveLength(1)
  })

  it('whose server was replaced by one of another engine is served at once, and only if it has the path', async () => {
    const rm = await upstream()
    let reloads = 0
    const { bed, slots } = await bedOver([{ url: rm.url, engine: 'sglang' }], {
      refresh: async () => {
        reloads++
        if (reloads === 2) {
          const { model } = slots.servers[0]!
          slots.servers.splice(0, 1, { id: 9, name: 'rm-9', url: rm.url, model, engine: 'tei' })
        }
      },
    })
    const predict = () => bed.send('/predict', { body: { inputs: 'x' } })
    expect(await predict()).toMatchObject({ status: 404, error: { reason: 'path_not_served' } })
    expect(await predict()).toMatchObject({ status: 200, headers: { 'x-worker': 'rm-9' } })
    expect(reloads).toBe(2)
  })

  it('that is not in memory: 503 while the registry cannot be read, also for the list of models', async () => {
    const { bed } = await bedOver([], {
      refresh: async () => {
        throw new RewardOpsError('database_unavailable', 'The database is not answering.', {
          retryAfterMs: 1_000,
        })
      },
    })
    const refused = {
      status: 503,
      json: { error: { code: 'database_unavailable' } },
      headers: { 'retry-after': '1' },
    }
    expect(await bed.send('/classify', { body: { model: 'a' } })).toMatchObject(refused)
    expect(await bed.send('/classify', { body: { text: 'x' } })).toMatchObject(refused)
    expect(await bed.send('/v1/models', { method: 'GET' })).toMatchObject(refused)
  })

  it('is listed by GET /v1/models', async () => {
    const { bed } = await bedOver([
      { url: 'http://127.0.0.1:1', model: 'a' },
      { url: 'http://127.0.0.1:1', model: 'a' },
      { url: 'http://127.0.0.1:1', model: 'b', state: 'sleeping' },
    ])
    const { status, json: list } = await bed.send('/v1/models', { method: 'GET' })
    expect(status).toBe(200)
    const created = expect.any(Number)
    const model = { object: 'model', created, owned_by: 'rewardops', kind: 'discriminative' }
    expect(list).toEqual({
      object: 'list',
      data: [
        { id: 'a', servers: 2, ...model },
        { id: 'b', servers: 1, ...model },
      ],
    })
    const posted = await bed.send('/v1/models', { body: {} })
    expect(posted).toMatchObject({ status: 405, headers: { allow: 'GET' } })
    const got = await bed.send('/classify', { method: 'GET' })
    expect(got).toMatchObject({ status: 405, headers: { allow: 'POST' } })
    expect((await bed.send('/v1/nothing', { body: {} })).status).not.toBe(200)
  })
})

describe('the path', () => {
  it('is requested only from servers whose engine has it', async () => {
    const vllm = await upstream()
    const sglang = await upstream()
    const { bed, slots } = await bedOver([
      { url: sglang.url, engine: 'sglang' },
      { url: vllm.url, engine: 'vllm', slots: 1 },
    ])
    for (let i = 0; i < 3; i++) {
      expect((await bed.send('/pooling', { body: chat() })).headers['x-worker']).toBe('rm-2')
      expect((await bed.send('/generate', { body: chat() })).headers['x-worker']).toBe('rm-1')
    }
    expect(vllm.received).toHaveLength(3)
    expect(slots.requests.at(-2)?.exclude).toEqual([1])
    expect(slots.requests.at(-2)?.avoid).toBeUndefined()
    expect(slots.ends.every(({ end }) => end.outcome === 'ok')).toBe(true)
  })

  it('is retried neither on the server that failed nor on one that lacks it', async () => {
    const bad = await upstream((res) => json(res, 500, {}))
    const tei = await upstream()
    const good = await upstream()
    const { bed, slots } = await bedOver([
      { url: bad.url },
      { url: tei.url, engine: 'tei' },
      { url: good.url },
    ])
    const { headers } = await bed.send('/classify', { body: chat() })
    expect(headers).toMatchObject({ 'x-worker': 'rm-3', 'x-attempts': '2' })
    expect(slots.requests[1]).toMatchObject({ avoid: [1], exclude: [2] })
  })

  it('makes a request wait for a busy server that has it, even if a server without it is free', async () => {
    const open: ServerResponse[] = []
    const vllm = await upstream((res) => open.push(res))
    const sglang = await upstream()
    const { bed } = await bedOver([
      { url: vllm.url, engine: 'vllm', slots: 1 },
      { url: sglang.url, engine: 'sglang' },
    ])
    const first = bed.send('/pooling', { body: chat() })
    await waitFor('a call upstream', () => open.length === 1)
    const second = bed.send('/pooling', { body: chat() })
    await waitFor('a second request', () => bed.proxy.counts().requests === 2)
    json(open[0] as ServerResponse, 200, {})
    await waitFor('the second call', () => open.length === 2)
    json(open[1] as ServerResponse, 200, {})
    expect((await first).status).toBe(200)
    expect((await second).headers['x-worker']).toBe('rm-1')
    expect(sglang.received).toHaveLength(0)
  })

  it('makes no first call a retry: calls are limited only by the slots of the servers that have it', async () => {
    const open: ServerResponse[] = []
    const vllm = await upstream((res) => open.push(res))
    const sglang = await upstream()
    const router = createRewardRouter()
    router.setServers([config(1, sglang.url, { engine: 'sglang' }), config(2, vllm.url)])
    for (const id of [1, 2]) router.setSlots(id, 64)
    const bed = await startProxy(router, () => [
      { id: 1, model: 'rm', engine: 'sglang', state: 'ready' },
      { id: 2, model: 'rm', engine: 'vllm', state: 'ready' },
    ])
    closers.push(
      () => bed.close(),
      () => router.close(),
    )
    const calls = Array.from({ length: 8 }, () => bed.send('/pooling', { body: chat() }))
    await waitFor('all calls upstream', () => open.length === 8, 5_000)
    for (const res of open) json(res, 200, {})
    for (const { status } of await Promise.all(calls)) expect(status).toBe(200)
    expect(sglang.received).toHaveLength(0)
  })

  it.each([
    ['/pooling', 'sglang', /vllm/],
    ['/predict', 'vllm', /tei/],
    ['/classify', 'openrlhf', /vllm, sglang/],
    ['/v1/chat/completions', 'http', /vllm.*openai/],
  ] as const)(
    '%s on %s is not served: 404 that names the engines',
    async (path, engine, others) => {
      const rm = await upstream()
      const { bed } = await bedOver([
        { url: rm.url, engine },
        { url: rm.url, engine, state: 'unreachable' },
      ])
      const answer = await bed.send(path, { body: chat() })
      expect(answer).toMatchObject({ status: 404, error: { reason: 'path_not_served' } })
      expect(answer.error.message).toContain(engine)
      expect(answer.error.message).toContain(path)
      expect(answer.error.message).toMatch(others)
      expect(rm.received).toHaveLength(0)
    },
  )
})

describe('keys', () => {
  it('the caller’s key never reaches a server, and the server’s key never reaches a caller', async () => {
    const rm = await upstream()
    const apiKey = 'sk-of-the-server'
    const { bed } = await bedOver([{ url: rm.url, apiKey }, { url: rm.url }], {
      keys: ['caller-key-1'],
    })
    const without: Record<string, string>[] = [
      {},
      { authorization: 'Bearer wrong' },
      { 'x-api-key': 'caller-key-1' },
    ]
    for (const headers of without) {
      const refused = await bed.send('/classify', { body: chat(), headers })
      expect(refused).toMatchObject({
        status: 401,
        error: { reason: 'unauthorized', type: 'authentication_error' },
      })
    }
    expect((await bed.send('/v1/models', { method: 'GET' })).status).toBe(401)
    expect(rm.received).toHaveLength(0)
    const headers = {
      authorization: 'Bearer caller-key-1',
      'x-api-key': 'caller-key-1',
      'api-key': 'caller-key-1',
      cookie: 'a=caller-key-1',
    }
    const answer = await bed.send('/classify', { body: chat(), headers })
    expect(answer.status).toBe(200)
    const got = rm.received[0] as Received
    expect(got.headers.authorization).toBe(`Bearer ${apiKey}`)
    expect(JSON.stringify(got.headers)).not.toContain('caller-key-1')
    expect(JSON.stringify(answer.headers) + answer.text).not.toContain(apiKey)
  })

  it('without a registered key the server gets none, even if the caller sends one', async () => {
    const rm = await upstream()
    const { bed } = await bedOver([{ url: rm.url }])
    await bed.send('/classify', { body: chat(), headers: { authorization: 'Bearer sk-openai' } })
    expect(rm.received[0]?.headers.authorization).toBeUndefined()
  })

  it('without keys only this machine is allowed, under its own names', async () => {
    const rm = await upstream()
    const { bed } = await bedOver([{ url: rm.url }])
    const elsewhere: Record<string, string>[] = [
      { host: 'evil.example' },
      { origin: 'http://evil.example' },
    ]
    for (const headers of elsewhere) {
      const answer = await bed.send('/classify', { body: chat(), headers })
      expect(answer).toMatchObject({ status: 403, error: { type: 'permission_error' } })
    }
    expect(rm.received).toHaveLength(0)
  })
})

describe('bodies', () => {
  it('that cannot be decompressed, or are too large, are refused', async () => {
    const rm = await upstream()
    const { bed } = await bedOver([{ url: rm.url }])
    const send = (body: Buffer, encoding?: string) =>
      bed.send('/classify', {
        body,
        ...(encoding && { headers: { 'content-encoding': encoding } }),
      })
    expect(await send(Buffer.from('no gzip'), 'gzip')).toMatchObject({
      status: 400,
      error: { reason: 'bad_encoding' },
    })
    expect(await send(Buffer.from('{}'), 'br')).toMatchObject({
      status: 415,
      error: { reason: 'unsupported_encoding' },
    })
    const tooMuch = Buffer.alloc(MAX_PROXIED_BYTES + 1, 'x')
    expect(await send(tooMuch)).toMatchObject({ status: 413, error: { reason: 'body_too_large' } })
    expect(await send(gzipSync(tooMuch), 'gzip')).toMatchObject({ status: 413 })
    expect(rm.received).toHaveLength(0)
    const frame = '{"input":"","model":"rm"}'
    const body = frame.replace('""', `"${'x'.repeat(MAX_PROXIED_BYTES - frame.length)}"`)
    const req = httpRequest(`${bed.url}/classify`, { method: 'POST' })
    req.end(body)
    const [res] = (await once(req, 'response')) as [IncomingMessage]
    res.resume()
    expect(res.statusCode).toBe(200)
    expect(rm.received[0]?.body.length).toBe(MAX_PROXIED_BYTES)
  })
})

describe('a service that stops', () => {
  it('refuses new requests and finishes running ones', async () => {
    const open: ServerResponse[] = []
    const rm = await upstream((res) => open.push(res))
    const { bed } = await bedOver([{ url: rm.url }])
    const first = bed.send('/classify', { body: chat() })
    await waitFor('a call upstream', () => open.length === 1)
    bed.routes.stopping = true
    expect(await bed.send('/classify', { body: chat() })).toMatchObject({
      status: 503,
      error: { reason: 'shutting_down' },
      headers: { 'retry-after': '2' },
    })
    const closed = bed.proxy.close(60_000)
    json(open[0] as ServerResponse, 200, { done: true })
    expect((await first).json).toEqual({ done: true })
    await closed
    expect(bed.proxy.counts()).toEqual({ requests: 0, calls: 0, connections: 0 })
  })

  it('cuts off requests that do not finish', async () => {
    const rm = await upstream(() => {})
    const { bed } = await bedOver([{ url: rm.url }])
    const first = bed.send('/classify', { body: chat() })
    const failed = expect(first).rejects.toThrow()
    await waitFor('a call upstream', () => rm.received.length === 1)
    await bed.proxy.close(1)
    await failed
    await waitFor('the end of the call upstream', () => rm.open === 0)
  })
})

async function raw(url: string, text: string): Promise<string> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.write(text)
  let got = ''
  socket.setEncoding('utf8').on('data', (part: string) => {
    got += part
  })
  await once(socket, 'end')
  return got
}
