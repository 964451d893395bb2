import { afterEach, expect, test } from 'vitest'
import { ENGINE_NAMES } from '../contract/engines.ts'
import { probeServer } from './probe.ts'
import { answer, type FakeHandler, FakeServer, hangs, scoreBody } from './testing/fake-server.ts'
import { models, routes } from './testing/routes.ts'

const servers: FakeServer[] = []
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()))
})

async function serve(table: Record<string, FakeHandler>): Promise<FakeServer> {
  const server = await FakeServer.start(routes(table))
  servers.push(server)
  return server
}

const vllmRoutes = {
  'GET /v1/models': models('vllm', 'rm', 'adapter'),
  'GET /version': answer(200, { version: '0.12.0' }),
  'POST /classify': answer(200, scoreBody('vllm', '1')),
}
const sglangRoutes = {
  'GET /v1/models': models('sglang', 'rm'),
  'GET /model_info': answer(200, { model_path: '/m/rm', is_generation: false }),
  'GET /server_info': answer(200, { version: '0.5.6', api_key: 'x' }),
}
const openrlhfRoutes = { 'POST /get_reward': answer(200, { rewards: [0.3], scores: [0.3] }) }

const probe = (server: FakeServer, over: Partial<Parameters<typeof probeServer>[0]> = {}) =>
  probeServer({ url: server.url, engine: 'auto', apiKey: null, timeoutMs: 5_000, ...over })

test('detects vLLM with model, version, max context and route', async () => {
  const server = await serve(vllmRoutes)
  const found = {
    ok: true,
    engine: 'vllm',
    url: server.url,
    models: ['rm', 'adapter'],
    model: 'rm',
    version: '0.12.0',
    maxModelLen: 4096,
    kind: 'discriminative',
  }
  expect(await probe(server)).toMatchObject(found)
  expect(await probe(server, { engine: 'vllm' })).toMatchObject(found)
  expect(await probe(server, { url: `${server.url}/v1/` })).toMatchObject({
    ...found,
    url: `${server.url}/v1`,
  })
  expect(await probe(server, { model: 'adapter' })).toMatchObject({
    model: 'adapter',
    maxModelLen: 8192,
  })
})

test('detects a vLLM that only generates', async () => {
  const { 'POST /classify': _, ...rest } = vllmRoutes
  const server = await serve({ ...rest, 'POST /v1/chat/completions': answer(200, {}) })
  expect(await probe(server)).toMatchObject({ engine: 'vllm', kind: 'generative' })
})

test('detects SGLang, also by older route names', async () => {
  expect(await probe(await serve(sglangRoutes))).toMatchObject({
    engine: 'sglang',
    models: ['rm'],
    version: '0.5.6',
    kind: 'discriminative',
  })
  const older = await serve({
    'GET /v1/models': models('sglang', 'rm'),
    'GET /get_model_info': answer(200, { model_path: '/m/rm', is_generation: true }),
  })
  expect(await probe(older)).toMatchObject({ engine: 'sglang', version: null, kind: 'generative' })
})

test('detects an OpenRLHF reward server by requesting a reward, at any path', async () => {
  expect(await probe(await serve(openrlhfRoutes))).toMatchObject({
    engine: 'openrlhf',
    models: [],
    model: null,
  })
  const elsewhere = await serve({ 'POST /my/rm': answer(200, { rewards: 0.3 }) })
  expect(await probe(elsewhere, { url: `${elsewhere.url}/my/rm`, model: 'mine' })).toMatchObject({
    engine: 'openrlhf',
    model: 'mine',
  })
})

test('a model list without an owner needs further requests', async () => {
  const bare = answer(200, { data: [{ id: 'rm' }] })
  expect(await probe(await serve({ ...vllmRoutes, 'GET /v1/models': bare }))).toMatchObject({
    engine: 'vllm',
  })
  expect(await probe(await serve({ ...sglangRoutes, 'GET /v1/models': bare }))).toMatchObject({
    engine: 'sglang',
  })
})

test('a server without an owner that matches several engines is detected as the first of them', async () => {
  const signs: [string, string, FakeHandler][] = [
    ['tei', 'GET /info', answer(200, { model_type: { reranker: {} } })],
    ['sglang', 'GET /model_info', answer(200, { model_path: '/m/rm' })],
    ['vllm', 'GET /version', answer(200, { version: '0.12.0' })],
    ['llamacpp', 'GET /props', answer(200, { total_slots: 4 })],
    ['openai', 'POST /v1/chat/completions', answer(400, {})],
    ['http', 'POST /', answer(200, { results: [] })],
    ['openrlhf', 'POST /get_reward', answer(200, { rewards: [0.3] })],
  ]
  for (const [at, [engine]] of signs.entries()) {
    const server = await serve({
      'GET /v1/models': answer(200, { data: [{ id: 'rm' }] }),
      'POST /classify': answer(200, scoreBody('vllm', '1')),
      'POST /rerank': answer(400, {}),
      ...Object.fromEntries(signs.slice(at).map(([, route, handler]) => [route, handler])),
    })
    expect(await probe(server)).toMatchObject({ ok: true, engine })
  }
})

test('with a named engine, only the scoring route is needed', async () => {
  const server = await serve({ 'POST /classify': answer(200, scoreBody('vllm', '1')) })
  expect(await probe(server, { engine: 'vllm', model: 'rm' })).toMatchObject({
    ok: true,
    models: [],
    model: 'rm',
    version: null,
    kind: 'discriminative',
  })
})

test('the key is sent, and a refused key is reported', async () => {
  const locked: FakeHandler = (call, response) =>
    call.headers.authorization === 'Bearer right'
      ? vllmRoutes['GET /v1/models'](call, response)
      : answer(401, { error: 'Unauthorized' })(call, response)
  const server = await serve({ ...vllmRoutes, 'GET /v1/models': locked })
  expect(await probe(server, { apiKey: 'right' })).toMatchObject({ ok: true })
  const wrong = await probe(server, { apiKey: 'wrong-key' })
  expect(wrong).toMatchObject({ ok: false, reason: 'key_refused', cause: 'key_refused' })
  expect(JSON.stringify(wrong)).not.toContain('wrong-key')
})

test.each(['auto', ...ENGINE_NAMES] as const)(
  'a redirect is refused and named, not followed (%s)',
  async (engine) => {
    const goal = await serve(vllmRoutes)
    const server = await serve({})
    server.handler = answer(307, '', { location: `${goal.url}/elsewhere` })
    const result = await probe(server, { engine })
    expect(result).toMatchObject({ ok: false, reason: 'server_redirects' })
    expect(result).toHaveProperty('message', expect.stringContaining(`${goal.url}/elsewhere`))
    expect(goal.calls).toHaveLength(0)
  },
)

test('a server of another engine is refused', async () => {
  expect(await probe(await serve(sglangRoutes), { engine: 'vllm' })).toMatchObject({
    reason: 'server_not_recognized',
    cause: 'other_engine',
  })
  expect(await probe(await serve(vllmRoutes), { engine: 'sglang' })).toMatchObject({
    reason: 'server_not_recognized',
    cause: 'other_engine',
  })
  expect(await probe(await serve(vllmRoutes), { engine: 'openrlhf' })).toMatchObject({
    reason: 'server_not_recognized',
  })
  for (const [owner, named] of [
    ['llamacpp', 'vllm'],
    ['llamacpp', 'sglang'],
    ['vllm', 'llamacpp'],
    ['sglang', 'llamacpp'],
  ] as const) {
    const server = await serve({ 'GET /v1/models': models(owner, 'rm') })
    expect(await probe(server, { engine: named })).toMatchObject({ cause: 'other_engine' })
  }
})

test('an unserved model is refused with the names of the served ones', async () => {
  const result = await probe(await serve(vllmRoutes), { model: 'other' })
  expect(result).toMatchObject({ ok: false, reason: 'model_not_served' })
  expect(result).toHaveProperty('message', expect.stringContaining('"adapter"'))
})

test('an HTML page or another server is not recognized', async () => {
  const page = await serve({})
  page.handler = answer(200, '<!doctype html><title>Hello</title>', { 'content-type': 'text/html' })
  expect(await probe(page)).toMatchObject({ reason: 'server_not_recognized' })
  expect(await probe(page, { engine: 'vllm' })).toMatchObject({
    reason: 'server_not_recognized',
    cause: 'not_json',
  })
  expect(await probe(await serve({}))).toMatchObject({ reason: 'server_not_recognized' })
})

test('a loading server is unreachable, not unknown', async () => {
  const server = await serve({})
  server.handler = answer(503, { error: { message: 'Loading model' } })
  for (const engine of ['auto', ...ENGINE_NAMES] as const) {
    expect(await probe(server, { engine })).toMatchObject({
      reason: 'server_unreachable',
      cause: 'not_ready',
      message: expect.stringContaining('Loading model'),
    })
  }
})

test('a closed port, an unknown host, silence, no HTTP and no TLS are distinguished', async () => {
  const server = await serve({})
  const { url } = server
  await server.close()
  expect(await probe(server, { url })).toMatchObject({
    reason: 'server_unreachable',
    cause: 'connection',
  })
  expect(await probe(server, { url: 'http://no-such-host.invalid' })).toMatchObject({
    reason: 'server_unreachable',
    cause: 'dns',
  })
  const silent = await serve({})
  silent.handler = hangs
  expect(await probe(silent, { timeoutMs: 50 })).toMatchObject({
    reason: 'server_unreachable',
    cause: 'timeout',
  })
  const plain = await serve(vllmRoutes)
  expect(await probe(plain, { url: plain.url.replace('http:', 'https:') })).toMatchObject({
    reason: 'server_unreachable',
    cause: 'tls',
  })
})

test('nothing is sent to a forbidden URL', async () => {
  expect(await probe({ url: 'http://169.254.169.254/' } as FakeServer)).toMatchObject({
    reason: 'forbidden_url',
    cause: 'forbidden_address',
  })
  expect(await probe({ url: 'file:///etc/passwd' } as FakeServer)).toMatchObject({
    reason: 'forbidden_url',
    cause: 'scheme',
  })
})

test('an endless answer is cut off', async () => {
  const server = await serve({})
  server.handler = (_call, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    const block = 'x'.repeat(65_536)
    const more = () => {
      while (!response.destroyed && response.write(block));
    }
    response.on('drain', more)
    more()
  }
  expect(await probe(server)).toMatchObject({ reason: 'server_unreachable', cause: 'connection' })
})
