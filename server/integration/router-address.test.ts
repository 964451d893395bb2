import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type ApiInputs, type RawAnswer, rawRequest } from '../../testkit/processes/trpc-call.ts'
import { Service } from '../../testkit/service/service.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import type { ServerOptionsInput } from '../../testkit/simulated-rm/options.ts'
import { SimulatedServer } from '../../testkit/simulated-rm/server.ts'

const KEY = 'pT4wZ81mQx7RkV0s9LcB'
const SERVER_KEY = 'sk-registered-with-the-server'

let open: Service
let keyed: Service
let running: Service[] = []
let servers: SimulatedServer[] = []

beforeAll(async () => {
  const none = { REWARDOPS_WORKERS: '0' }
  ;[open, keyed] = await Promise.all([
    Service.start({ env: none }),
    Service.start({
      env: { ...none, REWARDOPS_API_KEYS: KEY },
      headers: { authorization: `Bearer ${KEY}` },
    }),
  ])
  running = [open, keyed]
})
afterEach(async () => {
  for (const service of running) {
    for (const { name } of await service.api.servers.list.query()) {
      await service.api.servers.remove.mutate({ name })
    }
    // The router learns of a removal by a notification, which may be late. `/v1/models` reloads the servers, so that no
    // request of the next test goes to a removed server.
    expect((await service.raw('/v1/models')).json).toMatchObject({ data: [] })
  }
  await Promise.all(servers.map((server) => server.close()))
  servers = []
})
afterAll(async () => {
  const problems = [open, keyed].map((service) => service?.log.problems())
  await Promise.all(running.map((service) => service.stop()))
  await Promise.all([open?.destroy(), keyed?.destroy()])
  expect(problems).toEqual([[], []])
})

async function simulated(
  service: Service,
  name: string,
  options: ServerOptionsInput = {},
  fields: Partial<ApiInputs['servers']['register']> = {},
): Promise<SimulatedServer> {
  const server = await SimulatedServer.start(options)
  servers.push(server)
  const registered = await service.api.servers.register.mutate({ name, url: server.url, ...fields })
  expect(registered).toMatchObject({ state: 'ready' })
  server.control({ resetStats: true })
  return server
}

const headers = { 'content-type': 'application/json' }
const send = (service: Service, path: string, body: object, more: Record<string, string> = {}) =>
  service.raw(path, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { ...headers, ...more },
  })
const direct = (server: SimulatedServer, path: string, body: object) =>
  rawRequest(`${server.url}${path}`, { method: 'POST', body: JSON.stringify(body), headers })
const reasonOf = ({ json }: RawAnswer) => (json as { error?: { reason?: string } }).error?.reason

const judge = { dialect: 'vllm', serves: 'generate', model: 'judge' } as const
const chat = (fields: object = {}) => ({
  model: 'judge',
  messages: [{ role: 'user', content: 'Rate: 2 + 2 = 4.' }],
  ...fields,
})

describe('each engine answers on its own paths, like the engine itself', () => {
  const requests: [string, ServerOptionsInput, string, object][] = [
    ['vLLM', {}, '/classify', { model: 'simulated-rm', input: 'a text', use_activation: false }],
    ['vLLM tokens', { serves: 'token' }, '/pooling', { model: 'simulated-rm', input: 'a b' }],
    ['SGLang', { dialect: 'sglang' }, '/classify', { text: 'a text' }],
    ['SGLang', { dialect: 'sglang' }, '/v1/embeddings', { model: 'simulated-rm', input: 'a' }],
    ['TEI', { dialect: 'tei' }, '/predict', { inputs: 'a text', raw_scores: true }],
    ['llama.cpp', { dialect: 'llamacpp' }, '/v1/rerank', { query: 'q', documents: ['a', 'b'] }],
    ['a judge', judge, '/v1/chat/completions', chat()],
  ]
  it.each(requests)('%s', async (_, options, path, body) => {
    const generative = 'serves' in options && options.serves === 'generate'
    const rm = await simulated(open, 'rm', options, generative ? { kind: 'generative' } : {})
    const [ours, its] = await Promise.all([send(open, path, body), direct(rm, path, body)])
    expect(its.status).toBe(200)
    expect(ours.status).toBe(200)
    expect(likeOf(ours.json)).toEqual(likeOf(its.json))
    expect(ours.headers).toMatchObject({
      'content-type': its.headers['content-type'],
      'x-worker': 'rm',
      'x-attempts': '1',
    })
    const wrong = { model: 'simulated-rm', nonsense: true }
    if (generative) Object.assign(wrong, { model: 'judge' })
    const [refused, itself] = [await send(open, path, wrong), await direct(rm, path, wrong)]
    expect(refused.status).toBe(itself.status)
    expect(refused.status).toBeGreaterThanOrEqual(400)
    expect(refused.status).toBeLessThan(500)
    expect(likeOf(refused.json)).toEqual(likeOf(itself.json))
  })
})

describe('a pool', () => {
  it('answers as soon as its server is registered, and is listed', async () => {
    await simulated(open, 'a', { model: 'first' })
    expect((await send(open, '/classify', { model: 'first', input: 'x' })).status).toBe(200)
    await simulated(open, 'b', { model: 'second' })
    const { json } = await open.raw('/v1/models')
    expect(json).toMatchObject({ object: 'list', data: [{ id: 'first' }, { id: 'second' }] })
    const unknown = await send(open, '/classify', { model: 'third', input: 'x' })
    expect(unknown).toMatchObject({ status: 404 })
    expect(reasonOf(unknown)).toBe('model_not_found')
  })

  it('continues when a server dies, and skips one that drains', async () => {
    const dying = await simulated(open, 'dying')
    dying.control({ latency: 'constant:200' })
    const steady = await simulated(open, 'steady')
    const call = (i: number) =>
      send(open, '/classify', { model: 'simulated-rm', input: `text ${i}` })
    const answers = Array.from({ length: 24 }, (_, i) => call(i))
    // The router may not know one of the servers yet. Until it does, the other server answers all calls.
    await waitFor('calls in flight', () => {
      answers.push(call(answers.length))
      return dying.stats().inFlight > 0
    })
    await dying.die()
    const workers = (await Promise.all(answers)).map((answer) => {
      expect(answer.status, answer.text).toBe(200)
      return answer.headers['x-worker']
    })
    expect(workers).toContain('steady')
    await open.api.servers.drain.mutate({ name: 'steady' })
    const ask = () =>
      send(open, '/classify', { model: 'simulated-rm', input: 'x' }, { 'x-deadline-ms': '500' })
    await waitFor('the effect of the drain', async () => (await ask()).status !== 200)
    steady.control({ resetStats: true })
    expect([503, 504]).toContain((await ask()).status)
    expect(steady.stats().textsTotal).toBe(0)
  })

  it('never exceeds the servers’ limits, and returns leases', async () => {
    const rm = await simulated(open, 'rm', { latency: 'constant:20' }, { maxInFlight: 2 })
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, i) =>
        send(open, '/classify', { model: 'simulated-rm', input: `text ${i}` }),
      ),
    )
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200))
    expect(rm.stats().maxInFlight).toBe(2)
    expect(answers.some((a) => Number(a.headers['x-queue-ms']) > 0)).toBe(true)
    await waitFor('no lease', async () => {
      const leases = await open.sql<{ n: number }>(
        'select count(*)::int as n from lease where slots > 0 and expires_at > now()',
      )
      return leases[0]?.n === 0
    })
  })
})

describe('a judge', () => {
  it('streams its tokens, and stops when the caller disconnects', async () => {
    const rm = await simulated(open, 'judge', { ...judge, tokenDelayMs: 5 }, { kind: 'generative' })
    const body = chat({ stream: true, stream_options: { include_usage: true } })
    const ours = await send(open, '/v1/chat/completions', body)
    const its = await direct(rm, '/v1/chat/completions', body)
    expect(ours.headers['content-type']).toBe(its.headers['content-type'])
    expect(contentOf(ours.text)).toBe(contentOf(its.text))
    expect(ours.text.trimEnd().endsWith('data: [DONE]')).toBe(true)

    rm.control({ resetStats: true, tokenDelayMs: 50 })
    const req = httpRequest(`${open.url}/v1/chat/completions`, { method: 'POST', headers })
    req.on('error', () => {})
    req.end(JSON.stringify(chat({ stream: true })))
    const [res] = (await once(req, 'response')) as [IncomingMessage]
    res.on('error', () => {})
    await once(res, 'data')
    req.destroy()
    await waitFor('its end upstream', () => rm.stats().aborted === 1 && rm.stats().inFlight === 0)
  })

  it('that sleeps is woken by a call: first 503, then an answer', async () => {
    const rm = await simulated(open, 'judge', judge, { kind: 'generative' })
    await open.api.servers.sleep.mutate({ name: 'judge' })
    const first = await send(open, '/v1/chat/completions', chat())
    expect(first).toMatchObject({ status: 503, headers: { 'retry-after': '10' } })
    expect(reasonOf(first)).toBe('model_asleep')
    await waitFor('an answer', async () => {
      const { status } = await send(open, '/v1/chat/completions', chat())
      return status === 200
    })
    const wakes = rm.stats().lifecycle.filter(({ route }) => route.includes('wake'))
    expect(wakes).toHaveLength(1)
  })
})

describe('keys', () => {
  it('callers use the service’s key and servers their own; neither key leaks', async () => {
    const rm = await simulated(
      keyed,
      'judge',
      { ...judge, apiKey: SERVER_KEY },
      {
        kind: 'generative',
        apiKey: SERVER_KEY,
      },
    )
    rm.control({ resetStats: true })
    const without = await send(keyed, '/v1/chat/completions', chat(), { authorization: '' })
    expect(without.status).toBe(401)
    expect(reasonOf(without)).toBe('unauthorized')
    const its = { authorization: `Bearer ${SERVER_KEY}` }
    expect((await send(keyed, '/v1/chat/completions', chat(), its)).status).toBe(401)
    expect(rm.stats().textsTotal).toBe(0)

    const answer = await send(keyed, '/v1/chat/completions', chat())
    expect(answer.status).toBe(200)
    rm.control({ faults: { error500: 1 } })
    const failed = await send(keyed, '/v1/chat/completions', chat())
    expect(failed.status).toBe(503)
    for (const { text, headers: got } of [answer, failed, without]) {
      expect(text + JSON.stringify(got)).not.toContain(SERVER_KEY)
    }
    expect(keyed.log.tail()).not.toContain(SERVER_KEY)
  })
})

describe('a service that stops', () => {
  it('answers calls in flight', async () => {
    const rm = await simulated(open, 'rm')
    rm.control({ latency: 'constant:700' })
    const answer = send(open, '/classify', { model: 'simulated-rm', input: 'x' })
    await waitFor('a call upstream', () => rm.stats().inFlight === 1)
    running = [keyed]
    const [{ status }, { code }] = await Promise.all([answer, open.stop()])
    expect({ status, code }).toEqual({ status: 200, code: 0 })
  })
})

function likeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(likeOf)
  if (typeof value !== 'object' || value === null) return value
  const moving = /^(id|created|e2e_latency|timings|.*_ms)$/
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key]) => !moving.test(key))
      .map(([key, inner]) => [key, likeOf(inner)]),
  )
}

function contentOf(text: string): string {
  const parts = text.split('\n\n').filter((part) => part.startsWith('data: {'))
  const contents = parts.map((part) => {
    const chunk = JSON.parse(part.slice(6)) as { choices: { delta: { content?: string } }[] }
    return chunk.choices[0]?.delta.content ?? ''
  })
  return contents.join('')
}
