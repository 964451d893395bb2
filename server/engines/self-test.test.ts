import { afterEach, describe, expect, test } from 'vitest'
import { type Calibration, calibrationDiffers, calibrationScores } from './calibration.ts'
import type { EngineName, ScoreRoute } from './engine.ts'
import { type OpenFetch, openFetch } from './probe.ts'
import { engineOf } from './registry.ts'
import { chatSelfTest, rawScoreSelfTest } from './self-test.ts'
import { answer, type FakeHandler, FakeServer, scoreBody } from './testing/fake-server.ts'

const open: (FakeServer | OpenFetch)[] = []
afterEach(async () => {
  await Promise.all(open.splice(0).map((one) => one.close()))
})

const sigmoid = (x: number) => 1 / (1 + Math.exp(-x))

const logit = (text: string) =>
  (text.match(/Paris/g) ?? []).length * 1.5 -
  (text.match(/bananas/g) ?? []).length * 2 +
  (text.match(/42/g) ?? []).length * 0.1 -
  0.25

interface Body {
  use_activation?: boolean
  activation?: boolean
  raw_scores?: boolean
}

function model(name: EngineName, score: (text: string, body: Body) => number): FakeHandler {
  return (call, response) => {
    const body = JSON.parse(call.body) as Body
    const text = JSON.stringify(body)
    const literal = String(score(text, body))
    const reply =
      name === 'tei' && call.path === '/rerank'
        ? `[{"index":0,"score":${literal}}]`
        : scoreBody(name, literal)
    answer(200, reply)(call, response)
  }
}

async function selfTest(
  name: EngineName,
  handler: FakeHandler,
  over: { version?: string; route?: ScoreRoute; label?: string; maxModelLen?: number } = {},
) {
  const server = await FakeServer.start(handler)
  const opened = openFetch(server.url, null, { timeoutMs: 5_000 })
  open.push(server, opened)
  const target = { model: 'rm', version: null, basePath: '', ...over }
  const result = await rawScoreSelfTest(engineOf(name), opened.fetch, target)
  return { ...result, server, fetch: opened.fetch, target }
}

describe('vLLM’s dialects of activation', () => {
  const honored = model('vllm', (text, { use_activation: on = true }) =>
    on ? sigmoid(logit(text)) : logit(text),
  )

  test('honored parameter: raw', async () => {
    const result = await selfTest('vllm', honored)
    expect(result).toMatchObject({ verdict: 'raw', raw: 1.25, calibration: 1.25 })
    expect(result.activated).toBeCloseTo(sigmoid(1.25))
    expect(result.server.calls.length).toBeLessThanOrEqual(9)
  })

  test('honored parameter, with logits between 0 and 1: raw by their sigmoids', async () => {
    const small = (text: string) => 0.4 + logit(text) / 20
    const handler = model('vllm', (text, { use_activation: on = true }) =>
      on ? sigmoid(small(text)) : small(text),
    )
    expect(await selfTest('vllm', handler)).toMatchObject({
      verdict: 'raw',
      detail: expect.stringContaining('sigmoids'),
    })
  })

  test('ignored parameter, as in releases with another name for it: squashed', async () => {
    const ignores = model('vllm', (text) => sigmoid(logit(text)))
    const result = await selfTest('vllm', ignores)
    expect(result).toMatchObject({ verdict: 'squashed' })
    expect(result.raw).toBe(result.activated)
    expect(result.detail).toMatch(/0\.777/)
  })

  test('inverted parameter, as in releases of late 2025: inverted', async () => {
    const inverts = model('vllm', (text, { use_activation: on = true }) =>
      on ? logit(text) : sigmoid(logit(text)),
    )
    expect(await selfTest('vllm', inverts)).toMatchObject({ verdict: 'inverted', activated: 1.25 })
  })

  test('inverted parameter, with logits between 0 and 1: inverted', async () => {
    const small = (text: string) => 0.4 + logit(text) / 20
    const inverts = model('vllm', (text, { use_activation: on = true }) =>
      on ? small(text) : sigmoid(small(text)),
    )
    expect(await selfTest('vllm', inverts)).toMatchObject({ verdict: 'inverted' })
  })

  test('the older parameter is sent to older releases', async () => {
    const old = model('vllm', (text, { activation: on = true }) =>
      on ? sigmoid(logit(text)) : logit(text),
    )
    expect(await selfTest('vllm', old, { version: '0.11.0' })).toMatchObject({ verdict: 'raw' })
    // A current server ignores the older parameter.
    expect(await selfTest('vllm', honored, { version: '0.11.0' })).toMatchObject({
      verdict: 'squashed',
    })
  })

  test('raw and activated scores outside 0 to 1: raw', async () => {
    const identity = model('vllm', (text) => logit(text))
    expect(await selfTest('vllm', identity)).toMatchObject({ verdict: 'raw' })
  })

  test.each([
    ['within 0 to 1', 0.3, 20],
    ['outside 0 to 1', 0.3, 1],
  ])('raw scores %s that do not belong to the activated ones: unverified', async (_, at, by) => {
    // In vLLM 0.14.0, raw scores lack the activation of BERT's pooler.
    const headless = model('vllm', (text, { use_activation: on = true }) =>
      on ? sigmoid(logit(text) / 10) : at + logit(text) / by,
    )
    expect(await selfTest('vllm', headless)).toMatchObject({
      verdict: 'unverified',
      detail: expect.stringMatching(/not the sigmoids.*vLLM 0\.14/),
    })
  })

  test.each(['pair', 'token'] as const)(
    'the route %s is tested through that route',
    async (route) => {
      const handler: FakeHandler = (call, response) => {
        const on = JSON.parse(call.body).use_activation
        const raw = logit(call.body)
        const score = on ? sigmoid(raw) : raw
        const datum = route === 'pair' ? { score } : { data: [[0.1], [score]] }
        answer(200, { data: [{ index: 0, ...datum }] })(call, response)
      }
      const result = await selfTest('vllm', handler, { route })
      expect(result).toMatchObject({ verdict: 'raw', raw: 1.25 })
      const path = route === 'pair' ? '/score' : '/pooling'
      expect(new Set(result.server.calls.map((call) => call.path))).toEqual(new Set([path]))
    },
  )
})

test.each(['vllm', 'sglang', 'tei', 'llamacpp'] as const)(
  '%s with equal scores for different texts is constant, for any score',
  async (name) => {
    for (const score of [1, 0, -0.73, 4.25]) {
      const result = await selfTest(
        name,
        model(name, () => score),
      )
      expect(result).toMatchObject({ verdict: 'constant', raw: score, activated: null })
      expect(result.detail).toContain(`score exactly ${score}`)
      const texts = result.server.calls.map((call) => call.body)
      expect(new Set(texts).size).toBeGreaterThanOrEqual(4)
      expect(texts.filter((text) => /\d|```/.test(text)).length).toBeGreaterThanOrEqual(2)
    }
  },
)

test('an OpenRLHF server may score all texts 0 or 1', async () => {
  const result = await selfTest(
    'openrlhf',
    model('openrlhf', () => 1),
  )
  expect(result).toMatchObject({
    verdict: 'not_applicable',
    detail: expect.stringContaining('all score 1'),
  })
})

describe('llama.cpp', () => {
  // The server returns the softmax share of the first of two labels; the second label is the score.
  const softmax = model('llamacpp', (text) => 1 - sigmoid(2 * logit(text)))

  test('raw scores are raw', async () => {
    expect(await selfTest('llamacpp', model('llamacpp', logit))).toMatchObject({
      verdict: 'raw',
      raw: 1.25,
    })
  })

  test('a softmax over one label is 1 for every text, and reported', async () => {
    const result = await selfTest(
      'llamacpp',
      model('llamacpp', () => 1),
    )
    expect(result).toMatchObject({
      verdict: 'constant',
      detail: expect.stringMatching(/softmax over one label/),
    })
  })

  test('a softmax over two labels needs a named label and an override', async () => {
    expect(await selfTest('llamacpp', softmax)).toMatchObject({
      verdict: 'label_unknown',
      detail: expect.stringMatching(/"label": 0 .*or 1 .*selfTestOverride/),
    })
    const first = await selfTest('llamacpp', softmax, { label: '0' })
    const second = await selfTest('llamacpp', softmax, { label: '1' })
    expect([first, second]).toMatchObject([{ verdict: 'squashed' }, { verdict: 'squashed' }])
    expect(second.raw).toBeCloseTo(1 - (first.raw as number))
    expect(second.raw).toBeGreaterThan(0.5)
  })

  test('a raw score has no second label', async () => {
    const result = await selfTest('llamacpp', model('llamacpp', logit), { label: '1' })
    expect(result).toMatchObject({
      verdict: 'failed',
      detail: expect.stringContaining('label "1"'),
    })
  })
})

test('SGLang’s normalized score of one number: squashed, with the reason', async () => {
  const normalized = model('sglang', (text) => Math.sign(logit(text)))
  expect(await selfTest('sglang', normalized)).toMatchObject({ verdict: 'squashed' })
})

test('SGLang has no activated scores: raw if some are outside 0 to 1, otherwise unverified', async () => {
  expect(await selfTest('sglang', model('sglang', logit))).toMatchObject({
    verdict: 'raw',
    raw: 1.25,
    activated: null,
  })
  const unit = model('sglang', (text) => sigmoid(logit(text)))
  expect(await selfTest('sglang', unit)).toMatchObject({ verdict: 'unverified' })
})

test('TEI: raw_scores honored and ignored, by both routes', async () => {
  for (const route of ['classify', 'pair'] as const) {
    const honored = model('tei', (text, { raw_scores: raw }) =>
      raw ? logit(text) : sigmoid(logit(text)),
    )
    expect(await selfTest('tei', honored, { route })).toMatchObject({ verdict: 'raw' })
    const ignored = model('tei', (text) => sigmoid(logit(text)))
    expect(await selfTest('tei', ignored, { route })).toMatchObject({ verdict: 'squashed' })
  }
})

describe('truncation', () => {
  const cutAt = (chars: number): FakeHandler =>
    model('vllm', (text, { use_activation: on = true }) => {
      const raw = logit(text.slice(0, chars))
      return on ? sigmoid(raw) : raw
    })

  test('a server that cuts the end off is detected', async () => {
    expect(await selfTest('vllm', cutAt(2_000))).toMatchObject({
      verdict: 'truncated',
      raw: 1.25,
      detail: expect.stringContaining('truncates'),
    })
    // If the max context is known to be 4,096 tokens, the self-test sends longer texts.
    expect(await selfTest('vllm', cutAt(10_000), { maxModelLen: 4096 })).toMatchObject({
      verdict: 'truncated',
    })
  })

  test('a server that refuses or scores long texts does not truncate', async () => {
    const whole = cutAt(1e9)
    expect(await selfTest('vllm', whole)).toMatchObject({ verdict: 'raw' })
    const refuses: FakeHandler = (call, response) =>
      call.body.length > 2_000
        ? answer(400, { error: { message: "model's maximum context length is 400" } })(
            call,
            response,
          )
        : whole(call, response)
    expect(await selfTest('vllm', refuses)).toMatchObject({ verdict: 'raw' })
  })

  test('the long texts stay below the max context', async () => {
    const { server } = await selfTest('vllm', cutAt(1e9), { maxModelLen: 512 })
    expect(Math.max(...server.calls.map((call) => call.body.length))).toBeLessThan(512 * 4)
    const { server: large } = await selfTest('vllm', cutAt(1e9), { maxModelLen: 1_000_000 })
    expect(Math.max(...large.calls.map((call) => call.body.length))).toBeLessThan(30_000)
  })

  test('two equal scores of long texts prove no truncation, because arithmetic may be imprecise', async () => {
    const coarse = model('vllm', (text, { use_activation: on = true }) => {
      const raw = text.length > 2_000 ? (text.includes('Go away') ? -1 : 2) : logit(text)
      return on ? sigmoid(raw) : raw
    })
    expect(await selfTest('vllm', coarse)).toMatchObject({ verdict: 'raw' })
  })

  test('is not tested on a server with squashed scores', async () => {
    const both = model('vllm', (text) => sigmoid(logit(text.slice(0, 2_000))))
    expect(await selfTest('vllm', both)).toMatchObject({ verdict: 'squashed' })
  })

  test('is also tested on engines without an activation', async () => {
    const rewards = model('openrlhf', (text) => logit(text.slice(0, 2_000)))
    expect(await selfTest('openrlhf', rewards)).toMatchObject({ verdict: 'truncated' })
  })
})

test('the self-test is not applicable to engines without an activation; some have a calibration', async () => {
  expect(
    await selfTest(
      'openrlhf',
      model('openrlhf', (text) => sigmoid(logit(text))),
    ),
  ).toMatchObject({ verdict: 'not_applicable', calibration: sigmoid(1.25), activated: null })
  for (const name of ['http', 'openai'] as const) {
    const result = await selfTest(name, answer(200, {}))
    expect(result).toMatchObject({ verdict: 'not_applicable', raw: null, calibration: null })
    expect(result.server.calls).toHaveLength(0)
  }
})

test('a server without a score fails the test with its answer', async () => {
  expect(await selfTest('vllm', answer(503, 'loading'))).toMatchObject({
    verdict: 'failed',
    raw: null,
    calibration: null,
    detail: expect.stringContaining('loading'),
  })
  expect(await selfTest('vllm', answer(200, scoreBody('vllm', 'NaN')))).toMatchObject({
    verdict: 'failed',
  })
  const gone = await FakeServer.start(answer(200, ''))
  const opened = openFetch(gone.url, null, { timeoutMs: 1_000 })
  open.push(opened)
  await gone.close()
  const target = { model: 'rm', version: null }
  expect(await rawScoreSelfTest(engineOf('vllm'), opened.fetch, target)).toMatchObject({
    verdict: 'failed',
    detail: expect.stringContaining('cannot be reached'),
  })
})

test('a calibration has the same scores and token counts as the self-test', async () => {
  const result = await selfTest('vllm', model('vllm', logit))
  const before = result.server.calls.length
  const scores = await calibrationScores(engineOf('vllm'), result.fetch, result.target)
  expect(scores).toEqual(result.calibrations)
  expect(scores?.[0]).toEqual({ score: result.calibration, promptTokens: 7 })
  const calls = result.server.calls.slice(before).map((call) => call.body)
  expect(calls).toHaveLength(2)
  // Tokenizers of two versions differ on digits, code, blank lines and non-ASCII text.
  const mixed = JSON.parse(calls[1] as string)
    .messages.map((m: { content: string }) => m.content)
    .join()
  for (const part of [/\d{10}/, /```python/, /\n\n\n/, /[^\x00-\x7f]/, /\t/])
    expect(mixed).toMatch(part)
  result.server.handler = answer(500, { detail: 'engine died' })
  await expect(calibrationScores(engineOf('vllm'), result.fetch, result.target)).rejects.toThrow(
    'engine died',
  )
  expect(await calibrationScores(engineOf('http'), result.fetch, result.target)).toBeNull()
})

test('calibrations differ if scores differ by over 5 % (0.05 near zero), or token counts differ', () => {
  const differ = (a: number, b: number) =>
    calibrationDiffers([{ score: a, promptTokens: null }], [{ score: b, promptTokens: null }])
  expect(differ(1, 1)).toBe(false)
  expect(differ(0.01, 0.05)).toBe(false)
  expect(differ(0, 0.06)).toBe(true)
  expect(differ(10, 10.4)).toBe(false)
  expect(differ(10, 10.6)).toBe(true)
  expect(differ(-3, 3)).toBe(true)
  const english: Calibration = { score: 1, promptTokens: 20 }
  // Recorded: one checkpoint under two versions of transformers, which tokenize digits differently.
  const digits = (score: number, promptTokens: number | null): Calibration[] => [
    english,
    { score, promptTokens },
  ]
  expect(calibrationDiffers(digits(-4.253, 61), digits(-5.473, 61))).toBe(true)
  expect(calibrationDiffers(digits(-4.253, 61), digits(-4.253, 58))).toBe(true)
  expect(calibrationDiffers(digits(-4.253, 61), digits(-4.253, null))).toBe(false)
  expect(calibrationDiffers([english], digits(-4.253, 61))).toBe(false)
})

describe('a judge', () => {
  const chat = async (handler: FakeHandler) => {
    const server = await FakeServer.start(handler)
    const opened = openFetch(server.url, null, { timeoutMs: 5_000 })
    open.push(server, opened)
    return chatSelfTest('vllm', opened.fetch, { model: 'judge', version: null, basePath: '' })
  }
  const said = (message: object, finish_reason: string) =>
    answer(200, { choices: [{ index: 0, message, finish_reason }] })

  test.each([
    ['a reply', said({ content: 'Yes' }, 'stop')],
    ['a truncated reply', said({ content: 'Ye' }, 'length')],
    ['only reasoning', said({ content: null, reasoning: 'hm' }, 'length')],
    ['a refusal', said({ content: null, refusal: 'no' }, 'stop')],
  ])('passes with %s', async (_what, handler) => {
    expect(await chat(handler)).toMatchObject({ verdict: 'not_applicable' })
  })

  test.each([
    // Recorded: a process reward model on vLLM 0.14.0, where every route exists for every model.
    [
      '200',
      200,
      { error: { message: 'The model does not support Chat Completions API', code: 400 } },
    ],
    [
      '400',
      400,
      { error: { message: 'The model does not support Chat Completions API', code: 400 } },
    ],
    ['404', 404, { detail: 'Not Found' }],
  ])('fails if its model cannot chat: %s', async (_what, status, body) => {
    expect(await chat(answer(status, body))).toMatchObject({
      verdict: 'failed',
      routeMissing: true,
    })
  })

  test('that fails temporarily may be tested again', async () => {
    const result = await chat(answer(503, 'loading'))
    expect(result).toMatchObject({ verdict: 'failed', detail: expect.stringContaining('loading') })
    expect(result).not.toHaveProperty('routeMissing')
  })
})
