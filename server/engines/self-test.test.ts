import { afterEach, describe, expect, test } from 'vitest'
import type { EngineName, ScoreRoute } from './engine.ts'
import { type OpenFetch, openFetch } from './probe.ts'
import { engineOf } from './registry.ts'
import { calibrationDiffers, calibrationScore, rawScoreSelfTest } from './self-test.ts'
import { answer, type FakeHandler, FakeServer, scoreBody } from './testing/fake-server.ts'

const open: (FakeServer | OpenFetch)[] = []
afterEach(async () => {
  await Promise.all(open.splice(0).map((one) => one.close()))
})

const sigmoid = (x: number) => 1 / (1 + Math.exp(-x))

/** A reward model: likes capitals and dislikes fruit, wherever they stand. */
const logit = (text: string) =>
  (text.match(/Paris/g) ?? []).length * 1.5 - (text.match(/bananas/g) ?? []).length * 2 - 0.25

interface Body {
  use_activation?: boolean
  activation?: boolean
  raw_scores?: boolean
}

/** Answers as that engine's server: the text is found in the body, whatever the dialect. */
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
  over: { version?: string; route?: ScoreRoute; maxModelLen?: number } = {},
) {
  const server = await FakeServer.start(handler)
  const opened = openFetch(server.url, null, { timeoutMs: 5_000 })
  open.push(server, opened)
  const target = { model: 'rm', version: null, basePath: '', ...over }
  const result = await rawScoreSelfTest(engineOf(name), opened.fetch, target)
  return { ...result, server, fetch: opened.fetch, target }
}

describe('vLLM’s dialects of activation', () => {
  const honoured = model('vllm', (text, { use_activation: on = true }) =>
    on ? sigmoid(logit(text)) : logit(text),
  )

  test('honoured: raw', async () => {
    const result = await selfTest('vllm', honoured)
    expect(result).toMatchObject({ verdict: 'raw', raw: 1.25, calibration: 1.25 })
    expect(result.activated).toBeCloseTo(sigmoid(1.25))
    expect(result.server.calls.length).toBeLessThanOrEqual(7)
  })

  test('honoured by a model whose logits lie between 0 and 1: raw by their sigmoids', async () => {
    const small = (text: string) => 0.4 + logit(text) / 20
    const handler = model('vllm', (text, { use_activation: on = true }) =>
      on ? sigmoid(small(text)) : small(text),
    )
    expect(await selfTest('vllm', handler)).toMatchObject({
      verdict: 'raw',
      detail: expect.stringContaining('sigmoids'),
    })
  })

  test('ignored, as by the releases that know another word: squashed', async () => {
    const ignores = model('vllm', (text) => sigmoid(logit(text)))
    const result = await selfTest('vllm', ignores)
    expect(result).toMatchObject({ verdict: 'squashed' })
    expect(result.raw).toBe(result.activated)
    expect(result.detail).toMatch(/0\.777/)
  })

  test('inverted, as by the releases of late 2025: inverted', async () => {
    const inverts = model('vllm', (text, { use_activation: on = true }) =>
      on ? logit(text) : sigmoid(logit(text)),
    )
    expect(await selfTest('vllm', inverts)).toMatchObject({ verdict: 'inverted', activated: 1.25 })
  })

  test('inverted over logits between 0 and 1 is told from honoured', async () => {
    const small = (text: string) => 0.4 + logit(text) / 20
    const inverts = model('vllm', (text, { use_activation: on = true }) =>
      on ? small(text) : sigmoid(small(text)),
    )
    expect(await selfTest('vllm', inverts)).toMatchObject({ verdict: 'inverted' })
  })

  test('the old word for the old releases', async () => {
    const old = model('vllm', (text, { activation: on = true }) =>
      on ? sigmoid(logit(text)) : logit(text),
    )
    expect(await selfTest('vllm', old, { version: '0.11.0' })).toMatchObject({ verdict: 'raw' })
    // A current server passes over it.
    expect(await selfTest('vllm', honoured, { version: '0.11.0' })).toMatchObject({
      verdict: 'squashed',
    })
  })

  test('a model without activation scores outside 0 to 1 both ways: raw', async () => {
    const identity = model('vllm', (text) => logit(text))
    expect(await selfTest('vllm', identity)).toMatchObject({ verdict: 'raw' })
  })

  test('a softmax over labels differs from the logits without being their sigmoid: raw', async () => {
    const softmax = model('vllm', (text, { use_activation: on = true }) =>
      on ? 0.9 - logit(text) / 100 : 0.3 + logit(text) / 20,
    )
    expect(await selfTest('vllm', softmax)).toMatchObject({ verdict: 'raw' })
  })

  test.each(['pair', 'token'] as const)(
    'the route %s is tested by its own calls',
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

test('SGLang’s /v1/classify shape, always 1: squashed, and why is said', async () => {
  expect(
    await selfTest(
      'sglang',
      model('sglang', () => 1),
    ),
  ).toMatchObject({
    verdict: 'squashed',
    activated: null,
    detail: expect.stringContaining('Every text scores 1'),
  })
  const normalised = model('sglang', (text) => Math.sign(logit(text)))
  expect(await selfTest('sglang', normalised)).toMatchObject({ verdict: 'squashed' })
})

test('SGLang has one way to ask: raw by what it scores, else unverified', async () => {
  expect(await selfTest('sglang', model('sglang', logit))).toMatchObject({
    verdict: 'raw',
    raw: 1.25,
    activated: null,
  })
  const unit = model('sglang', (text) => sigmoid(logit(text)))
  expect(await selfTest('sglang', unit)).toMatchObject({ verdict: 'unverified' })
})

test('TEI: raw_scores honoured and ignored, by both routes', async () => {
  for (const route of ['classify', 'pair'] as const) {
    const honoured = model('tei', (text, { raw_scores: raw }) =>
      raw ? logit(text) : sigmoid(logit(text)),
    )
    expect(await selfTest('tei', honoured, { route })).toMatchObject({ verdict: 'raw' })
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

  test('a server that cuts the end off is found out', async () => {
    expect(await selfTest('vllm', cutAt(2_000))).toMatchObject({
      verdict: 'truncated',
      raw: 1.25,
      detail: expect.stringContaining('cuts'),
    })
    // Known to take 4,096 tokens, it is held to them.
    expect(await selfTest('vllm', cutAt(10_000), { maxModelLen: 4096 })).toMatchObject({
      verdict: 'truncated',
    })
  })

  test('one that refuses long texts is honest, and so is one that scores them', async () => {
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

  test('the long texts stay below the model’s length', async () => {
    const { server } = await selfTest('vllm', cutAt(1e9), { maxModelLen: 512 })
    expect(Math.max(...server.calls.map((call) => call.body.length))).toBeLessThan(512 * 4)
    const { server: large } = await selfTest('vllm', cutAt(1e9), { maxModelLen: 1_000_000 })
    expect(Math.max(...large.calls.map((call) => call.body.length))).toBeLessThan(30_000)
  })

  test('coarse arithmetic is not taken for it: two equal long scores are not enough', async () => {
    const coarse = model('vllm', (text, { use_activation: on = true }) => {
      const raw = text.length > 2_000 ? (text.includes('Go away') ? -1 : 2) : logit(text)
      return on ? sigmoid(raw) : raw
    })
    expect(await selfTest('vllm', coarse)).toMatchObject({ verdict: 'raw' })
  })

  test('squashed is said first', async () => {
    const both = model('vllm', (text) => sigmoid(logit(text.slice(0, 2_000))))
    expect(await selfTest('vllm', both)).toMatchObject({ verdict: 'squashed' })
  })

  test('looked for where there is no activation too', async () => {
    const rewards = model('openrlhf', (text) => logit(text.slice(0, 2_000)))
    expect(await selfTest('openrlhf', rewards)).toMatchObject({ verdict: 'truncated' })
  })
})

test('engines without an activation are not applicable, with a calibration where one can be had', async () => {
  for (const name of ['openrlhf', 'llamacpp'] as const) {
    expect(
      await selfTest(
        name,
        model(name, (text) => sigmoid(logit(text))),
      ),
    ).toMatchObject({
      verdict: 'not_applicable',
      calibration: sigmoid(1.25),
      activated: null,
    })
  }
  for (const name of ['http', 'openai'] as const) {
    const result = await selfTest(name, answer(200, {}))
    expect(result).toMatchObject({ verdict: 'not_applicable', raw: null, calibration: null })
    expect(result.server.calls).toHaveLength(0)
  }
})

test('a server that gives no score fails the test, with what it said', async () => {
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

test('the calibration score is one call, and the same as the self-test’s', async () => {
  const result = await selfTest('vllm', model('vllm', logit))
  const before = result.server.calls.length
  const score = await calibrationScore(engineOf('vllm'), result.fetch, result.target)
  expect(score).toBe(result.calibration)
  expect(result.server.calls.length - before).toBe(1)
  result.server.handler = answer(500, { detail: 'engine died' })
  await expect(calibrationScore(engineOf('vllm'), result.fetch, result.target)).rejects.toThrow(
    'engine died',
  )
  expect(await calibrationScore(engineOf('http'), result.fetch, result.target)).toBeNull()
})

test('calibrations differ beyond 5 % of the larger, or 0.05 near zero', () => {
  expect(calibrationDiffers(1, 1)).toBe(false)
  expect(calibrationDiffers(0.01, 0.05)).toBe(false)
  expect(calibrationDiffers(0, 0.06)).toBe(true)
  expect(calibrationDiffers(10, 10.4)).toBe(false)
  expect(calibrationDiffers(10, 10.6)).toBe(true)
  expect(calibrationDiffers(-3, 3)).toBe(true)
})
