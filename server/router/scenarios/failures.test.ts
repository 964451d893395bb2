import { afterEach, expect, test } from 'vitest'
import { inFullRun } from '../../../testkit/service/full-run.ts'
import { until } from '../testing/harness.ts'
import { failuresOf, SimulatedPool } from '../testing/pool.ts'

/** The numbers in the titles are those in docs/guarantees.md. */

let pool: SimulatedPool
afterEach(() => pool?.close())

const steady = { latency: 'constant:10' }

test('1 · 50 over-long samples: at most 50 calls, 50 typed failures, no ejection', async () => {
  pool = await SimulatedPool.start([
    { ...steady, maxModelLen: 200 },
    { ...steady, maxModelLen: 200 },
  ])
  const results = await pool.scoreAll(50, undefined, () => 4_000)
  for (const result of results) {
    expect(result).toMatchObject({ ok: false, reason: 'context_exceeded' })
  }
  expect(pool.requests).toBeLessThanOrEqual(50)
  expect(pool.events).toEqual([])
  expect(await pool.score()).toMatchObject({ ok: true })
})

test('2 · one server answers 503 "queue full": its limit shrinks, it is not ejected, no sample fails', async () => {
  pool = await SimulatedPool.start([steady, steady, steady], {
    slots: 16,
    server: { maxInFlight: 16 },
  })
  pool.servers[0]?.control({ faults: { full503: 0.7 } })
  expect(failuresOf(await pool.scoreAll(400))).toEqual([])
  expect(pool.stats(1).failures.busy).toBeGreaterThan(0)
  expect(pool.stats(1).limit).toBeLessThan(16)
  expect(pool.events).toEqual([])
})

test('3 · a server hangs at sample 20: the step ends without its samples waiting for their timeout', async () => {
  const latency = 'constant:25'
  pool = await SimulatedPool.start([{ latency }, { latency }, { latency }, { latency }])
  // These samples let the router measure the usual times: the guarantee covers a step, not the first seconds of a pool.
  expect(failuresOf(await pool.scoreAll(200))).toEqual([])
  pool.servers[0]?.control({ hangAfterTexts: 20 })
  const before = pool.requests
  const hedgesBefore = pool.hedges
  const results = await pool.scoreAll(2_000, () => ({ timeoutMs: 60_000 }))
  expect(failuresOf(results)).toEqual([])
  // Only the hanging server's samples in flight and the last few samples of the step are hedged.
  const heldSamples = pool.servers[0]?.stats().maxTextsInFlight ?? 0
  expect(pool.hedges - hedgesBefore).toBeGreaterThan(0)
  expect(pool.hedges - hedgesBefore).toBeLessThanOrEqual(heldSamples + 30)
  expect(pool.requests - before).toBeLessThanOrEqual(2_000 + heldSamples + 30)
  expect(pool.events.map(({ to }) => to)).toContain('suspect')
  await until(() => pool.stats(1).inFlight === 0)
}, 60_000)

test('4 · a server dies in the middle of its answers: every sample has one score, from one call', async () => {
  pool = await SimulatedPool.start([steady, steady, steady])
  pool.servers[0]?.control({ faults: { dieMidBody: 0.5 } })
  const results = await pool.scoreAll(300)
  expect(failuresOf(results)).toEqual([])
  for (const result of results) {
    expect(result.attempts.filter(({ outcome }) => outcome === 'ok')).toHaveLength(1)
  }
})

test('5 · NaN, null and a wrong length are corrupt; if two servers agree, the sample is at fault', async () => {
  for (const fault of ['nan', 'null', 'wrongLength'] as const) {
    const both = await SimulatedPool.start([steady, steady])
    for (const server of both.servers) server.control({ faults: { [fault]: 1 } })
    const failed = await both.score()
    expect(failed).toMatchObject({
      ok: false,
      reason: fault === 'wrongLength' ? 'unparseable' : 'non_finite',
    })
    expect(failed.attempts.map(({ outcome }) => outcome)).toEqual(['corrupt', 'corrupt'])
    await both.close()
  }
  pool = await SimulatedPool.start([steady, steady])
  pool.servers[0]?.control({ faults: { nan: 1 } })
  expect(failuresOf(await pool.scoreAll(60))).toEqual([])
  expect(pool.stats(1).health).toBe('ejected')
  expect(pool.stats(2).health).toBe('ok')
})

test('6 · a judge’s reply that was aborted (200, finish_reason "abort") is requested again, never used', async () => {
  pool = await SimulatedPool.start([{ dialect: 'chat' }, { dialect: 'chat' }], {
    server: { kind: 'generative' },
  })
  pool.servers[0]?.control({ faults: { abort: 1 } })
  const results = await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      pool.router.chat({
        model: 'rm',
        chat: { messages: [{ role: 'user', content: `Rate answer ${i}: 42` }] },
        timeoutMs: 20_000,
        maxAttempts: 4,
      }),
    ),
  )
  for (const result of results) expect(result).toMatchObject({ ok: true, serverId: 2 })
  expect(pool.stats(1).failures.fault).toBeGreaterThan(0)
  // A judge's request is never hedged.
  expect(pool.hedges).toBe(0)
})

test('13 · a server that fails within a millisecond gets only five samples and single probes', async () => {
  pool = await SimulatedPool.start([steady, steady, steady, steady])
  pool.servers[0]?.control({ faults: { error500: 1 } })
  expect(failuresOf(await pool.scoreAll(1_000))).toEqual([])
  const { requests } = pool.stats(1)
  const { ejections } = pool.stats(1)
  // The samples in flight at the fifth failure count too. There are at most as many as the server's slots.
  expect(requests).toBeLessThanOrEqual(5 + 8 + 2 * ejections)
  expect(requests / pool.requests).toBeLessThan(0.05)
})

test('14 · half open: never more than one call in flight, until two in a row succeed', async () => {
  pool = await SimulatedPool.start([steady], { router: { ejectionStepMs: 30 } })
  const [server] = pool.servers
  server?.control({ faults: { error500: 1 } })
  await pool.scoreAll(8, () => ({ maxAttempts: 1 }))
  expect(pool.stats(1).health).toMatch(/^(ejected|half_open)$/)
  server?.control({ faults: null, latency: 'constant:30', resetStats: true })
  const results = pool.scoreAll(20)
  await until(() => pool.stats(1).health === 'half_open')
  let most = 0
  await until(() => {
    if (pool.stats(1).health !== 'half_open') return true
    most = Math.max(most, pool.stats(1).inFlight)
    return false
  })
  expect(most).toBe(1)
  expect(pool.stats(1).health).toBe('slow_start')
  expect(failuresOf(await results)).toEqual([])
})

test.each(['seconds', ...inFullRun('date' as const, 'ms' as const, 'x-ms' as const)] as const)(
  '15 · Retry-After as %s applies to every sample and charges no extra attempt',
  async (retryAfter) => {
    pool = await SimulatedPool.start([steady])
    const [server] = pool.servers
    server?.control({ faults: { limited429: { share: 1, retryAfter, retryAfterMs: 2_000 } } })
    const results = pool.scoreAll(4)
    await until(() => pool.stats(1).failures.busy === 4)
    const refused = pool.stats(1).requests
    server?.control({ faults: null })
    expect(failuresOf(await results)).toEqual([])
    const samples = server?.stats().texts ?? []
    const first = Math.max(
      ...samples.filter(({ status }) => status === 429).map(({ atMs }) => atMs),
    )
    const next = Math.min(...samples.filter(({ status }) => status === 200).map(({ atMs }) => atMs))
    // An HTTP date has whole seconds, so it may shorten the pause by up to one second.
    expect(next - first).toBeGreaterThanOrEqual(retryAfter === 'date' ? 900 : 1_900)
    expect(refused).toBeLessThanOrEqual(4)
  },
)

test('18 · all servers restart one after the other under load: no sample fails', async () => {
  // With the default ejection time, most of the test would be a wait for the last server's probe.
  pool = await SimulatedPool.start([steady, steady, steady], { router: { ejectionStepMs: 200 } })
  let stop = false
  let scored = 0
  let failed = 0
  const load = Promise.all(
    Array.from({ length: 24 }, async () => {
      while (!stop) {
        const result = await pool.score()
        if (result.ok) scored++
        else failed++
      }
    }),
  )
  for (const server of pool.servers) {
    const target = scored + 150
    server.control({ die: { afterMs: 0, forMs: 150 } })
    await until(() => scored > target)
  }
  stop = true
  await load
  expect(failed).toBe(0)
  expect(pool.router.snapshot().map(({ inFlight }) => inFlight)).toEqual([0, 0, 0])
})
