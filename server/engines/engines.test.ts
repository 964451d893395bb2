import { describe, expect, test } from 'vitest'
import type { EngineTarget } from './engine.ts'
import { http } from './http.ts'
import { llamacpp } from './llamacpp.ts'
import { openai } from './openai.ts'
import { openrlhf } from './openrlhf.ts'
import { sglang } from './sglang.ts'
import { tei } from './tei.ts'
import { vllm } from './vllm.ts'

const sample = { prompt: 'Q', response: 'A' }
const at = (version: string | null, basePath = ''): EngineTarget => ({
  model: 'rm',
  version,
  basePath,
})
const bodyOf = (request: { body: string | Buffer }) => JSON.parse(String(request.body))

describe('vllm', () => {
  test('a current server receives messages and use_activation:false, without `activation`', () => {
    for (const version of [null, '0.12.0', '0.20.1rc2', '1.0.0', 'dev']) {
      expect(bodyOf(vllm.buildScoreRequest(sample, at(version)))).toEqual({
        model: 'rm',
        messages: [
          { role: 'user', content: 'Q' },
          { role: 'assistant', content: 'A' },
        ],
        use_activation: false,
        add_special_tokens: false,
      })
    }
  })

  test('older servers receive the parameters of their release', () => {
    expect(bodyOf(vllm.buildScoreRequest(sample, at('0.11.1')))).toEqual({
      model: 'rm',
      input: 'Q\nA',
      use_activation: false,
      add_special_tokens: false,
    })
    for (const version of ['0.10.1', '0.10.2', '0.11.0']) {
      const body = bodyOf(vllm.buildScoreRequest(sample, at(version)))
      expect(body).toMatchObject({ input: 'Q\nA', activation: false })
      expect(body).not.toHaveProperty('use_activation')
    }
  })

  test('the last of several probs is the score, and token counts are read', () => {
    const body = '{"data":[{"index":0,"probs":[0.25,-1.5]}],"usage":{"prompt_tokens":42}}'
    expect(vllm.parseScoreResponse(200, {}, body)).toEqual({
      ok: true,
      score: -1.5,
      promptTokens: 42,
    })
  })

  test('a URL that ends in /v1 means the same server', () => {
    expect(vllm.buildScoreRequest(sample, at(null, '/v1')).path).toBe('/classify')
    expect(vllm.buildScoreRequest(sample, at(null, '/rm/v1')).path).toBe('/rm/classify')
    expect(vllm.buildScoreRequest(sample, at(null, '/rm')).path).toBe('/rm/classify')
  })

  test('without a model, the request names none', () => {
    const request = vllm.buildScoreRequest(sample, { model: null, version: null })
    expect(bodyOf(request)).not.toHaveProperty('model')
  })
})

describe('sglang', () => {
  test('sends one text to /v1/embeddings and reads its last number', () => {
    const request = sglang.buildScoreRequest(sample, at(null, '/v1'))
    expect(request.path).toBe('/v1/embeddings')
    expect(bodyOf(request)).toEqual({ model: 'rm', input: 'Q\nA' })
    expect(sglang.parseScoreResponse(200, {}, '{"data":[{"embedding":[1,2,-0.75]}]}')).toEqual({
      ok: true,
      score: -0.75,
    })
  })
})

describe('openrlhf', () => {
  test('posts to the given path, or /get_reward at a bare origin', () => {
    expect(openrlhf.buildScoreRequest(sample, at(null)).path).toBe('/get_reward')
    expect(openrlhf.buildScoreRequest(sample, at(null, '/my/rm')).path).toBe('/my/rm')
    expect(bodyOf(openrlhf.buildScoreRequest(sample, at(null)))).toEqual({
      query: ['Q\nA'],
      prompts: ['Q'],
      labels: [null],
    })
  })

  test('reads `rewards` as a list of one or a bare number, and never `scores` instead', () => {
    expect(openrlhf.parseScoreResponse(200, {}, '{"rewards":0.7}')).toEqual({
      ok: true,
      score: 0.7,
    })
    expect(openrlhf.parseScoreResponse(200, {}, '{"rewards":[0.7],"scores":[0]}')).toEqual({
      ok: true,
      score: 0.7,
    })
    expect(openrlhf.parseScoreResponse(200, {}, '{"scores":[0.7]}')).toMatchObject({
      ok: false,
      reason: 'unparseable',
    })
  })
})

describe('vllm’s other routes', () => {
  test('token: there is a logit for each token or step, and the last row is the score', () => {
    const request = vllm.buildScoreRequest(sample, { ...at('0.17.0', '/v1'), route: 'token' })
    expect(request.path).toBe('/pooling')
    expect(bodyOf(request)).toEqual({
      model: 'rm',
      messages: [
        { role: 'user', content: 'Q' },
        { role: 'assistant', content: 'A' },
      ],
      task: 'token_classify',
      use_activation: false,
      add_special_tokens: false,
      encoding_format: 'float',
    })
    const rows = (data: unknown) => JSON.stringify({ data: [{ index: 0, data }] })
    expect(
      vllm.parseScoreResponse(
        200,
        {},
        rows([
          [1, 0.5],
          [2, -0.25],
        ]),
      ),
    ).toEqual({
      ok: true,
      score: -0.25,
      tokenScores: [0.5, -0.25],
    })
    expect(vllm.parseScoreResponse(200, {}, rows([0.5, 1.5]))).toMatchObject({
      score: 1.5,
      tokenScores: [0.5, 1.5],
    })
    expect(vllm.parseScoreResponse(200, {}, rows([[null], [1]]))).toMatchObject({
      class: 'corrupt',
      reason: 'non_finite',
    })
    for (const odd of [[], [[]], 'base64', [['x']]]) {
      expect(vllm.parseScoreResponse(200, {}, rows(odd))).toMatchObject({
        class: 'corrupt',
        reason: 'unparseable',
      })
    }
  })

  test('pair: prompt and response are sent as a pair, in the fields of the version', () => {
    const body = (version: string | null) =>
      bodyOf(vllm.buildScoreRequest(sample, { ...at(version), route: 'pair' }))
    expect(body(null)).toEqual({
      model: 'rm',
      queries: 'Q',
      documents: 'A',
      use_activation: false,
    })
    expect(body('0.14.1')).toEqual({
      model: 'rm',
      text_1: 'Q',
      text_2: 'A',
      use_activation: false,
    })
    expect(body('0.10.2')).toMatchObject({ text_1: 'Q', activation: false })
    const request = vllm.buildScoreRequest(sample, { ...at(null, '/rm'), route: 'pair' })
    expect(request.path).toBe('/rm/score')
    const answer = '{"data":[{"index":0,"object":"score","score":-2}],"usage":{"prompt_tokens":9}}'
    expect(vllm.parseScoreResponse(200, {}, answer)).toEqual({
      ok: true,
      score: -2,
      promptTokens: 9,
    })
    expect(vllm.parseScoreResponse(200, {}, '{"data":[{"index":0,"score":null}]}')).toMatchObject({
      reason: 'non_finite',
    })
  })

  test('the self-test requests activated scores with the same parameter', () => {
    const activated = { ...at(null), activated: true }
    expect(bodyOf(vllm.buildScoreRequest(sample, activated))).toMatchObject({
      use_activation: true,
    })
    const old = bodyOf(vllm.buildScoreRequest(sample, { ...at('0.11.0'), activated: true }))
    expect(old).toMatchObject({ activation: true })
    expect(old).not.toHaveProperty('use_activation')
  })
})

describe('tei', () => {
  test('classifiers receive one text, rerankers a pair, and nothing is truncated', () => {
    expect(bodyOf(tei.buildScoreRequest(sample, at(null)))).toEqual({
      inputs: [['Q\nA']],
      raw_scores: true,
      truncate: false,
    })
    const pair = tei.buildScoreRequest(sample, { ...at(null), route: 'pair' })
    expect(pair.path).toBe('/rerank')
    expect(bodyOf(pair)).toEqual({ query: 'Q', texts: ['A'], raw_scores: true, truncate: false })
    expect(bodyOf(tei.buildScoreRequest(sample, { ...at(null), activated: true }))).toMatchObject({
      raw_scores: false,
    })
  })

  test('the last label is the score, and the header has the number of tokens', () => {
    const headers = { 'x-compute-tokens': '42' }
    expect(tei.parseScoreResponse(200, headers, '[[{"score":-1.5,"label":"LABEL_0"}]]')).toEqual({
      ok: true,
      score: -1.5,
      promptTokens: 42,
    })
    const sorted =
      '[[{"score":3,"label":"LABEL_1"},{"score":1,"label":"LABEL_10"},{"score":-2,"label":"LABEL_2"}]]'
    expect(tei.parseScoreResponse(200, {}, sorted)).toEqual({ ok: true, score: 1 })
    const moods = '[[{"score":3,"label":"joy"},{"score":1,"label":"anger"}]]'
    expect(tei.parseScoreResponse(200, {}, moods)).toMatchObject({ class: 'fault', broken: true })
    // A model without the label that the registration names is also a fault of the server, not of the sample.
    const target = { ...at(null), label: 'LABEL_3' }
    expect(tei.parseScoreResponse(200, {}, sorted, target)).toMatchObject({
      class: 'fault',
      broken: true,
      detail: expect.stringContaining('label "LABEL_3"'),
    })
  })

  test('a rank must belong to the only text', () => {
    expect(tei.parseScoreResponse(200, {}, '[{"index":0,"score":2.5}]')).toEqual({
      ok: true,
      score: 2.5,
    })
    for (const odd of ['[{"index":1,"score":2.5}]', '[{"score":2.5}]', '[]', '{"index":0}']) {
      expect(tei.parseScoreResponse(200, {}, odd)).toMatchObject({ reason: 'unparseable' })
    }
    expect(tei.parseScoreResponse(200, {}, '[{"index":0,"score":null}]')).toMatchObject({
      reason: 'non_finite',
    })
  })
})

describe('llamacpp', () => {
  test('requests the rank of one document, which is matched by index', () => {
    const request = llamacpp.buildScoreRequest(sample, at(null, '/v1'))
    expect(request.path).toBe('/rerank')
    expect(bodyOf(request)).toEqual({ model: 'rm', query: 'Q', documents: ['A'] })
    const other = '{"results":[{"index":3,"relevance_score":1}]}'
    expect(llamacpp.parseScoreResponse(200, {}, other)).toMatchObject({ reason: 'unparseable' })
  })
})

describe('http', () => {
  test('sends the sample as submitted, to the exact URL', () => {
    const request = http.buildScoreRequest(
      {
        prompt: [{ role: 'user', content: 'Q' }],
        response: 'A',
        dataSource: 'mine',
        groundTruth: { answer: 72 },
        extraInfo: { level: 3 },
      },
      at(null, '/my/score'),
    )
    expect(request.path).toBe('/my/score')
    expect(bodyOf(request)).toEqual({
      samples: [
        {
          dataSource: 'mine',
          solutionStr: 'A',
          groundTruth: { answer: 72 },
          extraInfo: { level: 3 },
          prompt: [{ role: 'user', content: 'Q' }],
        },
      ],
    })
    expect(bodyOf(http.buildScoreRequest(sample, at(null)))).toEqual({
      samples: [
        { dataSource: null, solutionStr: 'A', groundTruth: null, extraInfo: {}, prompt: 'Q' },
      ],
    })
  })

  test('lone surrogates become U+FFFD at any depth', () => {
    const odd = { ...sample, extraInfo: { deep: [{ text: 'x\ud800' }], escaped: '\\ud800' } }
    const body = bodyOf(http.buildScoreRequest(odd, at(null)))
    expect(body.samples[0].extraInfo).toEqual({ deep: [{ text: 'x\ufffd' }], escaped: '\\ud800' })
  })

  test('further fields are kept, and an `error` is a function error', () => {
    const read = (result: unknown) =>
      http.parseScoreResponse(200, {}, JSON.stringify({ results: [result] }))
    expect(read({ score: 0.5, acc: true, note: 'x' })).toEqual({
      ok: true,
      score: 0.5,
      extra: { acc: true, note: 'x' },
    })
    expect(read({ score: 0.5, error: null })).toEqual({ ok: true, score: 0.5 })
    expect(read({ error: 'no answer found', score: 0 })).toEqual({
      ok: false,
      class: 'client',
      reason: 'function_error',
      detail: 'no answer found',
    })
    expect(read({ error: { message: 'deep' } })).toMatchObject({
      reason: 'function_error',
      detail: 'deep',
    })
    expect(read({ error: 'took longer than 3 s', reason: 'timeout' })).toMatchObject({
      class: 'client',
      reason: 'timeout',
    })
    expect(read({ error: 'x', reason: 'worker_lost' })).toMatchObject({ reason: 'function_error' })
    for (const odd of [0.5, null, [1], 'x', {}, { score: true }]) {
      expect(read(odd)).toMatchObject({ class: 'corrupt', reason: 'unparseable' })
    }
  })

  test('refuses extra info that is nested too deeply to be stored', () => {
    const deep = `{"results":[{"score":1,"info":${'['.repeat(50_000)}${']'.repeat(50_000)}}]}`
    expect(http.parseScoreResponse(200, {}, deep)).toMatchObject({
      class: 'corrupt',
      reason: 'unparseable',
      detail: expect.stringMatching(/nested/),
    })
  })
})

test('openai returns no scores', () => {
  expect(() => openai.buildScoreRequest(sample, at(null))).toThrow('no scores')
  expect(openai.parseScoreResponse(200, {}, '{}')).toMatchObject({ ok: false, class: 'client' })
})
