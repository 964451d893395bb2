import { afterEach, describe, expect, test } from 'vitest'
import { ENGINE_NAMES } from '../contract/engines.ts'
import type { EngineLifecycle, EngineName } from './engine.ts'
import { type OpenFetch, openFetch, ProbeStop } from './probe.ts'
import { engineOf } from './registry.ts'
import { answer, type FakeHandler, FakeServer, hangs } from './testing/fake-server.ts'
import { routes } from './testing/routes.ts'

const open: (FakeServer | OpenFetch)[] = []
afterEach(async () => {
  await Promise.all(open.splice(0).map((one) => one.close()))
})

async function serve(table: Record<string, FakeHandler>): Promise<FakeServer> {
  const server = await FakeServer.start(routes(table))
  open.push(server)
  return server
}

function talkTo(url: string, apiKey: string | null = null, timeoutMs = 5_000): OpenFetch {
  const opened = openFetch(url, apiKey, { timeoutMs })
  open.push(opened)
  return opened
}

const rejection = (promise: Promise<unknown>) =>
  promise.then(
    () => null,
    (error: unknown) => error as ProbeStop,
  )

describe('openFetch', () => {
  test('sends the key and JSON, and keeps the base path', async () => {
    const server = await serve({
      'GET /rm/x': answer(200, { a: 1 }),
      'POST /rm/y': answer(404, 'no'),
    })
    const { fetch, basePath } = talkTo(`${server.url}/rm/`, 'secret')
    expect(basePath).toBe('/rm')
    expect(await fetch(`${basePath}/x`)).toMatchObject({ status: 200, bodyText: '{"a":1}' })
    expect(await fetch(`${basePath}/y`, { method: 'POST', body: '{}' })).toMatchObject({
      status: 404,
    })
    expect(server.calls.map((call) => call.headers.authorization)).toEqual([
      'Bearer secret',
      'Bearer secret',
    ])
    expect(server.calls[1]?.headers['content-type']).toBe('application/json')
  })

  test('redirects, refused keys, silence and closed ports are distinguished', async () => {
    const server = await serve({
      'GET /away': answer(302, '', { location: 'http://169.254.169.254/' }),
      'GET /locked': answer(403, {}),
      'GET /slow': hangs,
    })
    const { fetch } = talkTo(server.url, 'wrong-key', 100)
    const failures = [
      await rejection(fetch('/away')),
      await rejection(fetch('/locked')),
      await rejection(fetch('/slow')),
    ]
    expect(failures.every((error) => error instanceof ProbeStop)).toBe(true)
    expect(failures.map((error) => error?.failure.cause)).toEqual([
      'redirect',
      'key_refused',
      'timeout',
    ])
    expect(JSON.stringify(failures)).not.toContain('wrong-key')
    await server.close()
    expect((await rejection(fetch('/away')))?.failure).toMatchObject({
      reason: 'server_unreachable',
      cause: 'connection',
    })
  })

  test('each request has its own time limit', async () => {
    const server = await serve({ 'GET /slow': hangs, 'GET /fast': answer(200, {}) })
    const { fetch } = talkTo(server.url, null, 1_000)
    expect((await rejection(fetch('/slow')))?.failure.cause).toBe('timeout')
    expect(await fetch('/fast')).toMatchObject({ status: 200 })
  })

  test('a forbidden URL is refused before anything is sent', () => {
    expect(() => openFetch('http://169.254.169.254/', null, { timeoutMs: 100 })).toThrow(ProbeStop)
  })
})

describe('sleep and wake', () => {
  const lifecycleOf = (name: EngineName) => engineOf(name).lifecycle as EngineLifecycle

  test('vLLM sleeps at a level in the mode "wait", wakes, and reports its state', async () => {
    let asleep = false
    const set =
      (value: boolean): FakeHandler =>
      (call, response) => {
        asleep = value
        answer(200, '')(call, response)
      }
    const server = await serve({
      'POST /sleep': set(true),
      'POST /wake_up': set(false),
      'GET /is_sleeping': (call, response) => answer(200, { is_sleeping: asleep })(call, response),
    })
    const { fetch } = talkTo(server.url)
    const vllm = lifecycleOf('vllm')
    // A URL that ends in /v1 means the same server.
    expect(await vllm.isSleeping(fetch, '/v1')).toBe(false)
    await vllm.sleep(fetch, '/v1', 2)
    expect(await vllm.isSleeping(fetch, '')).toBe(true)
    await vllm.wake(fetch, '')
    expect(await vllm.isSleeping(fetch, '')).toBe(false)
    await vllm.sleep(fetch, '', 1)
    expect(server.calls.filter((call) => call.method === 'POST').map((call) => call.path)).toEqual([
      '/sleep?level=2&mode=wait',
      '/wake_up',
      '/sleep?level=1&mode=wait',
    ])
  })

  test('SGLang releases and resumes its memory with an object as body, and reports no state', async () => {
    const done = answer(200, 'null', { 'content-type': 'application/json' })
    const server = await serve({
      'POST /release_memory_occupation': done,
      'POST /resume_memory_occupation': done,
    })
    const { fetch } = talkTo(server.url)
    const sglang = lifecycleOf('sglang')
    await sglang.sleep(fetch, '/v1', 1)
    await sglang.wake(fetch, '')
    expect(await sglang.isSleeping(fetch, '')).toBeNull()
    expect(server.calls.map((call) => call.path)).toEqual([
      '/release_memory_occupation',
      '/resume_memory_occupation',
    ])
    expect(server.calls.map((call) => JSON.parse(call.body))).toEqual([{}, {}])
  })

  test.each(['vllm', 'sglang'] as const)('the error of %s contains its answer', async (name) => {
    const server = await serve({})
    server.handler = answer(500, { error: { message: 'assert is_fully_idle()' } })
    const { fetch } = talkTo(server.url)
    const lifecycle = lifecycleOf(name)
    for (const refused of [lifecycle.sleep(fetch, '', 1), lifecycle.wake(fetch, '')]) {
      expect((await rejection(refused))?.message).toMatch(/answered 500: assert is_fully_idle/)
    }
    server.handler = answer(404, { detail: 'Not Found' })
    expect((await rejection(lifecycle.sleep(fetch, '', 1)))?.message).toMatch(/--enable-/)
  })

  test('other engines cannot sleep', () => {
    const sleeping = ENGINE_NAMES.filter((name) => engineOf(name).lifecycle !== null)
    expect(sleeping).toEqual(['vllm', 'sglang'])
  })
})

describe('load', () => {
  const load = async (name: EngineName, table: Record<string, FakeHandler>, base = '') => {
    const server = await serve(table)
    return engineOf(name).readLoad(talkTo(server.url).fetch, base)
  }

  const vllmMetrics = (running: string, waiting: string) =>
    [
      '# HELP vllm:num_requests_running Number of requests in model execution batches.',
      '# TYPE vllm:num_requests_running gauge',
      `vllm:num_requests_running{engine="0",model_name="a \\"b\\" } c"} ${running}`,
      'vllm:num_requests_running{engine="1",model_name="rm"} 2.0',
      `vllm:num_requests_waiting{engine="0",model_name="rm"} ${waiting}`,
      'vllm:num_requests_waiting{engine="1",model_name="rm"} 1.0 1755000000000',
      'vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 500.0',
      'vllm:num_requests_running_max 900',
      '',
    ].join('\n')

  test('vLLM: summed over its engines', async () => {
    const table = { 'GET /metrics': answer(200, vllmMetrics('3.0', '4.0')) }
    expect(await load('vllm', table)).toEqual({ running: 5, waiting: 5 })
    expect(await load('vllm', table, '/v1')).toEqual({ running: 5, waiting: 5 })
  })

  test.each(['-1.0', 'NaN', '+Inf', '1e9', 'many'])('vLLM: %s is not a load', async (value) => {
    for (const text of [vllmMetrics(value, '1'), vllmMetrics('1', value)]) {
      expect(await load('vllm', { 'GET /metrics': answer(200, text) })).toBeNull()
    }
  })

  test('SGLang: summed over its ranks, also from the older route', async () => {
    const loads = [
      { dp_rank: 0, num_running_reqs: 3, num_waiting_reqs: 1 },
      { dp_rank: 1, num_running_reqs: 4, num_waiting_reqs: 0 },
    ]
    expect(await load('sglang', { 'GET /v1/loads?include=core': answer(200, { loads }) })).toEqual({
      running: 7,
      waiting: 1,
    })
    // The older route counts all requests, including the waiting ones.
    const older = [{ dp_rank: 0, num_reqs: 5, num_waiting_reqs: 2, num_tokens: 900 }]
    expect(await load('sglang', { 'GET /get_load': answer(200, older) })).toEqual({
      running: 3,
      waiting: 2,
    })
  })

  test.each([
    [{ num_running_reqs: -1, num_waiting_reqs: 0 }],
    [{ num_running_reqs: 1 }],
    [{ num_running_reqs: '1', num_waiting_reqs: 0 }],
    [{ num_running_reqs: 1e9, num_waiting_reqs: 0 }],
    [{ num_reqs: 1, num_waiting_reqs: 2 }],
    [null],
  ])('SGLang: %j is not a load', async (rank) => {
    const loads = answer(200, { loads: [{ num_running_reqs: 1, num_waiting_reqs: 1 }, rank] })
    expect(await load('sglang', { 'GET /v1/loads': loads })).toBeNull()
  })

  test('TEI: waiting requests only', async () => {
    const text =
      '# TYPE te_queue_size gauge\nte_queue_size 12\nte_request_count{method="single"} 4\n'
    expect(await load('tei', { 'GET /metrics': answer(200, text) })).toEqual({
      running: 0,
      waiting: 12,
    })
    expect(await load('tei', { 'GET /metrics': answer(200, 'te_queue_size -1') })).toBeNull()
    expect(await load('tei', { 'GET /metrics': answer(200, 'other 1') })).toBeNull()
  })

  test('llama.cpp: from /metrics, or from its slots', async () => {
    const metrics = 'llamacpp:requests_processing 2\nllamacpp:requests_deferred 3\n'
    const slots = answer(200, [
      { id: 0, is_processing: true },
      { id: 1, is_processing: false },
    ])
    const both = { 'GET /metrics': answer(200, metrics), 'GET /slots': slots }
    expect(await load('llamacpp', both)).toEqual({ running: 2, waiting: 3 })
    const unsupported = answer(501, { error: { type: 'not_supported_error' } })
    expect(await load('llamacpp', { 'GET /metrics': unsupported, 'GET /slots': slots })).toEqual({
      running: 1,
      waiting: 0,
    })
    expect(await load('llamacpp', { 'GET /slots': answer(200, [{ id: 0 }]) })).toBeNull()
  })

  test.each(ENGINE_NAMES)(
    '%s: a missing metric, a page, a refused key or a closed port is not a load',
    async (name) => {
      expect(await load(name, {})).toBeNull()
      const server = await serve({})
      const { fetch } = talkTo(server.url, null, 1_000)
      for (const odd of [answer(200, '<html></html>'), answer(401, {}), answer(302, '')]) {
        server.handler = odd
        expect(await engineOf(name).readLoad(fetch, '')).toBeNull()
      }
      await server.close()
      expect(await engineOf(name).readLoad(fetch, '')).toBeNull()
    },
  )
})
