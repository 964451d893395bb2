import { afterEach, expect, test } from 'vitest'
import { FULL } from '../../../testkit/service/full-run.ts'
import { until } from '../testing/harness.ts'
import { failuresOf, SimulatedPool } from '../testing/pool.ts'

/** The numbers in the titles are those in docs/guarantees.md. */

let pool: SimulatedPool
afterEach(() => pool?.close())

const steady = { latency: 'constant:10' }

test('10 · servers that close idle connections as a call is sent: no sample fails', async () => {
  pool = await SimulatedPool.start([{ latency: 'constant:1', idleCloseMs: 8 }])
  for (let i = 0; i < 60; i++) {
    expect(await pool.score()).toMatchObject({ ok: true })
    // The next call is sent around the moment when the server closes the connection.
    await new Promise((resolve) => setTimeout(resolve, 5 + (i % 7)))
  }
  expect(pool.events).toEqual([])
})

test.each([
  ['-1', { running: -1, waiting: -1 }],
  ['0', { running: 0, waiting: 0 }],
  ['1e9', { running: 1e9, waiting: 1e9 }],
  ['none', null],
])('11 · one server reports a load of %s, and shares stay even', async (_, load) => {
  pool = await SimulatedPool.start([steady, steady, steady, steady])
  pool.router.setLoad(1, load)
  expect(failuresOf(await pool.scoreAll(800))).toEqual([])
  const assigned = pool.router.snapshot().map(({ requests }) => requests)
  expect(Math.max(...assigned) / (800 / 4)).toBeLessThanOrEqual(1.3)
})

test('12 · all servers become 20 times slower: none is ejected, hedges stay within 5 % of the samples', async () => {
  const quick = { latency: 'constant:5' }
  pool = await SimulatedPool.start([quick, quick, quick, quick])
  await pool.scoreAll(300)
  for (const server of pool.servers) server.control({ latency: 'constant:100' })
  const before = pool.hedges
  expect(failuresOf(await pool.scoreAll(400))).toEqual([])
  expect(pool.hedges - before).toBeLessThanOrEqual(20)
  expect(pool.events.filter(({ to }) => to === 'ejected')).toEqual([])
})

test('16 · a deadline shorter than any answer: the sample is not sent', async () => {
  pool = await SimulatedPool.start([{ latency: 'constant:200' }])
  await pool.scoreAll(30)
  const before = pool.stats(1).requests
  const results = await pool.scoreAll(5, () => ({ deadlineMs: 60 }))
  for (const result of results) {
    expect(result).toMatchObject({ ok: false, reason: 'deadline', attempts: [] })
  }
  expect(pool.stats(1).requests).toBe(before)
})

test('17 · two runs, one ten times larger: equal shares while both have samples', async () => {
  pool = await SimulatedPool.start([{ latency: 'constant:5' }, { latency: 'constant:5' }], {
    slots: 4,
  })
  const order: string[] = []
  const samples = (run: string, count: number) =>
    pool.scoreAll(count, () => ({ run })).then((results) => results)
  const note = (run: string) => (result: unknown) => {
    order.push(run)
    return result
  }
  const large = Array.from({ length: 1_000 }, () =>
    pool.score({ run: 'large' }).then(note('large')),
  )
  const small = Array.from({ length: 100 }, () => pool.score({ run: 'small' }).then(note('small')))
  await Promise.all([...large, ...small])
  const both = order.slice(0, order.lastIndexOf('small') + 1)
  const share = both.filter((run) => run === 'small').length / both.length
  expect(share).toBeGreaterThan(0.45)
  expect(share).toBeLessThan(0.55)
  expect(await samples('later', 1)).toHaveLength(1)
})

test('19 · thousands of samples with random aborts: every counter is back at 0', async () => {
  pool = await SimulatedPool.start(
    [{ latency: 'constant:0' }, { latency: 'uniform:0,4' }, { latency: 'constant:1' }],
    { slots: 32 },
  )
  pool.servers[1]?.control({ faults: { error500: 0.02, html: 0.02, dieMidBody: 0.01 } })
  let seed = 7
  const draw = () => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0
    return seed / 0x1_0000_0000
  }
  let ended = 0
  const bursts = FULL ? 20 : 6
  for (let burst = 0; burst < bursts; burst++) {
    await Promise.all(
      Array.from({ length: 500 }, async () => {
        const abort = new AbortController()
        const result = pool.score({ signal: abort.signal }, 50)
        if (draw() < 0.2) setTimeout(() => abort.abort(), draw() * 20)
        await result
        ended++
      }),
    )
  }
  expect(ended).toBe(bursts * 500)
  for (const stats of pool.router.snapshot()) {
    expect(stats).toMatchObject({ inFlight: 0, waiting: 0, workTokens: 0 })
  }
  await until(() => pool.servers.every((server) => server.stats().inFlight === 0))
}, 60_000)

test('20 · deterministic: the same seed and samples give the same assignment, regardless of load', async () => {
  const assignments: number[][] = []
  for (const latency of ['constant:0', 'uniform:0,30']) {
    const each = await SimulatedPool.start([{ latency }, { latency }, { latency }, { latency }], {
      router: { policy: 'deterministic', seed: 42 },
      slots: 3,
    })
    const results = await each.scoreAll(200, (i) => ({ key: `sample-${i}` }))
    assignments.push(results.map((result) => (result.ok ? result.serverId : 0)))
    await each.close()
  }
  expect(assignments[0]).toEqual(assignments[1])
  expect(new Set(assignments[0])).toEqual(new Set([1, 2, 3, 4]))
})

test('23 · TEI with 16 permits and 32 samples: never more inputs than permits, none scored twice', async () => {
  pool = await SimulatedPool.start([{ dialect: 'tei', permits: 16, latency: 'constant:20' }], {
    slots: 64,
    server: { maxInFlight: null, maxConcurrent: 16 },
  })
  expect(failuresOf(await pool.scoreAll(32))).toEqual([])
  const stats = pool.servers[0]?.stats()
  expect(stats?.maxTextsInFlight).toBeLessThanOrEqual(16)
  expect(stats?.textsTotal).toBe(32)
})

test('24 · in a full step a group of 8 is sent to one or two servers', async () => {
  pool = await SimulatedPool.start([steady, steady, steady, steady])
  const homes = new Map<string, Set<number>>()
  const results = await pool.scoreAll(
    64 * 8,
    (i) => ({ group: `g${i >> 3}` }),
    (i) => 200 + ((i * 37) % 400),
  )
  results.forEach((result, i) => {
    const group = `g${i >> 3}`
    const home = homes.get(group) ?? new Set<number>()
    if (result.ok) home.add(result.serverId)
    homes.set(group, home)
  })
  const spread = [...homes.values()].map(({ size }) => size)
  // The last groups of a step are divided among servers without groups of their own.
  expect(spread.filter((size) => size <= 2).length).toBeGreaterThanOrEqual(60)
  expect(Math.max(...pool.router.snapshot().map(({ requests }) => requests))).toBeLessThanOrEqual(
    160,
  )
})

test('identical samples of a group in flight share one request, and each has a result', async () => {
  pool = await SimulatedPool.start([{ latency: 'constant:30' }])
  const input = { prompt: 'What is 6 × 7?', response: '42' }
  const results = await pool.scoreAll(8, () => ({ input, group: 'g' }))
  expect(failuresOf(results)).toEqual([])
  expect(new Set(results.map((result) => result.ok && result.score)).size).toBe(1)
  expect(results.filter((result) => result.ok && result.shared === true)).toHaveLength(7)
  expect(pool.requests).toBe(1)
})

test('if a sample is cancelled, the identical samples that share its request are still scored', async () => {
  pool = await SimulatedPool.start([{ latency: 'constant:40' }])
  const input = { prompt: 'What is 6 × 7?', response: '42' }
  const abort = new AbortController()
  const first = pool.score({ input, group: 'g', signal: abort.signal })
  const others = pool.scoreAll(3, () => ({ input, group: 'g' }))
  await until(() => pool.stats(1).inFlight === 1)
  abort.abort()
  expect(await first).toMatchObject({ ok: false, reason: 'cancelled' })
  expect(failuresOf(await others)).toEqual([])
})

test('identical samples for a judge are sent separately: k votes are k calls', async () => {
  pool = await SimulatedPool.start([{ dialect: 'chat' }], { server: { kind: 'generative' } })
  const chat = { messages: [{ role: 'user', content: 'Rate: 42' }] }
  await Promise.all(
    Array.from({ length: 5 }, () =>
      pool.router.chat({ model: 'rm', chat, timeoutMs: 10_000, maxAttempts: 2 }),
    ),
  )
  expect(pool.requests).toBe(5)
})

test('one server of four answers 500 immediately: under 5 % of the calls within 2 s, no sample fails', async () => {
  pool = await SimulatedPool.start([steady, steady, steady, steady])
  pool.servers[2]?.control({ faults: { error500: 1 } })
  const endAtMs = performance.now() + 2_000
  let failed = 0
  await Promise.all(
    Array.from({ length: 48 }, async () => {
      while (performance.now() < endAtMs) if (!(await pool.score()).ok) failed++
    }),
  )
  expect(failed).toBe(0)
  expect(pool.stats(3).requests / pool.requests).toBeLessThan(0.05)
})
