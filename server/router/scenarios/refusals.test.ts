import { afterEach, describe, expect, test } from 'vitest'
import { inFullRun } from '../../../testkit/service/full-run.ts'
import type { ControlChangeInput } from '../../../testkit/simulated-rm/options.ts'
import { answer, type FakeHandler, scores } from '../../engines/testing/fake-server.ts'
import type { RouterResult } from '../router-types.ts'
import { config, Harness, until } from '../testing/harness.ts'
import { failuresOf, SimulatedPool } from '../testing/pool.ts'

let pool: SimulatedPool | undefined
let harness: Harness | undefined
afterEach(async () => {
  await pool?.close()
  await harness?.close()
  pool = undefined
  harness = undefined
})

const steady = { latency: 'constant:5' }
const reasonsOf = (results: RouterResult[]) =>
  results.flatMap((result) => (result.ok ? [] : [result.reason]))

describe('an answer that no sample can cause', () => {
  test.each<[string, ControlChangeInput['faults']]>([
    ['404', { routeMissing: { share: 1, status: 404 } }],
    ['a page with status 200', { html: 1 }],
    ['a dead engine, as reported by vLLM 0.11', { engineDead: { share: 1, as: '400' } }],
    ...inFullRun<[string, ControlChangeInput['faults']]>(
      ['a refused key', { refused: { share: 1, status: 401 } }],
      ['a dead engine, as reported by vLLM 0.14', { engineDead: { share: 1, as: '200' } }],
      ['405', { routeMissing: { share: 1, status: 405 } }],
      ['501', { routeMissing: { share: 1, status: 501 } }],
      ['a page with status 400', { html: { share: 1, status: 400 } }],
      ['refusals in unknown words', { refused: 1 }],
    ),
  ])('%s from one of two servers: every sample is scored by the other', async (_what, faults) => {
    pool = await SimulatedPool.start([steady, steady])
    pool.servers[0]?.control({ faults })
    const results = await pool.scoreAll(400)
    expect(failuresOf(results)).toEqual([])
    for (const result of results) expect(result).toMatchObject({ serverId: 2 })
    expect(
      pool.events.filter(({ to }) => to === 'ejected').map(({ serverId }) => serverId),
    ).toContain(1)
    expect(pool.stats(2).health).toBe('ok')
    // The broken server receives only the samples in flight and, after that, probes.
    expect(pool.stats(1).requests).toBeLessThanOrEqual(8 + 8 + 2 * pool.stats(1).ejections)
  })
})

describe('the only server breaks in the middle of a batch and comes back', () => {
  test.each<[string, ControlChangeInput['faults'], object]>([
    [
      'its engine dies, as reported by vLLM 0.14 on /score',
      { engineDead: 1 },
      { version: '0.14.0', serves: 'pair', route: 'pair' },
    ],
    ...inFullRun<[string, ControlChangeInput['faults'], object]>(
      ['it refuses everything in unknown words', { refused: 1 }, {}],
      ['its engine dies, as reported by vLLM 0.11', { engineDead: 1 }, { version: '0.11.0' }],
      ['it refuses everything as too large', { refused: { share: 1, status: 413 } }, {}],
      ['its route is missing', { routeMissing: 1 }, {}],
      ['it answers NaN', { nan: 1 }, {}],
    ),
  ])(
    '%s: nothing is rejected, everything is scored',
    async (_what, faults, more) => {
      const { version, serves, route } = more as {
        version?: string
        serves?: 'pair'
        route?: 'pair'
      }
      pool = await SimulatedPool.start(
        [{ ...steady, ...(version ? { version } : {}), ...(serves ? { serves } : {}) }],
        {
          slots: 16,
          router: { ejectionStepMs: 200 },
          server: { ...(version ? { version } : {}), ...(route ? { route } : {}) },
        },
      )
      const results = pool.scoreAll(1_500, () => ({ timeoutMs: 60_000 }))
      await until(() => (pool as SimulatedPool).stats(1).latency.reduce((a, b) => a + b, 0) > 300)
      pool.servers[0]?.control({ faults })
      await until(() => (pool as SimulatedPool).stats(1).ejections >= 2)
      pool.servers[0]?.control({ faults: null })
      expect(reasonsOf(await results)).toEqual([])
    },
    60_000,
  )
})

describe('a healthy server that refuses some samples', () => {
  const refuses: FakeHandler = answer(400, { error: { message: 'no such thing' } })
  const refusesMarked: FakeHandler = (call, response) =>
    (call.body.includes('#bad#') ? refuses : scores(1))(call, response)
  const isCanary = (body: string) => !body.includes('sample ')

  test.each<[string, (i: number) => boolean]>([
    ['consecutive', (i) => i >= 300 && i < 350],
    ...inFullRun<[string, (i: number) => boolean]>(['scattered', (i) => i % 20 === 7]),
  ])('%s: exactly these are rejected, with few canaries', async (_how, isBad) => {
    harness = new Harness()
    const [fake] = await harness.serve([refusesMarked], 16)
    const startedAtMs = performance.now()
    const results = await Promise.all(
      Array.from({ length: 1_000 }, (_, i) =>
        (harness as Harness).score({
          input: { prompt: 'Q', response: `sample ${i}${isBad(i) ? ' #bad#' : ''}` },
        }),
      ),
    )
    const tookMs = performance.now() - startedAtMs
    results.forEach((result, i) => {
      if (isBad(i)) expect(result).toMatchObject({ ok: false, reason: 'rejected' })
      else expect(result).toMatchObject({ ok: true })
    })
    const refused = results.find(({ ok }) => !ok)
    expect(refused?.attempts).toMatchObject([
      { outcome: 'client', reason: 'rejected', status: 400 },
    ])
    const canaries = fake?.calls.filter(({ body }) => isCanary(body)).length ?? 0
    expect(canaries).toBeGreaterThanOrEqual(1)
    expect(canaries).toBeLessThanOrEqual(1 + Math.ceil(tookMs / 1_000))
    expect(harness.stats()).toMatchObject({ ejections: 0, inFlight: 0 })
  })
})

describe('a server that never scores its canary', () => {
  const refusesAll: FakeHandler = answer(400, { error: { message: 'no such thing' } })

  test('ends no sample as rejected: timeouts, deadlines and aborts apply, and no state remains', async () => {
    harness = new Harness({ ejectionStepMs: 100 })
    const [fake] = await harness.serve([refusesAll], 8)
    const abort = new AbortController()
    const ends = [
      ...Array.from({ length: 20 }, () => harness?.score({ timeoutMs: 700, maxAttempts: 1 })),
      harness.score({ deadlineMs: 300 }),
      harness.score({ signal: abort.signal }),
    ]
    await until(() => (fake?.calls.length ?? 0) > 8)
    abort.abort()
    const results = (await Promise.all(ends)) as RouterResult[]
    const reasons = reasonsOf(results)
    expect(reasons).toHaveLength(22)
    for (const reason of reasons.slice(0, 20)) expect(['no_server', 'timeout']).toContain(reason)
    expect(reasons.slice(20)).toEqual(['deadline', 'cancelled'])
    const [first] = results
    expect(first).toHaveProperty('detail', expect.stringContaining('no such thing'))
    for (const attempt of first?.attempts ?? []) {
      expect(attempt).toMatchObject({ outcome: 'client', reason: 'rejected', status: 400 })
    }
    expect(harness.stats().ejections).toBeGreaterThan(0)
    await until(() => harness?.stats().inFlight === 0)
    expect(harness.stats().waiting).toBe(0)
  })

  test('if it hangs, its canary is cancelled when the last waiting sample ends', async () => {
    harness = new Harness()
    let calls = 0
    const [fake] = await harness.serve([
      (call, response) => {
        if (calls++ === 0) refusesAll(call, response)
      },
    ])
    const abort = new AbortController()
    const result = harness.score({ signal: abort.signal })
    await until(() => calls === 2)
    expect(harness.stats()).toMatchObject({ canaries: 1, inFlight: 1 })
    abort.abort()
    expect(await result).toMatchObject({ ok: false, reason: 'cancelled' })
    expect(harness.stats()).toMatchObject({ canaries: 1, inFlight: 0, ejections: 0 })
    await until(() => fake?.inFlight === 0)
  })
})

describe('a refusal', () => {
  const refuses: FakeHandler = answer(422, { detail: 'not this one' })

  test('repeated by a second server is the sample’s fault, without a canary', async () => {
    harness = new Harness()
    const [a, b] = await harness.serve([refuses, refuses])
    const result = await harness.score({ maxAttempts: 1 })
    expect(result).toMatchObject({ ok: false, reason: 'rejected' })
    expect(result.attempts).toMatchObject([
      { outcome: 'client', status: 422, attempt: 1 },
      { outcome: 'client', status: 422, attempt: 2 },
    ])
    expect([a?.calls.length, b?.calls.length]).toEqual([1, 1])
  })

  test('as too long is doubtful for a text shorter than one the server has scored', async () => {
    harness = new Harness({ ejectionStepMs: 100 })
    const tooLong = answer(400, { error: { message: "the model's context length is 8 tokens" } })
    const [fake] = await harness.serve([scores(1)])
    const long = { prompt: 'Q', response: 'word '.repeat(2_000) }
    expect(await harness.score({ input: long })).toMatchObject({ ok: true })
    if (fake) fake.handler = tooLong
    const short = harness.score()
    await until(() => (harness?.stats().ejections ?? 0) > 0)
    if (fake) fake.handler = scores(2)
    expect(await short).toMatchObject({ ok: true, score: 2 })
  })

  test('by a server that also refuses the fixed canary is decided by a text that the server has scored', async () => {
    harness = new Harness()
    const [fake] = await harness.serve([
      (call, response) => (call.body.includes('fine') ? scores(1) : refuses)(call, response),
    ])
    expect(await harness.score({ input: { prompt: 'Q', response: 'fine' } })).toMatchObject({
      ok: true,
    })
    expect(await harness.score()).toMatchObject({ ok: false, reason: 'rejected' })
    expect(fake?.calls).toHaveLength(4)
    expect(harness.stats()).toMatchObject({ health: 'ok', ejections: 0, canaries: 2 })
  })

  test('of one text ends all identical samples with one call', async () => {
    harness = new Harness()
    const input = { prompt: 'Q', response: 'the same' }
    const [fake] = await harness.serve([
      (call, response) => (call.body.includes('the same') ? refuses : scores(1))(call, response),
    ])
    const score = harness.score.bind(harness)
    const results = await Promise.all(Array.from({ length: 8 }, () => score({ input, group: 'g' })))
    expect(reasonsOf(results)).toEqual(Array(8).fill('rejected'))
    expect(fake?.calls).toHaveLength(2)
  })

  test('waits for a slot for the canary, and requests that slot', async () => {
    harness = new Harness()
    const { router } = harness
    const [fake] = await harness.serve([
      (call, response) => {
        router.setSlots(1, 0)
        refuses(call, response)
      },
    ])
    const result = harness.score()
    await until(() => router.inFlight(1) === 0 && harness?.stats().failures.client === 1)
    expect(router.demand(1)).toBe(1)
    expect(harness.stats()).toMatchObject({ waiting: 0, canaries: 0 })
    if (fake) fake.handler = scores(1)
    router.setSlots(1, 1)
    expect(await result).toMatchObject({ ok: false, reason: 'rejected' })
    expect(router.demand(1)).toBe(0)
  })
})

describe('a custom scorer', () => {
  const samplesOf = (body: string) =>
    (JSON.parse(body) as { samples: { solutionStr: string }[] }).samples
  const own: FakeHandler = (call, response) => {
    const [sample] = samplesOf(call.body)
    const text = sample?.solutionStr ?? ''
    const scored = text.startsWith('sample') && !text.includes('#bad#')
    answer(scored ? 200 : 400, scored ? { results: [{ score: 1 }] } : 'no')(call, response)
  }

  test('is probed with texts it has scored, never with a made-up text', async () => {
    harness = new Harness()
    const fake = await harness.fake(own)
    harness.router.setServers([config(1, fake.url, { engine: 'http' })])
    harness.router.setSlots(1, 8)
    const score = (text: string) =>
      (harness as Harness).score({ input: { prompt: 'Q', response: text } })
    // No text was scored yet, so the first refused sample waits for a scored text.
    const early = score('sample #bad# 0')
    await until(() => harness?.stats().failures.client === 1)
    expect(await score('sample 1')).toMatchObject({ ok: true })
    expect(await early).toMatchObject({ ok: false, reason: 'rejected' })
    for (const call of fake.calls) {
      expect(samplesOf(call.body)[0]?.solutionStr).toMatch(/^sample/)
    }
    expect(harness.stats()).toMatchObject({ health: 'ok', ejections: 0, canaries: 1 })
  })
})

test('micro-batches follow the same rules: a server that refuses everything fails no sample', async () => {
  pool = await SimulatedPool.start([{ dialect: 'sglang', latency: 'constant:2' }], {
    slots: 64,
    router: {
      ejectionStepMs: 200,
      microBatching: {
        isBusy: () => true,
        workMs: Number.POSITIVE_INFINITY,
        slowMs: Number.POSITIVE_INFINITY,
        splitChecks: Number.POSITIVE_INFINITY,
      },
    },
  })
  expect(failuresOf(await pool.scoreAll(128, undefined, () => 500))).toEqual([])
  const results = pool.scoreAll(1_500, (i) => ({ group: `g${i >> 3}`, timeoutMs: 60_000 }))
  await until(() => (pool as SimulatedPool).stats(1).latency.reduce((a, b) => a + b, 0) > 400)
  pool.servers[0]?.control({ faults: { refused: 1 } })
  await until(() => (pool as SimulatedPool).stats(1).ejections >= 1)
  pool.servers[0]?.control({ faults: null })
  expect(reasonsOf(await results)).toEqual([])
}, 60_000)

describe('a judge', () => {
  const conversation = (i: number, maxTokens = 32) => ({
    model: 'rm',
    chat: { messages: [{ role: 'user', content: `Rate answer ${i}: 42` }], maxTokens },
    timeoutMs: 60_000,
    maxAttempts: 4,
  })

  test('that refuses everything and then recovers costs no attempt', async () => {
    pool = await SimulatedPool.start([{ dialect: 'chat', replyTokens: 8 }], {
      slots: 8,
      router: { ejectionStepMs: 200 },
      server: { kind: 'generative' },
    })
    const { router } = pool
    pool.servers[0]?.control({ faults: { refused: 1 } })
    const results = Promise.all(Array.from({ length: 60 }, (_, i) => router.chat(conversation(i))))
    await until(() => (pool as SimulatedPool).stats(1).ejections >= 1)
    pool.servers[0]?.control({ faults: null })
    for (const result of await results) expect(result).toMatchObject({ ok: true })
  })

  test('gets a smaller maxTokens if the requested one exceeds the context', async () => {
    pool = await SimulatedPool.start(
      // The test uses 0.14.0, because vLLM 0.32.0 accepts any `max_tokens` and reduces it.
      [
        {
          dialect: 'vllm',
          version: '0.14.0',
          serves: 'generate',
          maxModelLen: 100,
          replyTokens: 8,
        },
      ],
      { server: { kind: 'generative', version: '0.14.0' } },
    )
    const result = await pool.router.chat(conversation(1, 100))
    expect(result).toMatchObject({ ok: true })
    expect(result.attempts).toMatchObject([
      { attempt: 1, outcome: 'client', detail: expect.stringContaining('maxTokens is too large') },
      { attempt: 1, outcome: 'ok' },
    ])
    pool.servers[0]?.control({ resetStats: true })
    const long = {
      ...conversation(2, 100),
      chat: { messages: [{ role: 'user', content: 'word '.repeat(65) }], maxTokens: 100 },
    }
    const refused = await pool.router.chat(long)
    expect(refused).toMatchObject({ ok: false, reason: 'rejected' })
    expect(refused).toHaveProperty('detail', expect.stringContaining('maxTokens'))
    expect(refused.attempts).toHaveLength(1)
  })
})
