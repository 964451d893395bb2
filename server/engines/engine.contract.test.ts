import { request } from 'undici'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type {
  EngineFailure,
  EngineName,
  EngineScore,
  EngineTarget,
  ResponseHeaders,
  ScoreInput,
} from './engine.ts'
import { DETAIL_LIMIT } from './engine.ts'
import { ENGINE_NAMES, engineOf } from './registry.ts'
import { answer, type FakeHandler, FakeServer, hangs, scoreBody } from './testing/fake-server.ts'

/** How each dialect asks, for the cases that look at what arrives. */
const dialects: Record<
  EngineName,
  { path: string; textOf(body: Record<string, unknown>): string }
> = {
  vllm: {
    path: '/classify',
    textOf: (body) =>
      (body.messages as { content: string }[]).map((turn) => turn.content).join('\n'),
  },
  sglang: { path: '/v1/embeddings', textOf: (body) => body.input as string },
  openrlhf: { path: '/get_reward', textOf: (body) => (body.query as string[])[0] as string },
}

const target: EngineTarget = { model: 'rm', version: null, basePath: '' }
const sample: ScoreInput = { prompt: 'What is 1 + 1?', response: 'It is 2.' }

let server: FakeServer
beforeAll(async () => {
  server = await FakeServer.start(hangs)
})
afterAll(() => server.close())

describe.each(ENGINE_NAMES)('engine %s', (name) => {
  const engine = engineOf(name)

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

  test('asks for the raw score of one text, by JSON, where the dialect has it', async () => {
    await score(json(scoreBody(name, '0.5')))
    const call = lastCall()
    expect(call?.method).toBe('POST')
    expect(call?.path).toBe(dialects[name].path)
    expect(call?.headers['content-type']).toBe('application/json')
    const body = JSON.parse(call?.body ?? '')
    expect(dialects[name].textOf(body)).toBe('What is 1 + 1?\nIt is 2.')
  })

  test('takes a conversation as a prompt', async () => {
    const prompt = [
      { role: 'system', content: 'Be brief.' },
      { role: 'assistant', content: null },
      { role: 'user', content: 'What is 1 + 1?' },
    ]
    await score(json(scoreBody(name, '0.5')), { prompt, response: '2' })
    const body = JSON.parse(lastCall()?.body ?? '')
    expect(dialects[name].textOf(body)).toBe('Be brief.\n\nWhat is 1 + 1?\n2')
  })

  test('sends NUL as it is and lone surrogates as U+FFFD, which every server can decode', async () => {
    await score(json(scoreBody(name, '0.5')), { prompt: 'a\u0000b', response: 'x\ud800y' })
    const body = JSON.parse(lastCall()?.body ?? '')
    expect(dialects[name].textOf(body)).toBe('a\u0000b\nx\ufffdy')
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
    ['no entries', scoreBody(name, '')],
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

  test('scores for two texts where one was sent are unparseable', async () => {
    const two: Record<EngineName, string> = {
      vllm: '{"data":[{"index":0,"probs":[1]},{"index":1,"probs":[2]}]}',
      sglang: '{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[2]}]}',
      openrlhf: '{"rewards":[1,2]}',
    }
    expect(await score(json(two[name]))).toMatchObject({ class: 'corrupt', reason: 'unparseable' })
  })

  test('an HTML page with status 200 is unparseable, and the detail names its title', async () => {
    const page = '<!DOCTYPE html><html><head><title>Sign in</title></head><body>…</body></html>'
    const result = await score(answer(200, page, { 'content-type': 'text/html' }))
    expect(result).toMatchObject({ ok: false, class: 'corrupt', reason: 'unparseable' })
    expect((result as EngineFailure).detail).toContain('Sign in')
  })

  test.each([301, 302, 307, 308])(
    'a %i is rejected with its Location, not followed',
    async (status) => {
      const before = server.calls.length
      const result = await score(answer(status, '', { location: 'http://other.example/classify' }))
      expect(result).toMatchObject({ ok: false, class: 'corrupt', reason: 'rejected' })
      expect((result as EngineFailure).detail).toContain('http://other.example/classify')
      expect(server.calls.length - before).toBe(1)
    },
  )

  test.each([400, 401, 403, 404, 405, 413, 415, 422])(
    'a %i is the request’s fault',
    async (status) => {
      const result = await score(answer(status, { error: { message: 'no such thing' } }))
      expect(result).toMatchObject({ ok: false, class: 'client', reason: 'rejected' })
      expect((result as EngineFailure).detail).toBe(`answered ${status}: no such thing`)
    },
  )

  test.each([
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
    "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
    'Requested token count exceeds the model’s limit',
    'the request exceeds the available context size',
    'inputs must have less than 512 tokens. Given: 700',
  ])('a 400 saying "%s" is context_exceeded', async (message) => {
    expect(await score(answer(400, { object: 'error', message }))).toMatchObject({
      ok: false,
      class: 'client',
      reason: 'context_exceeded',
    })
  })

  test.each([500, 501, 502, 504, 424, 408])('a %i is the server’s fault', async (status) => {
    expect(await score(answer(status, { detail: 'engine died' }))).toMatchObject({
      ok: false,
      class: 'fault',
      reason: 'transport',
    })
  })

  test('what vLLM answers 400 for its own failures is not taken for a bad request', async () => {
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
    expect(detail.length).toBeLessThanOrEqual(DETAIL_LIMIT)
    expect(detail).not.toContain('\n')
  })
})
