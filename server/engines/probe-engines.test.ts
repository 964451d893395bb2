import { afterEach, describe, expect, test } from 'vitest'
import { probeServer } from './probe.ts'
import { answer, type FakeHandler, FakeServer } from './testing/fake-server.ts'
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

const probe = (server: FakeServer, over: Partial<Parameters<typeof probeServer>[0]> = {}) =>
  probeServer({ url: server.url, engine: 'auto', apiKey: null, timeoutMs: 5_000, ...over })

const ok = answer(200, {})

describe('vllm', () => {
  const base = {
    'GET /v1/models': models('vllm', 'rm'),
    'GET /version': answer(200, { version: '0.17.0' }),
  }

  const data = (datum: object) => answer(200, { data: [{ index: 0, ...datum }] })
  const scoring = {
    '/classify': data({ probs: [1.5] }),
    '/pooling': data({ data: [[0.5], [1.5]] }),
    '/score': data({ score: 1.5 }),
  }

  test.each([
    [['/classify', '/pooling', '/score'], 'classify'],
    [['/pooling', '/score'], 'token'],
    [['/score'], 'pair'],
  ] as const)('of the routes %j it uses %s', async (paths, route) => {
    const posts = Object.fromEntries(paths.map((path) => [`POST ${path}`, scoring[path]]))
    const server = await serve({ ...base, ...posts, 'POST /v1/chat/completions': ok })
    expect(await probe(server)).toMatchObject({ ok: true, kind: 'discriminative', route })
  })

  test('sleep support and a sleeping server are detected by the route /is_sleeping', async () => {
    const awake = { ...base, 'GET /is_sleeping': answer(200, { is_sleeping: false }) }
    expect(await probe(await serve(awake))).toMatchObject({ canSleep: true, sleeping: false })
    const asleep = { ...base, 'GET /is_sleeping': answer(200, { is_sleeping: true }) }
    expect(await probe(await serve(asleep))).toMatchObject({ canSleep: true, sleeping: true })
    expect(await probe(await serve(base))).toMatchObject({ canSleep: false, sleeping: false })
  })

  test('a judge must chat, and a reward model must score', async () => {
    const judge = await serve({ ...base, 'POST /v1/chat/completions': ok })
    expect(await probe(judge, { kind: 'generative' })).toMatchObject({
      ok: true,
      kind: 'generative',
      route: null,
    })
    expect(await probe(judge, { kind: 'discriminative' })).toMatchObject({
      reason: 'server_not_recognized',
      cause: 'other_kind',
      hint: expect.stringContaining('"kind": "generative"'),
    })
    const rm = await serve({ ...base, 'POST /classify': scoring['/classify'] })
    expect(await probe(rm, { kind: 'generative' })).toMatchObject({ cause: 'other_kind' })
    expect(await probe(rm, { kind: 'discriminative' })).toMatchObject({ ok: true })
  })

  test('vLLM is detected behind a proxy that blocks internal routes', async () => {
    const forbidden = answer(403, { detail: 'Forbidden' })
    const server = await serve({
      ...base,
      'POST /classify': scoring['/classify'],
      'GET /version': forbidden,
      'GET /is_sleeping': forbidden,
      'GET /info': forbidden,
    })
    expect(await probe(server)).toMatchObject({
      ok: true,
      engine: 'vllm',
      version: null,
      canSleep: false,
      route: 'classify',
    })
  })
})

describe('sglang', () => {
  const info = { 'GET /v1/models': models('sglang', 'rm') }
  const embeds = { 'GET /model_info': answer(200, { model_path: '/m', is_generation: false }) }

  test('silent truncation gives a warning, and a memory saver enables sleep', async () => {
    const server = await serve({
      ...info,
      ...embeds,
      'GET /server_info': answer(200, {
        version: '0.5.6',
        allow_auto_truncate: true,
        enable_memory_saver: true,
      }),
    })
    expect(await probe(server)).toMatchObject({
      engine: 'sglang',
      version: '0.5.6',
      route: 'classify',
      canSleep: true,
      warnings: [expect.stringContaining('--allow-auto-truncate')],
    })
    const plain = await serve({ ...info, ...embeds, 'GET /server_info': answer(200, {}) })
    expect(await probe(plain)).toMatchObject({ canSleep: false, warnings: [] })
  })

  test('without access to /server_info, only the version is unknown', async () => {
    const server = await serve({
      ...info,
      ...embeds,
      'GET /server_info': answer(401, { error: 'Unauthorized' }),
      'GET /get_server_info': answer(401, { error: 'Unauthorized' }),
    })
    expect(await probe(server)).toMatchObject({ ok: true, version: null, kind: 'discriminative' })
  })

  test('a generating server is a judge, and one with --is-embedding is not', async () => {
    const chats = { 'POST /v1/chat/completions': ok }
    const generates = { 'GET /model_info': answer(200, { model_path: '/m', is_generation: true }) }
    const judge = await serve({ ...info, ...generates, ...chats })
    expect(await probe(judge, { kind: 'generative' })).toMatchObject({ kind: 'generative' })
    expect(await probe(judge, { kind: 'discriminative' })).toMatchObject({
      cause: 'other_kind',
      hint: expect.stringContaining('--is-embedding'),
    })
    const rm = await serve({ ...info, ...embeds, ...chats })
    expect(await probe(rm, { kind: 'generative' })).toMatchObject({ cause: 'other_kind' })
  })
})

describe('tei', () => {
  const info = (over: object) => ({
    'GET /info': answer(200, {
      model_id: 'org/rm',
      model_type: { reranker: { id2label: { 0: 'LABEL_0' }, label2id: { LABEL_0: 0 } } },
      max_concurrent_requests: 512,
      max_input_length: 8192,
      max_client_batch_size: 32,
      auto_truncate: true,
      version: '1.9.3',
      ...over,
    }),
  })

  test('TEI is detected by /info, with permits and max context', async () => {
    expect(await probe(await serve(info({})))).toMatchObject({
      ok: true,
      engine: 'tei',
      models: ['org/rm'],
      model: 'org/rm',
      version: '1.9.3',
      maxModelLen: 8192,
      maxConcurrent: 512,
      kind: 'discriminative',
      route: 'pair',
    })
  })

  test.each([
    [{ classifier: { id2label: { 0: 'LABEL_0', 1: 'LABEL_1' } } }, 'classify'],
    ['classifier', 'classify'],
    ['reranker', 'pair'],
    ['Reranker', 'pair'],
  ])('the model type %j uses the route %s', async (model_type, route) => {
    expect(await probe(await serve(info({ model_type })))).toMatchObject({ engine: 'tei', route })
  })

  test('an embedding model is refused', async () => {
    const embedding = await serve(info({ model_type: { embedding: { pooling: 'cls' } } }))
    expect(await probe(embedding)).toMatchObject({
      cause: 'other_kind',
      message: expect.stringContaining('embedding'),
    })
  })

  test('the last of several labels is the score unless another is named', async () => {
    const moods = { classifier: { id2label: { 0: 'joy', 1: 'anger' } } }
    const server = await serve(info({ model_type: moods }))
    expect(await probe(server)).toMatchObject({
      ok: true,
      label: 'anger',
      warnings: [expect.stringMatching(/2 labels \(joy, anger\).*last/)],
    })
    for (const label of ['joy', '0', 'LABEL_0']) {
      expect(await probe(server, { label })).toMatchObject({ label: 'joy', warnings: [] })
    }
    expect(await probe(server, { label: 'pride' })).toMatchObject({
      cause: 'other_kind',
      message: expect.stringMatching(/^label: .*"pride".*joy, anger/),
    })
  })

  test('a pool can have any name, because requests name no model', async () => {
    const server = await serve(info({ model_id: '/data' }))
    expect(await probe(server, { engine: 'tei', model: 'rm' })).toMatchObject({ model: 'rm' })
  })

  test('TEI cannot judge', async () => {
    expect(await probe(await serve(info({})), { kind: 'generative' })).toMatchObject({
      cause: 'other_kind',
    })
  })

  test('another server, an unavailable server and a missing key are distinguished', async () => {
    expect(await probe(await serve({}), { engine: 'tei' })).toMatchObject({
      cause: 'unknown_server',
    })
    const down = await serve({ 'GET /info': answer(503, { error: 'unhealthy' }) })
    expect(await probe(down, { engine: 'tei' })).toMatchObject({ cause: 'not_ready' })
    const locked = await serve({ 'GET /info': answer(401, {}) })
    expect(await probe(locked, { engine: 'tei' })).toMatchObject({ reason: 'key_refused' })
  })
})

describe('llamacpp', () => {
  const listed = answer(200, {
    data: [{ id: '/models/rm.gguf', owned_by: 'llamacpp', meta: { n_ctx_train: 32768 } }],
  })
  const props = answer(200, {
    total_slots: 4,
    build_info: 'b6200-abc',
    default_generation_settings: { n_ctx: 2048 },
  })
  const empty = answer(400, { error: { message: '"query" must be provided' } })
  const unsupported = answer(501, {
    error: {
      code: 501,
      message: 'This server does not support reranking. Start it with `--reranking`',
      type: 'not_supported_error',
    },
  })

  test('llama.cpp is detected by its model list, with slots and the context of a slot', async () => {
    const server = await serve({
      'GET /v1/models': listed,
      'GET /props': props,
      'POST /rerank': empty,
    })
    expect(await probe(server)).toMatchObject({
      ok: true,
      engine: 'llamacpp',
      models: ['/models/rm.gguf'],
      version: 'b6200-abc',
      maxModelLen: 2048,
      maxConcurrent: 4,
      kind: 'discriminative',
      route: 'pair',
    })
    expect(await probe(server, { model: 'rm' })).toMatchObject({ model: 'rm' })
  })

  test('without /props, the context is that of the model', async () => {
    const server = await serve({ 'GET /v1/models': listed, 'POST /rerank': empty })
    expect(await probe(server)).toMatchObject({ maxModelLen: 32768, maxConcurrent: null })
  })

  test('without --reranking, llama.cpp can judge but not score', async () => {
    const server = await serve({
      'GET /v1/models': listed,
      'GET /props': props,
      'POST /rerank': unsupported,
      'POST /v1/chat/completions': answer(400, { error: { message: '"messages" is required' } }),
    })
    for (const kind of ['discriminative', null] as const) {
      expect(await probe(server, { kind })).toMatchObject({
        reason: 'server_not_recognized',
        cause: 'other_kind',
        hint: expect.stringContaining('--reranking'),
      })
    }
    expect(await probe(server, { kind: 'generative' })).toMatchObject({
      ok: true,
      kind: 'generative',
      route: null,
      maxConcurrent: 4,
    })
  })

  test('a reranker cannot judge', async () => {
    const server = await serve({
      'GET /v1/models': listed,
      'POST /rerank': empty,
      'POST /v1/chat/completions': answer(501, { error: { message: 'not supported' } }),
    })
    expect(await probe(server, { kind: 'generative' })).toMatchObject({ cause: 'other_kind' })
  })

  test('a loading server is not ready, and a refused key on the scoring route is reported', async () => {
    const loading = await serve({})
    loading.handler = answer(503, {
      error: { code: 503, message: 'Loading model', type: 'unavailable_error' },
    })
    expect(await probe(loading, { engine: 'llamacpp' })).toMatchObject({
      cause: 'not_ready',
      message: expect.stringContaining('Loading model'),
    })
    const locked = await serve({
      'GET /v1/models': listed,
      'GET /props': answer(401, {}),
      'POST /rerank': answer(401, { error: { message: 'Invalid API Key' } }),
    })
    expect(await probe(locked)).toMatchObject({ reason: 'key_refused' })
  })
})

describe('openai', () => {
  const chats = {
    'GET /v1/models': models('openai', 'gpt-x', 'gpt-y'),
    'POST /v1/chat/completions': answer(400, {
      error: { message: 'you must provide a model parameter' },
    }),
  }

  test('a server is detected by a model list of another owner and the chat route', async () => {
    const server = await serve(chats)
    const found = { ok: true, engine: 'openai', kind: 'generative', model: 'gpt-y' }
    expect(await probe(server, { model: 'gpt-y' })).toMatchObject(found)
    expect(await probe(server, { model: 'gpt-y', kind: 'generative' })).toMatchObject(found)
    expect(await probe(server, { engine: 'openai', url: `${server.url}/v1` })).toMatchObject({
      ok: true,
    })
  })

  test('a server cannot score', async () => {
    expect(
      await probe(await serve(chats), { engine: 'openai', kind: 'discriminative' }),
    ).toMatchObject({ cause: 'other_kind' })
  })

  test('a refused key is reported', async () => {
    const locked = answer(401, { error: { message: 'Incorrect API key provided' } })
    const server = await serve({ ...chats, 'GET /v1/models': locked })
    expect(await probe(server, { engine: 'openai', apiKey: 'sk-wrong' })).toMatchObject({
      reason: 'key_refused',
      cause: 'key_refused',
    })
  })

  test('a server without the chat route is not recognized', async () => {
    const server = await serve({ 'GET /v1/models': models('someone', 'm') })
    expect(await probe(server, { engine: 'openai' })).toMatchObject({ cause: 'unknown_server' })
    expect(await probe(server)).toMatchObject({ reason: 'server_not_recognized' })
  })
})

describe('http', () => {
  const scorer: FakeHandler = (call, response) => {
    const { samples } = JSON.parse(call.body) as { samples?: unknown[] }
    if (samples === undefined) return answer(422, { detail: 'samples missing' })(call, response)
    return answer(200, { results: samples.map(() => ({ score: 1 })) })(call, response)
  }

  test('a scorer is detected with an empty list of samples, at the given path', async () => {
    const server = await serve({ 'POST /my/score': scorer })
    const url = `${server.url}/my/score`
    const found = { ok: true, engine: 'http', models: [], kind: 'discriminative', url }
    expect(await probe(server, { url })).toMatchObject(found)
    expect(await probe(server, { url, engine: 'http', model: 'mine' })).toMatchObject({
      ...found,
      model: 'mine',
    })
  })

  test('a scorer on Python’s http.server is detected, although it supports only POST', async () => {
    const server = await serve({})
    server.handler = (call, response) =>
      call.method === 'POST' && call.path === '/score'
        ? scorer(call, response)
        : answer(501, 'Unsupported method')(call, response)
    expect(await probe(server, { url: `${server.url}/score` })).toMatchObject({ engine: 'http' })
  })

  test.each([
    ['another answer', answer(200, { ok: true })],
    ['results without samples', answer(200, { results: [{ score: 1 }] })],
    ['a page', answer(200, '<html></html>')],
    ['an error of its own', answer(500, { detail: 'division by zero' })],
  ])('%s is refused', async (_what, handler) => {
    const server = await serve({ 'POST /score': handler })
    expect(await probe(server, { url: `${server.url}/score`, engine: 'http' })).toMatchObject({
      reason: 'server_not_recognized',
      cause: 'unknown_server',
    })
  })

  test('an OpenRLHF server is not detected as a custom scorer', async () => {
    const server = await serve({})
    server.handler = (call, response) => {
      const body = call.body === '' ? {} : JSON.parse(call.body)
      return body.query === undefined
        ? answer(call.method === 'GET' ? 404 : 500, 'KeyError: query')(call, response)
        : answer(200, { rewards: [0.5] })(call, response)
    }
    expect(await probe(server)).toMatchObject({ engine: 'openrlhf' })
  })
})
