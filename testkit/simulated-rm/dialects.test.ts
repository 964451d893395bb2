import { afterEach, describe, expect, test } from 'vitest'
import type { EngineName, ScoreRoute } from '../../server/engines/engine.ts'
import { openFetch } from '../../server/engines/engine-fetch.ts'
import { probeServer } from '../../server/engines/probe.ts'
import { engineOf } from '../../server/engines/registry.ts'
import type { DialectName, ServerOptionsInput } from './options.ts'
import { SimulatedServer } from './server.ts'
import { ask, askJson, scoreBy } from './testing/ask.ts'
import { logitOf, sigmoid, textId } from './text.ts'

const sample = { prompt: 'What is 1 + 1?\nThink.', response: 'It is 2.' }
const RAW = logitOf(textId(sample.prompt, sample.response), 1)
const wholeText = `${sample.prompt}\n${sample.response}`
const messages = [
  { role: 'user', content: sample.prompt },
  { role: 'assistant', content: sample.response },
]

const started: SimulatedServer[] = []
async function start(options: ServerOptionsInput = {}): Promise<SimulatedServer> {
  const server = await SimulatedServer.start({ healthDelayMs: 0, ...options })
  started.push(server)
  return server
}
afterEach(() => Promise.all(started.splice(0).map((server) => server.close())))

const SCORING: [DialectName, EngineName, ScoreRoute, ServerOptionsInput][] = [
  ['vllm', 'vllm', 'classify', {}],
  ['vllm', 'vllm', 'token', { serves: 'token' }],
  ['vllm', 'vllm', 'pair', { serves: 'pair' }],
  ['sglang', 'sglang', 'classify', {}],
  ['tei', 'tei', 'classify', {}],
  ['tei', 'tei', 'pair', { serves: 'pair' }],
  ['llamacpp', 'llamacpp', 'pair', {}],
]

describe.each(SCORING)('dialect %s, engine %s, route %s', (dialect, name, route, options) => {
  test('returns the raw score of the text', async () => {
    const server = await start({ dialect, ...options })
    const answer = await scoreBy(name, server, sample, { route })
    expect(answer).toMatchObject({ ok: true, score: RAW })
  })

  test('is auto-detected with its limits', async () => {
    const server = await start({ dialect, ...options, maxModelLen: 777, running: 5, permits: 9 })
    const found = await probeServer({
      url: server.url,
      engine: 'auto',
      apiKey: null,
      timeoutMs: 10_000,
      model: null,
    })
    expect(found).toMatchObject({
      ok: true,
      engine: name,
      models: ['simulated-rm'],
      maxModelLen: 777,
      kind: 'discriminative',
    })
    if (dialect === 'tei') expect(found).toMatchObject({ route, maxConcurrent: 9 })
    if (dialect === 'llamacpp') expect(found).toMatchObject({ maxConcurrent: 5 })
  })

  test('refuses a text over the limit with the message of the engine', async () => {
    const server = await start({ dialect, ...options, maxModelLen: 100 })
    const long = { ...sample, response: 'word '.repeat(200) }
    const answer = await scoreBy(name, server, long, { route })
    expect(answer).toMatchObject({ ok: false, class: 'client', reason: 'context_exceeded' })
  })

  test('scores differently with other weights, and every fault is classified', async () => {
    const server = await start({ dialect, ...options })
    server.control({ weights: 2 })
    const drifted = await scoreBy(name, server, sample, { route })
    expect(drifted).toMatchObject({ ok: true })
    expect(drifted).not.toMatchObject({ score: RAW })
    for (const [faults, expected] of [
      [{ error500: 1 }, { class: 'fault' }],
      [
        { full503: { share: 1, retryAfter: 'ms', retryAfterMs: 70 } },
        { class: 'busy', retryAfterMs: 70 },
      ],
      [
        { limited429: { share: 1, retryAfter: 'seconds', retryAfterMs: 2000 } },
        { class: 'busy', retryAfterMs: 2000 },
      ],
      [{ html: 1 }, { class: 'fault', broken: true }],
      [{ html: { share: 1, status: 400 } }, { class: 'fault', broken: true }],
      [{ routeMissing: 1 }, { class: 'fault', broken: true }],
      [{ routeMissing: { share: 1, status: 405 } }, { class: 'fault', broken: true }],
      [{ routeMissing: { share: 1, status: 501 } }, { class: 'fault', broken: true }],
      [{ engineDead: 1 }, { class: 'fault' }],
      [{ refused: 1 }, { class: 'client', unconfirmed: true }],
      [{ nan: 1 }, { class: 'corrupt', reason: 'non_finite' }],
      [{ null: 1 }, { class: 'corrupt', reason: 'non_finite' }],
      [{ wrongLength: 1 }, { class: 'corrupt' }],
    ] as const) {
      server.control({ faults: null })
      server.control({ faults })
      const answer = await scoreBy(name, server, sample, { route })
      expect(answer, JSON.stringify(faults)).toMatchObject({ ok: false, ...expected })
    }
  })

  test('reports its load, and invalid values are ignored', async () => {
    const server = await start({ dialect, ...options, latency: 'constant:60000' })
    const gone = new AbortController()
    const engine = engineOf(name)
    const call = engine.buildScoreRequest(sample, { model: null, version: null, route })
    const request = ask(server, call.path, JSON.parse(String(call.body)), { signal: gone.signal })
    await waitUntil(() => server.stats().textsInFlight === 1)
    const { fetch, close } = openFetch(server.url, null, { timeoutMs: 5000 })
    const load = await engine.readLoad(fetch, '')
    expect(load).toEqual({ running: name === 'tei' ? 0 : 1, waiting: 0 })
    server.control({ metrics: 'negative' })
    expect(await engine.readLoad(fetch, '')).not.toMatchObject({ running: -1 })
    server.control({ metrics: 'missing' })
    expect(await engine.readLoad(fetch, '')).toBeNull()
    close()
    gone.abort()
    await request.catch(() => {})
  })
})

describe('vllm', () => {
  const classify = async (server: SimulatedServer, body: object) => {
    const answer = await askJson<{ data: { probs: number[] }[] }>(server, '/classify', body)
    return answer.data.map((entry) => entry.probs[0])
  }

  test('answers a list in order, with token counts and the header x-simulated', async () => {
    const server = await start()
    const response = await ask(server, '/classify', {
      input: [wholeText, 'x'],
      use_activation: false,
    })
    expect(response.headers['x-simulated']).toBe('rewardops')
    const answer = JSON.parse(response.text)
    expect(answer).toMatchObject({ object: 'list', model: 'simulated-rm' })
    expect(answer.data.map((entry: { index: number }) => entry.index)).toEqual([0, 1])
    expect(answer.data[0]).toMatchObject({ label: 'LABEL_0', num_classes: 1 })
    expect(answer.data[0].probs[0]).toBe(RAW)
    expect(answer.usage.prompt_tokens).toBe(Math.ceil(wholeText.length / 3.6) + 1)
  })

  test('the parameter for raw scores depends on the version', async () => {
    const said = { use: { use_activation: false }, old: { activation: false } }
    const windows: [version: string, use: boolean, old: boolean, both: boolean][] = [
      ['0.9.2', false, false, false],
      ['0.10.2', false, true, true],
      ['0.12.0', true, false, false],
      ['0.14.0', true, true, true],
      ['0.16.0', true, false, true],
    ]
    for (const [version, use, old, both] of windows) {
      const server = await start({ version })
      const raw = async (words: object) =>
        (await classify(server, { input: wholeText, ...words }))[0] === RAW
      expect([await raw(said.use), await raw(said.old)], version).toEqual([use, old])
      expect(await raw({ ...said.use, ...said.old }), version).toBe(both)
      expect(await raw({}), version).toBe(false)
    }
  })

  test('the activation can be honored, ignored, inverted or absent', async () => {
    const expected = {
      honored: [RAW, sigmoid(RAW)],
      ignored: [sigmoid(RAW), sigmoid(RAW)],
      inverted: [sigmoid(RAW), RAW],
      identity: [RAW, RAW],
    }
    for (const activation of ['honored', 'ignored', 'inverted', 'identity'] as const) {
      const server = await start({ activation })
      const scores = await Promise.all(
        [false, true].map((use_activation) => classify(server, { messages, use_activation })),
      )
      expect(scores.flat(), activation).toEqual(expected[activation])
    }
  })

  test('older servers lack messages and return flat errors', async () => {
    const server = await start({ version: '0.10.0' })
    const answer = await askJson(server, '/classify', { messages }, 400)
    expect(answer).toMatchObject({ object: 'error', code: 400 })
  })

  test.each([
    // In the recordings before 0.16, the routes exist for every model and refuse with status 200.
    ['0.11.0', 'token', '/classify', 200, 400, 'Classification'],
    ['0.11.0', 'classify', '/pooling', 200, 400, 'Pooling'],
    ['0.14.0', 'generate', '/classify', 200, 400, 'Classification'],
    ['0.14.0', 'token', '/v1/chat/completions', 200, 400, 'Chat Completions'],
    ['0.32.0', 'token', '/classify', 501, 501, 'Classification'],
  ] as const)('%s refuses a %s model on %s', async (version, serves, path, status, code, api) => {
    const server = await start({ version, serves })
    const answer = await askJson(server, path, { input: 'x', messages }, status)
    expect(answer).toMatchObject({
      error: { code, message: `The model does not support ${api} API` },
    })
  })

  test('a token model returns one row per token, and the last row is the score', async () => {
    const server = await start({ serves: 'token' })
    const body = { input: wholeText, task: 'token_classify', use_activation: false }
    const { data } = await askJson<{ data: { data: number[][] }[] }>(server, '/pooling', body)
    expect(data[0]?.data.at(-1)).toEqual([RAW])
    expect(data[0]?.data).toHaveLength(Math.ceil(wholeText.length / 3.6))
    const other = await ask(server, '/pooling', { ...body, task: 'classify' })
    expect(other.status).toBe(400)
    const packed = await askJson<{ data: { data: string }[] }>(server, '/pooling', {
      ...body,
      encoding_format: 'base64',
    })
    const floats = Buffer.from(packed.data[0]?.data ?? '', 'base64')
    expect(floats.readFloatLE(floats.length - 4)).toBeCloseTo(RAW, 5)
  })

  test('/score takes 1:1, 1:N and N:N texts, and /rerank sorts', async () => {
    const server = await start({ serves: 'pair' })
    const texts = ['a', 'b', 'c']
    const raw = texts.map((text) => logitOf(textId('q', text), 1))
    const score = async (body: object) =>
      (await askJson<{ data: { score: number }[] }>(server, '/score', body)).data.map(
        (d) => d.score,
      )
    const how = { use_activation: false }
    expect(await score({ queries: 'q', documents: texts, ...how })).toEqual(raw)
    expect(await score({ text_1: ['q', 'q', 'q'], text_2: texts, ...how })).toEqual(raw)
    expect((await ask(server, '/score', { queries: ['q', 'r'], documents: texts })).status).toBe(
      400,
    )
    const ranked = await askJson<{ results: { index: number; relevance_score: number }[] }>(
      server,
      '/v1/rerank',
      { query: 'q', documents: texts, top_n: 2, ...how },
    )
    const order = [0, 1, 2].sort((a, b) => (raw[b] ?? 0) - (raw[a] ?? 0)).slice(0, 2)
    expect(ranked.results.map((r) => r.index)).toEqual(order)
  })

  test('a key protects only /v1, and unknown models, wrong methods and wrong bodies are refused', async () => {
    const server = await start({ apiKey: 'k' })
    const refused = await ask(server, '/v1/models')
    expect([refused.status, refused.text]).toEqual([401, '{"error":"Unauthorized"}'])
    expect((await ask(server, '/v1/models', undefined, { key: 'k' })).status).toBe(200)
    expect((await ask(server, '/classify', { input: 'x', model: 'other' })).status).toBe(404)
    expect((await ask(server, '/classify')).status).toBe(405)
    expect((await ask(server, '/classify', { input: 'x', normalize: false })).status).toBe(400)
    expect((await ask(server, '/classify', { input: [] })).status).toBe(400)
    const missing = await ask(server, '/v1/embeddings', { input: 'x' }, { key: 'k' })
    expect(missing.status).toBe(404)
  })

  test('the engine answers a NaN score with a 400 that names NaN', async () => {
    const server = await start({ faults: { nan: { share: 1, as: 'engine' } } })
    const answer = await scoreBy('vllm', server, sample)
    expect(answer).toMatchObject({ ok: false, class: 'corrupt', reason: 'non_finite' })
  })
})

describe('sglang', () => {
  test('/classify answers an object for one text and a list for several, /v1/classify 1.0 for all', async () => {
    const server = await start({ dialect: 'sglang' })
    const one = await askJson<{ embedding: number[] }>(server, '/classify', { text: wholeText })
    expect(one.embedding).toEqual([RAW])
    const two = await askJson<{ embedding: number[] }[]>(server, '/classify', {
      text: [wholeText, 'x'],
    })
    expect(two).toHaveLength(2)
    const answer = await ask(server, '/v1/classify', { input: ['a', 'b', wholeText] })
    expect(answer.text.match(/"probs":\[1\.0\]/g)).toHaveLength(3)
    const scores = await askJson<{ scores: number[][] }>(server, '/v1/score', {
      query: sample.prompt,
      items: [sample.response],
    })
    expect(scores.scores).toEqual([[RAW]])
  })

  test('a text over the limit is silently truncated at its end if configured', async () => {
    const server = await start({ dialect: 'sglang', maxModelLen: 20, autoTruncate: true })
    const long = (end: string) => ({ input: `${'word '.repeat(30)}${end}` })
    const scored = (end: string) =>
      askJson<{ data: { embedding: number[] }[] }>(server, '/v1/embeddings', long(end))
    expect((await scored('good')).data[0]).toEqual((await scored('bad')).data[0])
    expect(await askJson(server, '/server_info')).toMatchObject({ allow_auto_truncate: true })
  })
})

describe('tei', () => {
  test('two strings are a pair and lists of lists a batch, and scores are raw only if requested', async () => {
    const server = await start({ dialect: 'tei' })
    const predict = (inputs: unknown, raw_scores = true) =>
      askJson(server, '/predict', { inputs, raw_scores })
    expect(await predict(wholeText)).toEqual([{ score: RAW, label: 'LABEL_0' }])
    expect(await predict([sample.prompt, sample.response])).toEqual([
      { score: RAW, label: 'LABEL_0' },
    ])
    expect(await predict([[wholeText], ['x']])).toHaveLength(2)
    expect(await predict(wholeText, false)).toEqual([{ score: sigmoid(RAW), label: 'LABEL_0' }])
    const tooMany = await ask(server, '/predict', { inputs: Array(33).fill(['x']) })
    expect(tooMany.status).toBe(422)
  })

  test('a batch over the permits is refused after inputs with a permit are processed', async () => {
    const server = await start({ dialect: 'tei', permits: 2, tokensPerSecond: 1e6 })
    const answer = await ask(server, '/predict', { inputs: [['aaaa'], ['bbbb'], ['cccc']] })
    expect(answer.status).toBe(429)
    expect(JSON.parse(answer.text)).toEqual({
      error: 'Model is overloaded',
      error_type: 'overloaded',
    })
    expect(server.stats()).toMatchObject({ textsTotal: 2, textsInFlight: 0 })
    expect((await ask(server, '/predict', { inputs: [['aaaa'], ['bbbb']] })).status).toBe(200)
  })

  test('a text over the limit is truncated unless the request has `truncate: false`', async () => {
    const server = await start({ dialect: 'tei', maxModelLen: 10 })
    const inputs = 'word '.repeat(40)
    expect((await ask(server, '/predict', { inputs })).status).toBe(200)
    expect((await ask(server, '/predict', { inputs, truncate: false })).status).toBe(422)
  })
})

describe('llamacpp', () => {
  test('serves both forms of /rerank and its slots, and reports that it is loading', async () => {
    const server = await start({ dialect: 'llamacpp', running: 3 })
    const jina = await askJson<{ results: unknown[] }>(server, '/v1/rerank', {
      query: 'q',
      documents: ['a', 'b'],
      top_n: 1,
    })
    expect(jina.results).toHaveLength(1)
    expect(await askJson(server, '/rerank', { query: 'q', texts: ['a', 'b'] })).toHaveLength(2)
    expect(await askJson<unknown[]>(server, '/slots')).toHaveLength(3)
    expect(await askJson(server, '/props')).toMatchObject({ total_slots: 3 })
    const loading = await start({ dialect: 'llamacpp', loadingMs: 3_600_000 })
    for (const path of ['/health', '/v1/models', '/slots']) {
      expect(await askJson(loading, path, undefined, 503)).toEqual({
        error: { code: 503, message: 'Loading model', type: 'unavailable_error' },
      })
    }
  })

  test('the error of a text over the limit counts its tokens, and embeddings are normalized', async () => {
    const server = await start({ dialect: 'llamacpp', maxModelLen: 10 })
    const answer = await askJson(
      server,
      '/rerank',
      { query: 'q', documents: ['w '.repeat(99)] },
      400,
    )
    expect(answer).toMatchObject({
      error: { type: 'exceed_context_size_error', n_ctx: 10, n_prompt_tokens: 56 },
    })
    const whole = await start({ dialect: 'llamacpp' })
    const { data } = await askJson<{ data: { embedding: number[] }[] }>(whole, '/v1/embeddings', {
      input: wholeText,
    })
    expect(data[0]?.embedding).toEqual([Math.sign(RAW)])
    const [raw] = await askJson<{ embedding: number[][] }[]>(whole, '/embedding', {
      content: wholeText,
      embd_normalize: -1,
    })
    expect(raw?.embedding).toEqual([[RAW]])
  })
})

async function waitUntil(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setImmediate(resolve))
}

test('vllm with a dead engine answers as the recorded releases do', async () => {
  const text = { input: 'x' }
  const pairs = { text_1: 'q', text_2: 'x' }
  const answers = async (version: string) => {
    const server = await start({ dialect: 'vllm', version, faults: { engineDead: 1 } })
    const of = async (path: string, body: object) => {
      const { status, text } = await ask(server, path, body)
      return [status, JSON.parse(text).error]
    }
    return [await of('/classify', text), await of('/score', pairs)]
  }
  const message = 'EngineCore encountered an issue. See stack trace (above) for the root cause.'
  const old = { message, type: 'BadRequestError', param: null, code: 400 }
  const error = { message, type: 'InternalServerError', param: null, code: 500 }
  expect(await answers('0.11.0')).toEqual([
    [400, old],
    [500, { ...error, type: 'Internal Server Error' }],
  ])
  expect(await answers('0.14.0')).toEqual([
    [500, error],
    [200, error],
  ])
  expect(await answers('0.32.0')).toEqual([
    [500, error],
    [500, error],
  ])
})
