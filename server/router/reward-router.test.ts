import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  answer,
  type FakeHandler,
  hangs,
  scoreBody,
  scores,
} from '../engines/testing/fake-server.ts'
import { SampleTrace } from '../trace-context.ts'
import type { PolicyName } from './policies/policy.ts'
import type { RewardRouter } from './router-types.ts'
import { config, Harness, until } from './testing/harness.ts'

let harness: Harness
beforeEach(() => {
  harness = new Harness({ ejectionStepMs: 100 })
})
afterEach(() => harness.close())

describe('a call', () => {
  test.each(['vllm', 'sglang', 'openrlhf'] as const)('is scored through %s', async (engine) => {
    const fake = await harness.fake(answer(200, scoreBody(engine, '-1.5')))
    harness.router.setServers([config(1, fake.url, { engine, apiKey: 'secret' })])
    harness.router.setSlots(1, 1)
    const result = await harness.score()
    expect(result).toMatchObject({ ok: true, score: -1.5, serverId: 1 })
    expect(result.attempts).toEqual([
      {
        serverId: 1,
        serverName: 's1',
        attempt: 1,
        startedAtMs: expect.any(Number),
        queueMs: 0,
        backoffMs: 0,
        serviceMs: expect.any(Number),
        outcome: 'ok',
        reason: null,
        status: 200,
        detail: null,
      },
    ])
    expect(fake.calls[0]?.headers.authorization).toBe('Bearer secret')
    expect(harness.stats()).toMatchObject({ inFlight: 0, requests: 1, errors: 0, retries: 0 })
  })

  test('passes on the trace of its sample, and each call has its own span', async () => {
    const trace = { traceId: 'ab'.repeat(16), parentId: null, isSampled: true, state: 'a=1' }
    const traced = new SampleTrace(trace, 7, 3)
    const answers = [answer(500, {}), scores(1)]
    const fake = await harness.fake((call, response) => answers.shift()?.(call, response))
    harness.router.setServers([config(1, fake.url)])
    harness.router.setSlots(1, 1)
    const result = await harness.score({ trace: traced, maxAttempts: 3 })
    expect(result.attempts.map(({ callNo }) => callNo)).toEqual([1, 2])
    expect(fake.calls.map(({ headers }) => headers.traceparent)).toEqual(
      [1, 2].map((call) => traced.headersOf(call).traceparent),
    )
    expect(fake.calls[1]?.headers.tracestate).toBe('a=1')
  })

  test('is sent to the server’s base path', async () => {
    const fake = await harness.fake(scores(1))
    harness.router.setServers([config(1, `${fake.url}/rm/v1`)])
    harness.router.setSlots(1, 1)
    await harness.score()
    expect(fake.calls[0]?.path).toBe('/rm/classify')
  })

  test('reuses its connection for the next call', async () => {
    const [fake] = await harness.serve([scores(1)])
    for (let i = 0; i < 20; i++) await harness.score()
    expect(fake?.sockets.size).toBe(1)
  })

  test('of another model is sent only to that model’s servers', async () => {
    const a = await harness.fake(scores(1))
    const b = await harness.fake(scores(2))
    harness.router.setServers([config(1, a.url), config(2, b.url, { model: 'other' })])
    harness.router.setSlots(1, 8)
    harness.router.setSlots(2, 8)
    const results = await Promise.all([harness.score(), harness.score({ model: 'other' })])
    expect(results).toMatchObject([{ serverId: 1 }, { serverId: 2 }])
  })
})

describe('the offsets of token scores', () => {
  const prm = { route: 'token', plainText: true } as const
  const input = { prompt: 'Q', response: '42' }
  const rows = answer(200, { data: [{ index: 0, data: [[1], [2], [3], [4]] }] })
  const tokens = answer(200, { token_strs: ['Q', 'Ċ', '4', '2'] })
  /** Serves scores, and answers each request for tokens with the next of `answers`. */
  const serve = async (...answers: FakeHandler[]) => {
    const fake = await harness.fake((call, response) =>
      (call.path === '/tokenize' ? (answers.shift() as FakeHandler) : rows)(call, response),
    )
    harness.router.setServers([config(1, fake.url, prm)])
    harness.router.setSlots(1, 1)
    return fake
  }
  const placed = { first: 2, starts: [0, 1], ends: [1, 2] }

  test('are read in the same slot and attempt', async () => {
    const fake = await serve(tokens, tokens)
    const both = [0, 1].map(() => harness.score({ input, needsTokenOffsets: true }))
    const results = await Promise.all(both)
    for (const result of results) {
      expect(result).toMatchObject({ score: 4, tokenScores: [1, 2, 3, 4], tokenOffsets: placed })
      expect(result.attempts).toMatchObject([{ attempt: 1, outcome: 'ok', status: 200 }])
    }
    expect(fake.calls.map(({ path }) => path)).toEqual([
      '/pooling',
      '/tokenize',
      '/pooling',
      '/tokenize',
    ])
    expect(harness.stats()).toMatchObject({ inFlight: 0, requests: 2, errors: 0 })
  })

  test('are read for a sample although an identical one without offsets is in flight', async () => {
    const fake = await serve(tokens)
    const same = { input, group: 'g' }
    const [without, read] = await Promise.all([
      harness.score(same),
      harness.score({ ...same, needsTokenOffsets: true }),
    ])
    expect(without).not.toHaveProperty('tokenOffsets')
    expect(read).toMatchObject({ ok: true, score: 4, tokenOffsets: placed })
    expect(fake.calls.map(({ path }) => path)).toEqual(['/pooling', '/pooling', '/tokenize'])
  })

  test('are requested again with the score after a temporary failure', async () => {
    await serve(answer(503, 'busy'), answer(500, 'fault'), tokens)
    const result = await harness.score({ input, needsTokenOffsets: true })
    expect(result).toMatchObject({ ok: true, score: 4, tokenOffsets: placed })
    expect(result.attempts.map(({ outcome }) => outcome)).toEqual(['busy', 'fault', 'ok'])
    expect(harness.stats().inFlight).toBe(0)
  })

  test('are unknown if the server refuses to list its tokens', async () => {
    await serve(answer(404, { detail: 'Not Found' }))
    const result = await harness.score({ input, needsTokenOffsets: true })
    expect(result).toMatchObject({
      ...{ ok: true, score: 4, tokenOffsets: { problem: '/tokenize answered 404: Not Found' } },
    })
    expect(harness.stats()).toMatchObject({ health: 'ok', errors: 0 })
  })

  test('are not read after the sample was cancelled', async () => {
    const abort = new AbortController()
    const fake = await serve(hangs)
    const result = harness.score({ input, needsTokenOffsets: true, signal: abort.signal })
    await until(() => fake.calls.length === 2)
    abort.abort()
    expect(await result).toMatchObject({ ok: false, reason: 'cancelled' })
    expect(harness.stats().inFlight).toBe(0)
  })

  test('use a second permit of a request rate limit', async () => {
    const fake = await serve(...Array(3).fill(tokens))
    harness.router.setServers([
      config(1, fake.url, { ...prm, limited: { requests: true, tokens: false } }),
    ])
    const untilMs = performance.now() + 60_000
    const permit = (requests: number) =>
      harness.router.setPermits(1, { requests, tokens: 0, untilMs })
    const results = [0, 1].map((i) =>
      harness.score({ input: { ...input, prompt: `Q${i}` }, needsTokenOffsets: true }),
    )
    permit(1)
    await results[0]
    permit(1)
    expect(harness.router.permitDemand(1).requests).toBe(1)
    permit(1)
    await results[1]
    expect(fake.calls).toHaveLength(4)
  })
})

describe('slots', () => {
  test('are 0 until set, so samples wait', async () => {
    const fake = await harness.fake(scores(1))
    harness.router.setServers([config(1, fake.url)])
    const result = harness.score()
    await until(() => harness.stats().waiting === 1)
    expect(fake.calls).toHaveLength(0)
    harness.router.setSlots(1, 1)
    expect(await result).toMatchObject({ ok: true })
  })

  test('are never exceeded, and all are used', async () => {
    const [fake] = await harness.serve(
      [(call, response) => setTimeout(() => scores(1)(call, response), 5)],
      3,
    )
    await Promise.all(Array.from({ length: 60 }, () => harness.score()))
    expect(fake?.maxInFlight).toBe(3)
    expect(fake?.sockets.size).toBe(3)
  })

  test('set to 0 stop dispatch; calls in flight finish', async () => {
    const held: (() => void)[] = []
    const [fake] = await harness.serve([
      (call, response) => held.push(() => scores(1)(call, response)),
    ])
    const first = harness.score()
    await until(() => held.length === 1)
    harness.router.setSlots(1, 0)
    const second = harness.score()
    held[0]?.()
    expect(await first).toMatchObject({ ok: true })
    expect(harness.stats()).toMatchObject({ waiting: 1, inFlight: 0 })
    expect(fake?.calls).toHaveLength(1)
    harness.router.setSlots(1, 1)
    await until(() => held.length === 2)
    held[1]?.()
    expect(await second).toMatchObject({ ok: true })
  })

  test('are limited by maxInFlight', async () => {
    const fake = await harness.fake((call, response) =>
      setTimeout(() => scores(1)(call, response), 5),
    )
    harness.router.setServers([config(1, fake.url, { maxInFlight: 2 })])
    harness.router.setSlots(1, 50)
    await Promise.all(Array.from({ length: 20 }, () => harness.score()))
    expect(fake.maxInFlight).toBe(2)
  })

  test('are given to samples of equal length in order of arrival', async () => {
    const order: string[] = []
    const [fake] = await harness.serve(
      [
        (call, response) => {
          order.push(JSON.parse(call.body).messages[1].content)
          scores(1)(call, response)
        },
      ],
      1,
    )
    const names = Array.from({ length: 200 }, (_, i) => `r${String(i).padStart(3, '0')}`)
    await Promise.all(names.map((response) => harness.score({ input: { prompt: 'Q', response } })))
    expect(order).toEqual(names)
    expect(fake?.maxInFlight).toBe(1)
  })

  test('are shared by weight between servers that are equally fast', async () => {
    // Hedges are off, because on a busy machine slow calls would also be sent to the other server.
    await harness.close()
    harness = new Harness({ hedges: false })
    const a = await harness.fake(scores(1))
    const b = await harness.fake(scores(1))
    harness.router.setServers([config(1, a.url, { weight: 3 }), config(2, b.url, { weight: 1 })])
    harness.router.setSlots(1, 1000)
    harness.router.setSlots(2, 1000)
    await Promise.all(Array.from({ length: 60 }, () => harness.score()))
    expect(a.calls).toHaveLength(45)
    expect(b.calls).toHaveLength(15)
  })
})

describe('demand', () => {
  test('counts calls in flight and waiting samples, up to the server’s limit', async () => {
    const fake = await harness.fake(hangs)
    harness.router.setServers([
      config(1, fake.url),
      config(2, fake.url, { maxInFlight: 3 }),
      config(3, fake.url, { state: 'draining' }),
    ])
    harness.router.setSlots(1, 2)
    for (let i = 0; i < 10; i++) harness.score()
    expect(harness.stats().inFlight).toBe(2)
    expect(harness.router.demand(1)).toBe(10)
    expect(harness.router.demand(2)).toBe(3)
    expect(harness.router.demand(3)).toBe(0)
    expect(harness.router.demand(99)).toBe(0)
  })

  test('is reported once for many samples, without delay, and again after too few slots', async () => {
    const fake = await harness.fake(scores(1))
    harness.router.setServers([config(1, fake.url)])
    const reported: number[] = []
    const stop = harness.router.onDemand((id) => reported.push(harness.router.demand(id)))
    const results = Array.from({ length: 100 }, () => harness.score())
    await until(() => reported.length > 0)
    expect(reported).toEqual([100])
    harness.router.setSlots(1, 1)
    await until(() => reported.length > 1)
    stop()
    harness.router.setSlots(1, 100)
    await Promise.all(results)
  })

  test('is not reported while there are enough slots', async () => {
    await harness.serve([scores(1)])
    const reported: number[] = []
    harness.router.onDemand((id) => reported.push(id))
    for (let i = 0; i < 20; i++) await harness.score()
    expect(reported).toEqual([])
  })
})

describe('the policy of a request', () => {
  test.each([false, true])(
    'takes precedence over the pool’s policy (slots free: %s)',
    async (isFree) => {
      await harness.serve([hangs, hangs, hangs, hangs])
      if (!isFree) for (const id of [1, 2, 3, 4]) harness.router.setSlots(id, 0)
      const serversOf = async (policy?: 'deterministic') => {
        const request = { model: 'rm', tokens: 10, key: 'k', ...(policy ? { policy } : {}) }
        const acquired = Array.from({ length: 8 }, () => harness.router.acquire(request))
        for (const id of [1, 2, 3, 4]) harness.router.setSlots(id, 64)
        const slots = (await Promise.all(acquired)).map((result) => {
          if (!result.ok) throw new Error(result.reason)
          return result.slot
        })
        for (const slot of slots) slot.release({ outcome: 'ok' })
        return new Set(slots.map(({ serverId }) => serverId)).size
      }
      expect(await serversOf('deterministic')).toBe(1)
      expect(await serversOf()).toBe(4)
      harness.router.setPolicy('rm', 'deterministic')
      expect(await serversOf()).toBe(1)
    },
  )

  test('stays in force for a waiting request when the policy of the pool changes', async () => {
    await harness.serve([hangs])
    harness.router.setSlots(1, 1)
    const request = { model: 'rm', tokens: 10, key: 'k', policy: 'deterministic' as const }
    const first = await harness.router.acquire(request)
    const waiting = harness.router.acquire(request)
    harness.router.setPolicy('rm', 'round_robin')
    if (first.ok) first.slot.release({ outcome: 'ok' })
    expect(await waiting).toMatchObject({ ok: true })
  })

  test('also applies to a request that waits', async () => {
    await harness.serve([hangs, hangs, hangs], 0)
    const chosen = async (policy: PolicyName) => {
      for (const id of [1, 2, 3]) harness.router.setSlots(id, 0)
      const acquired = Array.from({ length: 6 }, (_, i) =>
        harness.router.acquire({ model: 'rm', tokens: 10 ** i, policy }),
      )
      for (const id of [1, 2, 3]) harness.router.setSlots(id, 64)
      const results = await Promise.all(acquired)
      for (const result of results) if (result.ok) result.slot.release({ outcome: 'ok' })
      return results.map((result) => (result.ok ? result.slot.serverId : null))
    }
    // With `least_work`, the request of 100,000 tokens has a server to itself.
    const byWork = await chosen('least_work')
    expect(byWork.filter((id) => id === byWork[5])).toHaveLength(1)
    const inTurn = await chosen('round_robin')
    for (const id of [1, 2, 3]) expect(inTurn.filter((other) => other === id)).toHaveLength(2)
  })
})

describe('servers that a slot request excludes', () => {
  const request = { model: 'rm', tokens: 10, exclude: [1] }
  const serverOf = async (acquired: ReturnType<RewardRouter['acquire']>) => {
    const result = await acquired
    if (!result.ok) throw new Error(result.reason)
    result.slot.release({ outcome: 'ok' })
    return result.slot.serverId
  }

  test.each(['least_work', 'group_affinity', 'deterministic'] as const)(
    'are never used, whether slots are free or not (%s)',
    async (policy) => {
      await harness.serve([hangs, hangs])
      harness.router.setPolicy('rm', policy)
      const acquire = (i: number) =>
        serverOf(harness.router.acquire({ ...request, key: `k${i}`, group: `g${i % 3}` }))
      for (let i = 0; i < 6; i++) expect(await acquire(i)).toBe(2)
      harness.router.setSlots(2, 0)
      const waiting = Array.from({ length: 6 }, (_, i) => acquire(i))
      // This request overtakes the waiting requests, because they exclude server 1, which has the free slot.
      expect(
        await serverOf(harness.router.acquire({ model: 'rm', tokens: 10, exclude: [2] })),
      ).toBe(1)
      harness.router.setSlots(2, 1)
      expect(await Promise.all(waiting)).toEqual([2, 2, 2, 2, 2, 2])
    },
  )

  test('are not used after a failure of the only other server', async () => {
    await harness.serve([hangs, hangs])
    expect(await serverOf(harness.router.acquire({ ...request, avoid: [2] }))).toBe(2)
  })

  test('do not let a request pass those of other runs', async () => {
    await harness.serve([hangs])
    harness.router.setSlots(1, 1)
    const first = await harness.router.acquire({ model: 'rm', tokens: 10 })
    const order: string[] = []
    const acquire = async (run: string, exclude: number[]) => {
      await serverOf(harness.router.acquire({ model: 'rm', tokens: 10, run, exclude }))
      order.push(run)
    }
    const all = [
      ...Array.from({ length: 3 }, () => acquire('a', [])),
      ...Array.from({ length: 3 }, () => acquire('b', [9])),
    ]
    if (first.ok) first.slot.release({ outcome: 'ok' })
    await Promise.all(all)
    expect(order).toEqual(['a', 'b', 'a', 'b', 'a', 'b'])
  })
})

describe('the registry', () => {
  test('a server that is not ready gets no samples', async () => {
    const a = await harness.fake(scores(1))
    const b = await harness.fake(scores(2))
    harness.router.setServers([config(1, a.url, { state: 'draining' }), config(2, b.url)])
    harness.router.setSlots(1, 8)
    harness.router.setSlots(2, 8)
    for (let i = 0; i < 10; i++) expect(await harness.score()).toMatchObject({ serverId: 2 })
    expect(a.calls).toHaveLength(0)
  })

  test('a removed server finishes its calls and then disappears', async () => {
    let finish = () => {}
    const [a, b] = await harness.serve([
      (call, response) => {
        finish = () => scores(1)(call, response)
      },
      scores(2),
    ])
    const first = harness.score()
    await until(() => a?.calls.length === 1)
    harness.router.setServers([config(2, b?.url ?? '')])
    expect(harness.stats(1)).toMatchObject({ state: 'removed', inFlight: 1 })
    expect(await harness.score()).toMatchObject({ serverId: 2 })
    finish()
    expect(await first).toMatchObject({ ok: true, serverId: 1 })
    expect(harness.router.snapshot().map((server) => server.serverId)).toEqual([2])
    await until(() => a?.sockets.size === 0)
  })

  test('a new URL and model of a server apply', async () => {
    const a = await harness.fake(scores(1))
    const b = await harness.fake(scores(2))
    harness.router.setServers([config(1, a.url)])
    harness.router.setSlots(1, 4)
    expect(await harness.score()).toMatchObject({ score: 1 })
    harness.router.setServers([config(1, b.url, { model: 'new' })])
    expect(await harness.score({ model: 'new' })).toMatchObject({ score: 2 })
    expect(await harness.score({ timeoutMs: 30 })).toMatchObject({ reason: 'no_server' })
  })

  test('identical samples share no request while a server is a custom scorer', async () => {
    const [fake] = await harness.serve([answer(200, scoreBody('http', '1'))])
    if (fake === undefined) throw new Error('no server')
    const same = { input: { prompt: 'Q', response: 'A' }, group: 'g' }
    const requestsOfTwo = async () => {
      const before = fake.calls.length
      const results = await Promise.all([harness.score(same), harness.score(same)])
      expect(results.map(({ ok }) => ok)).toEqual([true, true])
      return fake.calls.length - before
    }
    harness.router.setServers([config(1, fake.url, { engine: 'http' })])
    expect(await requestsOfTwo()).toBe(2)
    harness.router.setServers([config(1, fake.url, { engine: 'http' }), config(2, fake.url)])
    harness.router.setServers([config(2, fake.url)])
    harness.router.setSlots(2, 64)
    fake.handler = scores(2)
    expect(await requestsOfTwo()).toBe(1)
    fake.handler = answer(200, scoreBody('http', '1'))
    harness.router.setServers([config(2, fake.url, { engine: 'http' })])
    expect(await requestsOfTwo()).toBe(2)
  })

  test('a changed API key applies to the next call', async () => {
    const fake = await harness.fake(scores(1))
    harness.router.setServers([config(1, fake.url, { apiKey: 'old' })])
    harness.router.setSlots(1, 4)
    await harness.score()
    harness.router.setServers([config(1, fake.url, { apiKey: 'new' })])
    await harness.score()
    expect(fake.calls.map((call) => call.headers.authorization)).toEqual([
      'Bearer old',
      'Bearer new',
    ])
  })
})

describe('the end of a sample', () => {
  test('timeout: the call is aborted upstream and its slot is free', async () => {
    const [fake] = await harness.serve([hangs], 1)
    const result = await harness.score({ timeoutMs: 60 })
    expect(result).toMatchObject({ ok: false, reason: 'timeout' })
    expect(result.attempts).toMatchObject([{ outcome: 'stall', reason: 'timeout', status: null }])
    expect(harness.stats()).toMatchObject({ inFlight: 0, errors: 1 })
    await until(() => fake?.calls[0]?.aborted === true)
  })

  test('timeout in the middle of a body', async () => {
    await harness.serve([
      (_call, response) => {
        response.writeHead(200, { 'content-length': '1000' })
        response.write('{"data":')
      },
    ])
    expect(await harness.score({ timeoutMs: 60 })).toMatchObject({ reason: 'timeout' })
    expect(harness.stats().inFlight).toBe(0)
  })

  test('aborted before its connection opens: nothing is sent, and no connection remains', async () => {
    const [fake] = await harness.serve([scores(1)])
    const controller = new AbortController()
    const results = Array.from({ length: 20 }, () => harness.score({ signal: controller.signal }))
    expect(harness.stats().inFlight).toBe(20)
    controller.abort()
    expect(harness.stats().inFlight).toBe(0)
    for (const result of await Promise.all(results)) {
      expect(result).toMatchObject({ reason: 'cancelled', attempts: [{ status: null }] })
    }
    expect(await harness.score()).toMatchObject({ ok: true })
    expect(fake?.calls).toHaveLength(1)
    await until(() => fake?.sockets.size === 1)
  })

  test('aborted: cancelled upstream too, in flight or waiting, thousands on one signal', async () => {
    const [fake] = await harness.serve([hangs], 10)
    const controller = new AbortController()
    const results = Array.from({ length: 2_000 }, () =>
      harness.score({ signal: controller.signal }),
    )
    await until(() => fake?.calls.length === 10)
    controller.abort()
    for (const result of await Promise.all(results)) {
      expect(result).toMatchObject({ ok: false, reason: 'cancelled' })
    }
    expect(harness.stats()).toMatchObject({ inFlight: 0, waiting: 0, errors: 0 })
    await until(() => fake?.calls.every((call) => call.aborted) === true)
    expect(fake?.calls).toHaveLength(10)
    expect(await harness.score({ signal: controller.signal })).toMatchObject({
      reason: 'cancelled',
      attempts: [],
    })
  })

  test('the router is closed: every sample ends, and no further one is accepted', async () => {
    const [fake] = await harness.serve([hangs], 1)
    const results = [harness.score(), harness.score(), harness.score({ model: 'unknown' })]
    await until(() => fake?.calls.length === 1)
    await harness.router.close()
    for (const result of await Promise.all(results)) {
      expect(result).toMatchObject({ reason: 'cancelled' })
    }
    expect(await harness.score()).toMatchObject({ reason: 'cancelled' })
    await until(() => fake?.sockets.size === 0)
  })

  test('no server of the model: no_server after the time limit', async () => {
    await harness.serve([scores(1)])
    expect(await harness.score({ model: 'unknown', timeoutMs: 40 })).toMatchObject({
      ok: false,
      reason: 'no_server',
      attempts: [],
    })
  })

  test('waiting for a slot does not count: the time limit starts at the first dispatch', async () => {
    const fake = await harness.fake((call, response) => {
      setTimeout(() => scores(1)(call, response), 60)
    })
    harness.router.setServers([config(1, fake.url)])
    harness.router.setSlots(1, 1)
    // Five sequential calls take 60 ms each. The limit of 150 ms applies to each sample separately.
    const results = await Promise.all(
      Array.from({ length: 5 }, () => harness.score({ timeoutMs: 150 })),
    )
    expect(results.map((result) => result.ok)).toEqual([true, true, true, true, true])
  })

  test('a deadline ends it in any state', async () => {
    const fake = await harness.fake(hangs)
    harness.router.setServers([config(1, fake.url)])
    harness.router.setSlots(1, 1)
    const results = await Promise.all(
      [1_000, 50].map((deadlineMs) => harness.score({ deadlineMs })),
    )
    expect(results.map((r) => (r.ok ? 'ok' : r.reason))).toEqual(['deadline', 'deadline'])
    expect(results.map((r) => r.attempts.length)).toEqual([1, 0])
  })

  test('a deadline too close for a hedge does not end the call in flight', async () => {
    const [usualMs, slowMs, deadlineMs] = [400, 700, 800]
    const serve: FakeHandler = (call, response) => {
      const isSlow = call.body.includes('slow')
      setTimeout(() => scores(1)(call, response), isSlow ? slowMs : usualMs)
    }
    await harness.serve([serve, serve])
    // Tail hedges need 50 measured calls per server.
    await Promise.all(Array.from({ length: 120 }, () => harness.score()))
    const input = { prompt: 'Q', response: 'slow' }
    const result = await harness.score({ input, urgent: true, deadlineMs })
    expect(result).toMatchObject({ ok: true, attempts: [{ outcome: 'ok' }] })
  })

  test('a server that is registered in time is used', async () => {
    const result = harness.score()
    const fake = await harness.fake(scores(0.25))
    harness.router.setServers([config(1, fake.url, { state: 'unreachable' })])
    harness.router.setSlots(1, 4)
    harness.router.setServers([config(1, fake.url)])
    expect(await result).toMatchObject({ ok: true, score: 0.25 })
  })
})
