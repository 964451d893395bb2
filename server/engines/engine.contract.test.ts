import { request } from 'undici'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ENGINE_NAMES } from '../contract/engines.ts'
import type {
  EngineFailure,
  EngineScore,
  EngineTarget,
  ResponseHeaders,
  ScoreInput,
} from './engine.ts'
import { MAX_DETAIL_CHARS } from './engine.ts'
import { engineOf } from './registry.ts'
import { DIALECTS, dialectOf } from './testing/dialects.ts'
import { answer, type FakeHandler, FakeServer, hangs, scoreBody } from './testing/fake-server.ts'

const SCORING = ENGINE_NAMES.filter((name) => engineOf(name).scores)

test.each(ENGINE_NAMES)('%s is tested if it gives scores', (name) => {
  expect(DIALECTS[name] !== null).toBe(engineOf(name).scores)
})

const target: EngineTarget = { model: 'rm', version: null, basePath: '' }
const sample: ScoreInput = { prompt: 'What is 1 + 1?', response: 'It is 2.' }

let server: FakeServer
beforeAll(async () => {
  server = await FakeServer.start(hangs)
})
afterAll(() => server.close())

describe.each(SCORING)('engine %s', (name) => {
  const engine = engineOf(name)
  const dialect = dialectOf(name)

  async function score(
    handler: FakeHandler,
    input: ScoreInput = sample,
  ): Promise<EngineScore | EngineFailure> {
    server.handler = handler
    const call = engine.buildScoreRequest(input, target)
    const response = await request(server.url + call.path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...call.headers },
      body: call.body,
    })
    return engine.parseScoreResponse(
      response.statusCode,
      response.headers as ResponseHeaders,
      await response.body.text(),
    )
  }
  const json = (body: string): FakeHandler =>
    answer(200, body, { 'content-type': 'application/json' })
  const lastCall = () => server.calls.at(-1)

  test('requests the raw score of one text as JSON', async () => {
    await score(json(scoreBody(name, '0.5')))
    const call = lastCall()
    expect(call?.method).toBe('POST')
    expect(call?.path).toBe(dialect.path)
    expect(call?.headers['content-type']).toBe('application/json')
    const body = JSON.parse(call?.body ?? '')
    expect(dialect.textOf(body)).toBe('What is 1 + 1?\nIt is 2.')
    expect(body).toMatchObject(dialect.raw)
  })

  test('accepts a conversation as prompt', async () => {
    const prompt = [
      { role: 'system', content: 'Be brief.' },
      { role: 'assistant', content: null },
      { role: 'user', content: 'What is 1 + 1?' },
    ]
    await score(json(scoreBody(name, '0.5')), { prompt, response: '2' })
    const body = JSON.parse(lastCall()?.body ?? '')
    expect(dialect.textOf(body)).toBe('Be brief.\n\nWhat is 1 + 1?\n2')
  })

  test('sends NUL unchanged and lone surrogates as U+FFFD', async () => {
    await score(json(scoreBody(name, '0.5')), { prompt: 'a\u0000b', response: 'x\ud800y' })
    const body = JSON.parse(lastCall()?.body ?? '')
    expect(dialect.textOf(body)).toBe('a\u0000b\nx\ufffdy')
  })

  test('an empty prompt and response are legal', async () => {
    expect(await score(json(scoreBody(name, '0')), { prompt: '', response: '' })).toMatchObject({
      ok: true,
      score: 0,
    })
  })

  test.each([
    ['0.25', 0.25],
    ['-3.5', -3.5],
    ['0', 0],
    ['1e-7', 1e-7],
    ['12', 12],
  ])('reads the score %s', async (literal, expected) => {
    expect(await score(json(scoreBody(name, literal)))).toMatchObject({ ok: true, score: expected })
  })

  test.each(['NaN', 'Infinity', '-Infinity', 'null', '1e999', '"NaN"', '"inf"'])(
    'the score %s is non_finite, never a number',
    async (literal) => {
      expect(await score(json(scoreBody(name, literal)))).toMatchObject({
        ok: false,
        class: 'corrupt',
        reason: 'non_finite',
      })
    },
  )

  test.each([
    ['no entry', dialect.none],
    ['no value', scoreBody(name, '')],
    ['a text for a score', scoreBody(name, '"high"')],
    ['an object for a score', scoreBody(name, '{"v":1}')],
    ['another object', '{"hello":"world"}'],
    ['a list', '[1,2]'],
    ['null', 'null'],
    ['a number', '0.5'],
    ['an empty body', ''],
    ['half a body', scoreBody(name, '0.5').slice(0, -9)],
    ['NaN inside a text only', '{"message":"NaN"'],
  ])('%s is unparseable', async (_what, body) => {
    expect(await score(json(body))).toMatchObject({
      ok: false,
      class: 'corrupt',
      reason: 'unparseable',
    })
  })

  test('two scores for one text are unparseable', async () => {
    expect(await score(json(dialect.two))).toMatchObject({
      class: 'corrupt',
      reason: 'unparseable',
    })
  })

  test.each([
    [200, 'unparseable'],
    [400, 'transport'],
    [403, 'transport'],
  ])(
    'an HTML page with status %i is the answer of another program, and the detail names its title',
    async (status, reason) => {
      const page = '<!DOCTYPE html><html><head><title>Sign in</title></head><body>…</body></html>'
      const result = await score(answer(status, page, { 'content-type': 'text/html' }))
      expect(result).toMatchObject({ ok: false, class: 'fault', reason, broken: true })
      expect((result as EngineFailure).detail).toContain('Sign in')
    },
  )

  test.each([301, 302, 307, 308])(
    'a %i is a fault of the server, reported with its Location and not followed',
    async (status) => {
      const before = server.calls.length
      const result = await score(answer(status, '', { location: 'http://other.example/classify' }))
      expect(result).toMatchObject({ ok: false, class: 'fault', reason: 'transport', broken: true })
      expect((result as EngineFailure).detail).toContain('http://other.example/classify')
      expect(server.calls.length - before).toBe(1)
    },
  )

  test.each([400, 409, 413, 422])('a %i may be caused by the request', async (status) => {
    const result = await score(answer(status, { error: { message: 'no such thing' } }))
    expect(result).toEqual({
      ok: false,
      class: 'client',
      reason: 'rejected',
      detail: `answered ${status}: no such thing`,
      unconfirmed: true,
    })
  })

  test.each([401, 402, 403, 404, 405, 407, 410, 415, 501])(
    'a %i is a fault of the server or its configuration, never of the text',
    async (status) => {
      const result = await score(answer(status, { error: { message: 'no such thing' } }))
      expect(result).toEqual({
        ok: false,
        class: 'fault',
        reason: 'transport',
        detail: `answered ${status}: no such thing`,
        broken: true,
      })
    },
  )

  test('a proxy’s page with 413 concerns one request', async () => {
    const page = '<html><head><title>413 Request Entity Too Large</title></head></html>'
    expect(await score(answer(413, page))).toMatchObject({ class: 'client', unconfirmed: true })
  })

  // These answers were recorded from vLLM 0.11.0, 0.14.0 and 0.32.0.
  const dead = 'EngineCore encountered an issue. See stack trace (above) for the root cause.'
  test.each([
    ['0.11, dead', 400, { message: dead, type: 'BadRequestError', param: null, code: 400 }],
    ['0.14, dead', 500, { message: dead, type: 'InternalServerError', param: null, code: 500 }],
    [
      '0.14, dead, on /pooling',
      200,
      { message: dead, type: 'InternalServerError', param: null, code: 500 },
    ],
    ['a dead engine with status 503', 503, { message: 'EngineDeadError', code: 503 }],
    [
      '0.11, without the task',
      200,
      {
        message: 'The model does not support Pooling API',
        type: 'BadRequestError',
        param: null,
        code: 400,
      },
    ],
    [
      '0.32, without the task',
      200,
      { message: 'The model does not support Classification API', code: 501 },
    ],
  ])('an engine that cannot score any text is broken: %s', async (_what, status, error) => {
    const result = await score(answer(status, { error }))
    expect(result).toMatchObject({ class: 'fault', reason: 'transport', broken: true })
    expect((result as EngineFailure).detail).toContain(error.message)
  })

  test.each([
    [
      { message: 'no such thing', code: 400 },
      { class: 'client', unconfirmed: true },
    ],
    [{ message: 'the queue is full', code: 503 }, { class: 'busy' }],
    [{ message: 'out of memory', code: 500 }, { class: 'fault' }],
    [{ message: 'out of memory' }, { class: 'fault' }],
    ['out of memory', { class: 'fault' }],
    [
      { message: "This model's maximum context length is 1024 tokens. However, …", code: 400 },
      { class: 'client', reason: 'context_exceeded' },
    ],
  ])('an error with status 200 is classified by its code: %j', async (error, expected) => {
    expect(await score(answer(200, { error }))).toMatchObject({ ok: false, ...expected })
  })

  test('the input that a validation error repeats is not read as its message', async () => {
    const echo =
      "1 validation error:\n  {'type': 'missing', 'input': 'the maximum context length, says EngineDeadError'}"
    expect(await score(answer(400, { error: { message: echo } }))).toMatchObject({
      class: 'client',
      reason: 'rejected',
      unconfirmed: true,
    })
    const detail = [{ loc: ['body', 'input'], msg: 'Field required', input: 'context length' }]
    expect(await score(answer(422, { detail }))).toMatchObject({
      reason: 'rejected',
      detail: 'answered 422: body.input: Field required',
    })
  })

  test.each(dialect.tooLong)(
    'a text longer than the max context is context_exceeded (%i %j)',
    async (status, body) => {
      expect(await score(answer(status, body))).toMatchObject({
        ok: false,
        class: 'client',
        reason: 'context_exceeded',
      })
    },
  )

  test.each([500, 501, 502, 504, 424, 408])('a %i is a fault of the server', async (status) => {
    expect(await score(answer(status, { detail: 'engine died' }))).toMatchObject({
      ok: false,
      class: 'fault',
      reason: 'transport',
    })
  })

  test('a status 400 of vLLM for its own failures is not a bad request', async () => {
    expect(
      await score(
        answer(400, { error: { message: 'Failed to generate results for all prompts' } }),
      ),
    ).toMatchObject({ class: 'fault' })
    expect(
      await score(
        answer(400, { error: { message: 'Out of range float values are not JSON compliant' } }),
      ),
    ).toMatchObject({ class: 'corrupt', reason: 'non_finite' })
  })

  test('TEI’s 424 for a NaN is corrupt, not a fault; its 429 is busy', async () => {
    const nan = { error: 'score is NaN', error_type: 'Backend' }
    expect(await score(answer(424, nan))).toMatchObject({
      class: 'corrupt',
      reason: 'non_finite',
    })
    const full = { error: 'Model is overloaded', error_type: 'Overloaded' }
    expect(await score(answer(429, full))).toMatchObject({ class: 'busy' })
  })

  test.each([
    { error: { code: 503, message: 'Loading model', type: 'unavailable_error' } },
    { error: 'The model is currently scaling. Please try again later.' },
    { object: 'error', message: 'The request queue is full.' },
    { error: 'unhealthy', error_type: 'unhealthy' },
    '<html><head><title>503 Service Unavailable</title></head></html>',
    '',
  ])('a 503 is busy with any body: %j', async (body) => {
    expect(await score(answer(503, body))).toMatchObject({ class: 'busy', reason: 'transport' })
  })

  test.each([
    [{ 'retry-after': '2.5' }, 2500],
    [{ 'retry-after': '0' }, 0],
    [{ 'retry-after-ms': '75.5' }, 75.5],
    [{ 'x-ms-retry-after-ms': '120', 'retry-after': '9' }, 120],
    [{ 'retry-after-ms': '', 'retry-after': '3' }, 3000],
    [{ 'retry-after-ms': '-1', 'retry-after': '3' }, 3000],
    [{ 'retry-after': 'Fri, 31 Dec 1999 23:59:59 GMT' }, 0],
    [{ 'retry-after': '-5' }, undefined],
    [{ 'retry-after': '2 s' }, undefined],
    [{ 'retry-after': '1e999' }, undefined],
  ] as [Record<string, string>, number | undefined][])(
    'Retry-After is read in any form: %j',
    async (headers, expected) => {
      for (const status of [429, 503]) {
        const busy = (await score(answer(status, '', headers))) as EngineFailure
        expect(busy.class).toBe('busy')
        expect(busy.retryAfterMs).toBe(expected)
      }
    },
  )

  test('429 and 503 are busy, with Retry-After in seconds, ms and as a date', async () => {
    expect(await score(answer(503, 'The request queue is full.'))).toEqual({
      ok: false,
      class: 'busy',
      reason: 'transport',
      detail: 'answered 503: The request queue is full.',
    })
    expect(await score(answer(429, '', { 'retry-after': '2' }))).toMatchObject({
      class: 'busy',
      reason: 'rejected',
      retryAfterMs: 2000,
    })
    expect(
      await score(answer(429, '', { 'retry-after': '2', 'retry-after-ms': '150' })),
    ).toMatchObject({ retryAfterMs: 150 })
    const date = new Date(Date.now() + 3_600_000).toUTCString()
    const dated = (await score(answer(503, '', { 'retry-after': date }))) as EngineFailure
    expect(dated.retryAfterMs).toBeGreaterThan(3_000_000)
    expect(dated.retryAfterMs).toBeLessThanOrEqual(3_600_000)
    const odd = (await score(answer(503, '', { 'retry-after': 'soon' }))) as EngineFailure
    expect(odd.retryAfterMs).toBeUndefined()
  })

  test.each([
    [{ error: { message: 'a message', type: 'BadRequestError' } }, 'a message (BadRequestError)'],
    [{ error: 'Unauthorized' }, 'Unauthorized'],
    [{ object: 'error', message: 'a message' }, 'a message'],
    [{ detail: 'Not Found' }, 'Not Found'],
    [{ detail: [{ loc: ['body'], msg: 'field required' }] }, 'field required'],
    ['plain words', 'plain words'],
  ])('finds the message in %j', async (body, message) => {
    expect(((await score(answer(422, body))) as EngineFailure).detail).toContain(message)
  })

  test('details are one line and short', async () => {
    const { detail } = (await score(answer(500, 'line\n'.repeat(5000)))) as EngineFailure
    expect(detail.length).toBeLessThanOrEqual(MAX_DETAIL_CHARS)
    expect(detail).not.toContain('\n')
  })
})

test.each(SCORING)('%s is tested with several texts per request if it accepts them', (name) => {
  expect(dialectOf(name).microBatch !== undefined).toBe(engineOf(name).microBatch !== null)
})

describe.each(SCORING.filter((name) => engineOf(name).microBatch !== null))(
  'engine %s, several texts in one request',
  (name) => {
    const engine = engineOf(name)
    const microBatch = engine.microBatch!
    const dialect = dialectOf(name).microBatch!
    const samples: ScoreInput[] = ['a', 'b', 'c'].map((response) => ({ prompt: 'Q', response }))
    const parse = (body: string, status = 200, headers: ResponseHeaders = {}) =>
      microBatch.parse(status, headers, body, 3)
    const scored = (score: number) => ({ ok: true, score })

    test('builds the same request as for one text, except for the texts', () => {
      const { target } = dialect
      expect(microBatch.takes(target)).toBe(true)
      const one = engine.buildScoreRequest(samples[0]!, target)
      const all = microBatch.build(samples, target)
      expect(all.path).toBe(one.path)
      const [ofOne, ofAll] = [one, all].map(({ body }) => JSON.parse(body as string))
      expect(dialect.texts(ofAll)).toEqual(['Q\na', 'Q\nb', 'Q\nc'])
      for (const body of [ofOne, ofAll]) {
        delete body.input
        delete body.inputs
      }
      expect(ofAll).toEqual(ofOne)
    })

    test('does not support targets that accept one pair or one conversation per request', () => {
      if (name !== 'sglang')
        expect(microBatch.takes({ ...dialect.target, route: 'pair' })).toBe(false)
      if (name === 'vllm')
        expect(microBatch.takes({ ...dialect.target, version: null })).toBe(false)
    })

    test('reads one score per text, in request order, and the tokens of all texts', () => {
      const answer = parse(dialect.body(['1', '-2.5', '1e-7']), 200, { 'x-compute-tokens': '21' })
      expect(answer).toEqual({ ok: true, scores: [1, -2.5, 1e-7].map(scored), promptTokens: 21 })
    })

    test('an invalid score fails only its sample', () => {
      const answer = parse(dialect.body(['1', 'null', '3']))
      const non = { ok: false, class: 'corrupt', reason: 'non_finite' }
      expect(answer).toMatchObject({ ok: true, scores: [scored(1), non, scored(3)] })
    })

    test.each([
      ['fewer scores', dialect.body(['1', '2'])],
      ['more scores', dialect.body(['1', '2', '3', '4'])],
      ['none', dialect.body([])],
      ['something else', '{"hello":"world"}'],
      ['null', 'null'],
      ['half a body', dialect.body(['1', '2', '3']).slice(0, -4)],
    ])('an answer with %s is unparseable', (_, body) => {
      expect(parse(body)).toMatchObject({ ok: false, class: 'corrupt', reason: 'unparseable' })
    })

    test('refusals and faults are classified as for one text', () => {
      expect(parse('{"error":"no"}', 400)).toMatchObject({ class: 'client', reason: 'rejected' })
      expect(parse('{"error":"no"}', 429, { 'retry-after': '2' })).toMatchObject({
        class: 'busy',
        retryAfterMs: 2_000,
      })
      expect(parse('{"error":"no"}', 500)).toMatchObject({ class: 'fault' })
    })
  },
)

test.each(['[1,2,3]', '[{"score":1,"index":0},{"score":2,"index":1},{"score":3,"index":2}]'])(
  'an answer of TEI without a list of labels per text is unparseable: %s',
  (body) => {
    expect(engineOf('tei').microBatch?.parse(200, {}, body, 3)).toMatchObject({
      ok: false,
      reason: 'unparseable',
    })
  },
)

describe.each(['vllm', 'sglang'] as const)('entries of %s’s data', (name) => {
  const { parse } = engineOf(name).microBatch!
  const entry = (index: number, score: number) => ({ index, probs: [score], embedding: [score] })

  test('are matched by index, not by position', () => {
    const body = JSON.stringify({ data: [entry(2, 3), entry(0, 1), entry(1, 2)] })
    expect(parse(200, {}, body, 3)).toMatchObject({
      scores: [{ score: 1 }, { score: 2 }, { score: 3 }],
    })
  })

  test.each([
    [[entry(0, 1), entry(0, 2)]],
    [[entry(0, 1), entry(2, 2)]],
    [[entry(0, 1), entry(-1, 2)]],
    [[entry(0, 1), { ...entry(1, 2), index: '1' }]],
  ])('that do not number the texts are unparseable: %j', (data) => {
    expect(parse(200, {}, JSON.stringify({ data }), 2)).toMatchObject({ reason: 'unparseable' })
  })
})
