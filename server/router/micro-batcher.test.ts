import type { ServerResponse } from 'node:http'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { FakeCall, FakeServer } from '../engines/testing/fake-server.ts'
import type { MicroBatchOptions, RouterResult, ScoreRequest } from './router-types.ts'
import { config, Harness, until } from './testing/harness.ts'
import { SimulatedPool } from './testing/pool.ts'

/** Number of samples scored at the start, so that the server’s speed is known and the next samples may be combined. */
const KNOWN = 128

let harness: Harness
let fakes: FakeServer[]
/** Answers a request and returns true, or returns undefined to give each text the score that it states. */
let does: (texts: string[], call: FakeCall, response: ServerResponse) => true | undefined

beforeEach(() => {
  does = () => undefined
})
afterEach(() => harness?.close())

function textsOf(call: FakeCall): string[] {
  return [(JSON.parse(call.body) as { input: string | string[] }).input].flat()
}

function embeddings(scores: (number | string)[]): string {
  const data = scores.map((score, index) => `{"index":${index},"embedding":[${score}]}`)
  return `{"data":[${data.join(',')}],"usage":{"prompt_tokens":${scores.length * 7}}}`
}

function respond(response: ServerResponse, status: number, body: string): true {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(body)
  return true
}

/** The score of a text: 12 for `#12#`, 0 for a canary. */
const scoreOf = (text: string) => Number(/#(-?\d+)#/.exec(text)?.[1] ?? 0)

/**
 * Options of a process that is always busy. The limits are infinite, so that a stalled test is not taken for a slow
 * server.
 */
const ALWAYS: Partial<MicroBatchOptions> = {
  isBusy: () => true,
  workMs: Number.POSITIVE_INFINITY,
  slowMs: Number.POSITIVE_INFINITY,
  splitChecks: Number.POSITIVE_INFINITY,
}

/** Starts servers s1, s2 … and scores samples until their speed is known. */
async function start(
  microBatching: Partial<MicroBatchOptions> = {},
  { servers = 1, slots = 64 } = {},
): Promise<void> {
  harness = new Harness({ microBatching: { ...ALWAYS, ...microBatching } })
  fakes = []
  for (let i = 0; i < servers; i++) {
    fakes.push(
      await harness.fake((call, response) => {
        const texts = textsOf(call)
        if (does(texts, call, response) !== true) {
          respond(response, 200, embeddings(texts.map(scoreOf)))
        }
      }),
    )
  }
  harness.router.setServers(
    fakes.map((fake, i) => config(i + 1, fake.url, { engine: 'sglang' as const })),
  )
  fakes.forEach((_, i) => {
    harness.router.setSlots(i + 1, slots)
  })
  for (let i = 0; i < servers * KNOWN; i++) await sample(1_000)
  for (const fake of fakes) fake.calls.length = 0
}

/** Scores a sample of about 70 characters, whose text states the score that the fake server returns. */
function sample(score: number, over: Partial<ScoreRequest> = {}, more = ''): Promise<RouterResult> {
  const response = `#${score}#`.padEnd(60, '.') + more
  return harness.score({ input: { prompt: 'Question', response }, group: 'g', ...over })
}

function samples(count: number, over: Partial<ScoreRequest> = {}): Promise<RouterResult[]> {
  return Promise.all(Array.from({ length: count }, (_, i) => sample(i, over)))
}

const sizes = (fake = fakes[0]) => fake?.calls.map((call) => textsOf(call).length) ?? []

describe('a micro-batch', () => {
  test('has up to eight samples for a fast server, each with its own score', async () => {
    await start()
    const results = await samples(400)
    expect(results.map((result) => result.ok && result.score)).toEqual(
      Array.from({ length: 400 }, (_, i) => i),
    )
    expect(Math.max(...sizes())).toBe(8)
    expect(sizes().reduce((sum, n) => sum + n, 0)).toBe(400)
    expect(sizes().length).toBeLessThan(200)
    expect(harness.stats()).toMatchObject({ inFlight: 0, errors: 0, requests: KNOWN + 400 })
  })

  test('is not sent after the share of the limit has expired', async () => {
    await start()
    const results = samples(4)
    // The samples are bound to the server in this turn of the event loop, and sent in the next one.
    while (harness.stats(1)?.inFlight === 0) await Promise.resolve()
    harness.router.setSlots(1, 64, 0)
    await until(() => harness.stats(1)?.waiting === 4)
    expect(sizes()).toEqual([])
    harness.router.setSlots(1, 64)
    for (const [i, result] of (await results).entries()) {
      expect(result).toMatchObject({ ok: true, score: i })
      expect(result.attempts).toMatchObject([
        { outcome: 'recalled' },
        { attempt: 1, outcome: 'ok' },
      ])
    }
    expect(sizes().reduce((sum, n) => sum + n, 0)).toBe(4)
  })

  test('gives each sample its own attempt and its own share of the tokens', async () => {
    await start()
    for (const result of await samples(16)) {
      expect(result).toMatchObject({ ok: true, promptTokens: null })
      expect(result.attempts).toMatchObject([{ attempt: 1, outcome: 'ok', status: 200 }])
    }
    expect(sizes()).toEqual([8, 8])
    expect(harness.stats().tokens).toBe((KNOWN + 16) * 7)
  })

  test('has at most a quarter of the slots, so that four calls fit', async () => {
    await start({}, { slots: 12 })
    does = (texts, _, response) => {
      setTimeout(() => respond(response, 200, embeddings(texts.map(scoreOf))), 5)
      return true
    }
    await samples(60)
    expect(Math.max(...sizes())).toBe(3)
    expect(fakes[0]?.maxInFlight).toBeGreaterThanOrEqual(4)
  })

  test.each([
    ['in an idle process', { isBusy: () => false }, {}],
    ['if the setting is one per request', { samplesPerRequest: 1 }, {}],
    ['for an interactive sample', {}, { urgent: true }],
  ])('is not used %s', async (_, options, over) => {
    await start(options)
    await samples(64, over)
    expect(sizes()).toEqual(Array(64).fill(1))
  })

  test('is not used after a slow sample, because the others would wait for it', async () => {
    await start({ slowMs: 250 })
    does = (texts, _, response) => {
      setTimeout(() => respond(response, 200, embeddings(texts.map(scoreOf))), 300)
      return true
    }
    await sample(1)
    fakes[0]?.calls.splice(0)
    does = () => undefined
    await samples(64)
    expect(sizes()).toEqual(Array(64).fill(1))
  })

  test('does not contain a sample longer than any scored before', async () => {
    await start()
    await Promise.all([samples(15), sample(99, {}, ' and more of it'.repeat(20))])
    const alone = fakes[0]?.calls.filter((call) => call.body.includes('#99#')) ?? []
    expect(alone.map((call) => textsOf(call).length)).toEqual([1])
    expect(Math.max(...sizes())).toBe(8)
  })
})

describe('a failed micro-batch', () => {
  const refused = '{"message":"no such thing"}'

  test('refused because of one sample fails only that sample; the others are scored', async () => {
    await start()
    does = (texts, _, response) =>
      texts.some((text) => scoreOf(text) === 3) ? respond(response, 400, refused) : undefined
    const results = await samples(8)
    expect(results.map(({ ok }) => ok)).toEqual([0, 1, 2, 3, 4, 5, 6, 7].map((i) => i !== 3))
    expect(results[3]).toMatchObject({ reason: 'rejected' })
    // After the micro-batch, each sample is sent alone, and one canary confirms the refusal.
    expect(sizes()).toEqual([8, ...Array(9).fill(1)])
    expect(harness.stats().canaries).toBe(1)
    expect(results[0]?.attempts).toMatchObject([
      {
        attempt: 1,
        outcome: 'client',
        detail: 'in one request with 7 other samples: answered 400: no such thing',
      },
      { attempt: 1, outcome: 'ok', detail: null },
    ])
    expect(harness.stats()).toMatchObject({ health: 'ok', consecutiveFaults: 0, inFlight: 0 })
  })

  test('is followed by requests of one sample for some time', async () => {
    await start()
    does = (texts, _, response) => (texts.length > 1 ? respond(response, 400, refused) : undefined)
    const results = await samples(200)
    expect(results.every(({ ok }) => ok)).toBe(true)
    // Only the requests that were in flight at the first failure have several samples.
    expect(sizes().filter((n) => n > 1).length).toBeLessThanOrEqual(8)
    fakes[0]?.calls.splice(0)
    await samples(40)
    expect(sizes()).toEqual(Array(40).fill(1))
  })

  test('caused by the server counts once against the server, and once against each sample', async () => {
    await start()
    does = (texts, _, response) => (texts.length > 1 ? respond(response, 500, '{}') : undefined)
    const results = await samples(8)
    for (const result of results) {
      expect(result.ok).toBe(true)
      expect(result.attempts.map(({ attempt, outcome }) => [attempt, outcome])).toEqual([
        [1, 'fault'],
        [2, 'ok'],
      ])
    }
    expect(harness.stats()).toMatchObject({ health: 'ok', ejections: 0, inFlight: 0 })
  })

  test.each([
    ['fewer scores than texts', (n: number) => embeddings(Array(n - 1).fill(1))],
    [
      'two scores for one text',
      (n: number) => embeddings(Array(n).fill(1)).replace('"index":1', '"index":0'),
    ],
    ['an HTML page', () => '<html><title>Hello</title></html>'],
  ])('with %s is repeated sample by sample, and no attempt is charged', async (_, body) => {
    await start()
    does = (texts, _call, response) =>
      texts.length > 1 ? respond(response, 200, body(texts.length)) : undefined
    const results = await samples(8)
    expect(results.map((result) => result.ok && result.score)).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
    expect(harness.stats()).toMatchObject({ health: 'ok', consecutiveFaults: 0 })
  })

  test('with one invalid score keeps the other scores', async () => {
    await start({}, { servers: 2 })
    does = (texts, _, response) =>
      respond(response, 200, embeddings(texts.map((text) => (scoreOf(text) === 3 ? 'null' : 1))))
    const results = await samples(16)
    expect(results.filter(({ ok }) => !ok)).toHaveLength(1)
    expect(results[3]).toMatchObject({ reason: 'non_finite' })
    // The sample is sent in the micro-batch (no attempt charged), then alone, then to the other server.
    expect(results[3]?.attempts.map(({ attempt, outcome }) => [attempt, outcome])).toEqual([
      [1, 'corrupt'],
      [1, 'corrupt'],
      [2, 'corrupt'],
    ])
    expect(results[4]?.attempts).toHaveLength(1)
  })

  test('fails no sample that can be scored alone', async () => {
    await start({}, { servers: 2 })
    does = (texts, _, response) =>
      texts.length > 1
        ? respond(
            response,
            200,
            embeddings(texts.map((text, i) => (i === 0 ? 'null' : scoreOf(text)))),
          )
        : undefined
    const results = await samples(64)
    expect(results.map((result) => result.ok && result.score)).toEqual(
      Array.from({ length: 64 }, (_, i) => i),
    )
    for (const id of [1, 2]) {
      expect(harness.stats(id)).toMatchObject({ health: 'ok', ejections: 0, inFlight: 0 })
    }
  })

  test('that was refused counts once in the server’s errors, not once per sample', async () => {
    await start()
    does = (texts, _, response) => (texts.length > 1 ? respond(response, 400, refused) : undefined)
    await samples(8)
    expect(harness.stats()).toMatchObject({ errors: 1, failures: { client: 1 } })
  })
})

describe('a slow micro-batch', () => {
  function hangsOn(hanging: (score: number) => boolean) {
    does = (texts) => (texts.some((text) => hanging(scoreOf(text))) ? true : undefined)
  }

  test('is split: only the hanging samples time out, and the server is not ejected', async () => {
    await start({ splitChecks: 2 })
    hangsOn((score) => score === 3 || score === 40)
    const results = await samples(64, { timeoutMs: 2_000 })
    const failed = results.flatMap((result, i) => (result.ok ? [] : [i]))
    expect(failed).toEqual([3, 40])
    for (const i of failed) expect(results[i]).toMatchObject({ reason: 'timeout' })
    expect(harness.stats()).toMatchObject({ health: 'ok', ejections: 0, inFlight: 0 })
    expect(results[2]?.attempts.map(({ attempt, outcome }) => [attempt, outcome])).toEqual([
      [1, 'stall'],
      [1, 'ok'],
    ])
  })

  test('does not delay other samples: they finish while the slow ones are in flight', async () => {
    await start({ splitChecks: 2 })
    const slow = (score: number) => score % 50 === 49
    hangsOn(slow)
    const abort = new AbortController()
    const results = Array.from({ length: 600 }, (_, i) => sample(i, { signal: abort.signal }))
    const others = await Promise.all(results.filter((_, i) => !slow(i)))
    expect(others.every(({ ok }) => ok)).toBe(true)
    // By now each slow sample is in flight alone.
    expect(harness.stats().inFlight).toBe(12)
    abort.abort()
    await Promise.all(results)
    await until(() => fakes[0]?.inFlight === 0)
    expect(harness.stats().inFlight).toBe(0)
  })

  test('counts once against its server if its samples time out before the split', async () => {
    await start()
    hangsOn(() => true)
    const results = await samples(8, { timeoutMs: 60 })
    expect(results.every(({ ok }) => !ok)).toBe(true)
    expect(harness.stats()).toMatchObject({ consecutiveFaults: 0.5, inFlight: 0 })
  })
})

describe('a server that is changed', () => {
  test('to another engine while a request is in flight: the answer is parsed by the old protocol', async () => {
    await start()
    let release = () => {}
    does = (texts, _, response) => {
      release = () => respond(response, 200, embeddings(texts.map(scoreOf)))
      return true
    }
    const results = samples(8)
    await until(() => fakes[0]?.calls[0]?.body !== undefined && fakes[0].calls[0].body !== '')
    harness.router.setServers([config(1, fakes[0]?.url as string, { engine: 'openrlhf' })])
    release()
    expect((await results).map((result) => result.ok && result.score)).toEqual([
      0, 1, 2, 3, 4, 5, 6, 7,
    ])
  })

  test('to another model before a request is sent: samples are sent to their own model', async () => {
    await start()
    const results = samples(3)
    // The samples are now bound, but not sent.
    await Promise.resolve()
    await Promise.resolve()
    harness.router.setServers([
      config(1, fakes[0]?.url as string, { engine: 'sglang', model: 'other' }),
    ])
    await results
    for (const call of fakes[0]?.calls ?? []) expect(JSON.parse(call.body).model).toBe('rm')
  })
})

describe.each([
  ['sglang', {}],
  ['tei', {}],
  ['vllm', { version: '0.11.2' }],
] as const)('%s', (dialect, more) => {
  test('returns the same scores for several texts as for one', async () => {
    const scoresOf = async (samplesPerRequest: number) => {
      const pool = await SimulatedPool.start([{ dialect, latency: 'constant:2', ...more }], {
        slots: 64,
        router: { microBatching: { ...ALWAYS, samplesPerRequest } },
        server: more,
      })
      try {
        for (let i = 0; i < KNOWN; i++) await pool.score({}, 500)
        const results = await pool.scoreAll(200, (i) => ({ group: `g${i >> 3}` }))
        const calls = Object.values(pool.servers[0]!.stats().calls)
          .flatMap((byStatus) => Object.values(byStatus))
          .reduce((sum, n) => sum + n, 0)
        return { calls, scores: results.map((result) => result.ok && result.score) }
      } finally {
        await pool.close()
      }
    }
    const alone = await scoresOf(1)
    const together = await scoresOf(8)
    expect(alone.scores).not.toContain(false)
    expect(together.scores).toEqual(alone.scores)
    expect(alone.calls - together.calls).toBeGreaterThan(60)
  })
})

describe('a sample that leaves a micro-batch', () => {
  /** Starts eight samples in one request, which is answered when `release` is called. */
  async function held() {
    await start()
    let release = () => {}
    does = (texts, _, response) => {
      release = () => respond(response, 200, embeddings(texts.map(scoreOf)))
      return true
    }
    const aborts = Array.from({ length: 8 }, () => new AbortController())
    const results = aborts.map(({ signal }, i) => sample(i, { signal }))
    await until(() => fakes[0]?.calls[0]?.body !== undefined && fakes[0].calls[0].body !== '')
    expect(sizes()).toEqual([8])
    return { aborts, results, release: () => release() }
  }

  test('releases its slot, and the others are scored', async () => {
    const { aborts, results, release } = await held()
    aborts[2]?.abort()
    expect(await results[2]).toMatchObject({ ok: false, reason: 'cancelled' })
    expect(harness.stats().inFlight).toBe(7)
    release()
    const others = await Promise.all(results.filter((_, i) => i !== 2))
    expect(others.map((result) => result.ok && result.score)).toEqual([0, 1, 3, 4, 5, 6, 7])
    expect(fakes[0]?.calls[0]?.aborted).toBe(false)
  })

  test('as the last one cancels the request', async () => {
    const { aborts, results } = await held()
    for (const abort of aborts) abort.abort()
    for (const result of results) expect(await result).toMatchObject({ reason: 'cancelled' })
    await until(() => fakes[0]?.calls[0]?.aborted === true)
    expect(harness.stats()).toMatchObject({ inFlight: 0, health: 'ok' })
  })

  test('because its hedge was faster: a hanging server releases every slot', async () => {
    await start({}, { servers: 4, slots: 16 })
    does = (_texts, call) => (fakes[0]?.calls.includes(call) ? true : undefined)
    // Other servers answer in the meantime. Otherwise the hanging server would not be recognized as silent.
    const others = setInterval(() => void sample(1), 50)
    const results = await samples(96).finally(() => clearInterval(others))
    expect(results.map((result) => result.ok && result.score)).toEqual(
      Array.from({ length: 96 }, (_, i) => i),
    )
    expect(Math.max(...sizes(fakes[0]))).toBeGreaterThan(1)
    await until(() => fakes[0]?.inFlight === 0 && harness.stats(1).inFlight === 0)
  }, 20_000)

  test('before the request is sent is not part of the request', async () => {
    await start()
    const abort = new AbortController()
    const results = [0, 1, 2].map((i) => sample(i, i === 1 ? { signal: abort.signal } : {}))
    await Promise.resolve()
    await Promise.resolve()
    abort.abort()
    expect((await Promise.all(results)).map(({ ok }) => ok)).toEqual([true, false, true])
    expect(sizes()).toEqual([2])
  })
})
