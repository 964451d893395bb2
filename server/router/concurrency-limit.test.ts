import { describe, expect, test } from 'vitest'
import { AdaptiveLimit } from './concurrency-limit.ts'
import { fixedAt, goodputAt, type SharingServer, serve } from './testing/sharing-server.ts'

const BOUNDS = { initial: 8, min: 4, max: 96, fixed: false }
const FIXED = [4, 6, 8, 12, 16, 24, 32, 48, 64, 96]

const mean = (numbers: number[]) => numbers.reduce((sum, n) => sum + n, 0) / numbers.length

const SERVERS: [string, SharingServer][] = [
  ['saturated by 2 samples', { tokensPerSecond: 20_000, saturatedBy: 2 }],
  ['saturated by 8 samples', { tokensPerSecond: 20_000, saturatedBy: 8 }],
  ['saturated by 32 samples', { tokensPerSecond: 20_000, saturatedBy: 32 }],
  [
    'saturated by 8 samples and worse beyond 16',
    { tokensPerSecond: 20_000, saturatedBy: 8, thrashing: 1 },
  ],
  ['that is never saturated', { tokensPerSecond: 20_000, saturatedBy: Number.POSITIVE_INFINITY }],
  ['of a judge, saturated by 24 samples', { tokensPerSecond: 800, saturatedBy: 24 }],
]

describe.each(SERVERS)('a server %s', (_, server) => {
  test.each([1, 2, 3, 4])(
    'reaches at least 75 %% of the goodput of the best fixed limit (seed %d)',
    (seed) => {
      const limit = new AdaptiveLimit(BOUNDS)
      const { limits } = serve(server, limit, { samples: 6_000, seed })
      const best = Math.max(...FIXED.map((n) => goodputAt(server, n)))
      expect(mean(limits.slice(-2_000).map((n) => goodputAt(server, n)))).toBeGreaterThan(
        0.75 * best,
      )
    },
  )

  test('reaches 75 % with samples of equal size, and of sizes that differ a hundredfold', () => {
    const best = Math.max(...FIXED.map((n) => goodputAt(server, n)))
    for (const spread of [0, 1.2]) {
      const { limits } = serve(server, new AdaptiveLimit(BOUNDS), {
        samples: 6_000,
        seed: 5,
        spread,
      })
      expect(mean(limits.slice(-2_000).map((n) => goodputAt(server, n)))).toBeGreaterThan(
        0.75 * best,
      )
    }
  })

  test('takes at most 1.75 times as long as the best fixed limit for a step of 1,024 samples', () => {
    const options = { samples: 1_024, seed: 6 }
    const best = Math.min(...FIXED.map((n) => serve(server, fixedAt(n), options).endMs))
    expect(serve(server, new AdaptiveLimit(BOUNDS), options).endMs).toBeLessThan(1.75 * best)
  })
})

test('the limit stays near saturation instead of filling the server with waiting samples', () => {
  const server = { tokensPerSecond: 20_000, saturatedBy: 8 }
  const { limits } = serve(server, new AdaptiveLimit({ ...BOUNDS, initial: 32 }), {
    samples: 8_000,
    seed: 1,
  })
  expect(mean(limits.slice(-1_000))).toBeLessThan(20)
})

test('the limit grows to its bound on a server that is never saturated, and no further', () => {
  const server = { tokensPerSecond: 20_000, saturatedBy: Number.POSITIVE_INFINITY }
  const { limits } = serve(server, new AdaptiveLimit({ ...BOUNDS, max: 40 }), {
    samples: 4_000,
    seed: 2,
  })
  expect(Math.max(...limits)).toBe(40)
  expect(mean(limits.slice(-1_000))).toBeGreaterThan(36)
})

test('the limit does not change while there is not enough work to fill it', () => {
  const server = { tokensPerSecond: 20_000, saturatedBy: 32 }
  const limit = new AdaptiveLimit({ ...BOUNDS, initial: 12 })
  const { limits } = serve(server, limit, { samples: 3_000, seed: 3, offered: () => 6 })
  expect(new Set(limits)).toEqual(new Set([12]))
})

test('the limit adapts when the server changes', () => {
  const limit = new AdaptiveLimit(BOUNDS)
  const options = { samples: 6_000, seed: 4 }
  const large = { tokensPerSecond: 20_000, saturatedBy: 32 }
  const { endMs, limits } = serve(large, limit, options)
  expect(mean(limits.slice(-1_000))).toBeGreaterThan(24)
  const small = { tokensPerSecond: 4_000, saturatedBy: 6, thrashing: 1 }
  const after = serve(small, limit, { ...options, fromMs: endMs })
  expect(mean(after.limits.slice(-1_000).map((n) => goodputAt(small, n)))).toBeGreaterThan(3_000)
  const again = serve(large, limit, { ...options, fromMs: after.endMs })
  expect(mean(again.limits.slice(-1_000).map((n) => goodputAt(large, n)))).toBeGreaterThan(15_000)
})

describe('a busy server', () => {
  test('multiplies the limit by 0.7, at most once a second, never below the minimum', () => {
    const limit = new AdaptiveLimit({ ...BOUNDS, initial: 40 })
    for (let i = 0; i < 30; i++) limit.busy(1_000 + i)
    expect(limit.limit).toBe(28)
    limit.busy(2_000)
    expect(limit.limit).toBe(19)
    for (let second = 3; second < 30; second++) limit.busy(second * 1_000)
    expect(limit.limit).toBe(4)
  })

  test('an adaptive limit grows again, and for 30 s stays below the limit that was too high', () => {
    const server = { tokensPerSecond: 20_000, saturatedBy: Number.POSITIVE_INFINITY }
    const limit = new AdaptiveLimit({ ...BOUNDS, initial: 40 })
    limit.busy(0)
    const { limits, endMs } = serve(server, limit, { samples: 1_500, seed: 7 })
    expect(limits[0]).toBe(28)
    expect(Math.max(...limits)).toBe(39)
    expect(endMs).toBeLessThan(30_000)
    const later = serve(server, limit, { samples: 3_000, seed: 8, fromMs: 31_000 })
    expect(Math.max(...later.limits)).toBeGreaterThan(60)
  })

  test('a fixed limit shrinks, and recovers 10 % of its value per second', () => {
    const limit = new AdaptiveLimit({ initial: 64, min: 1, max: 64, fixed: true })
    limit.busy(10_000)
    expect(limit.limit).toBe(44)
    limit.dispatched(10_900, 44)
    expect(limit.limit).toBe(44)
    limit.completed(11_000, 100, true, 20)
    expect(limit.limit).toBe(50)
    limit.busy(11_500)
    expect(limit.limit).toBe(35)
    limit.dispatched(14_500, 20)
    expect(limit.limit).toBe(54)
    limit.dispatched(60_000, 1)
    expect(limit.limit).toBe(64)
  })

  test('a fixed limit of one does not shrink', () => {
    const limit = new AdaptiveLimit({ initial: 1, min: 1, max: 1, fixed: true })
    limit.busy(0)
    expect(limit.limit).toBe(1)
  })
})

test('a fixed limit ignores measurements', () => {
  const limit = new AdaptiveLimit({ initial: 10, min: 1, max: 10, fixed: true })
  const server = { tokensPerSecond: 20_000, saturatedBy: 32 }
  expect(new Set(serve(server, limit, { samples: 1_000, seed: 1 }).limits)).toEqual(new Set([10]))
})

test('the limit does not grow while the engine reports waiting samples', () => {
  const server = { tokensPerSecond: 20_000, saturatedBy: Number.POSITIVE_INFINITY }
  const limit = new AdaptiveLimit(BOUNDS)
  const watched = {
    get limit() {
      return limit.limit
    },
    dispatched(nowMs: number, inFlight: number) {
      limit.noGrowth(nowMs)
      limit.dispatched(nowMs, inFlight)
    },
    completed: limit.completed.bind(limit),
  }
  const { limits, endMs } = serve(server, watched, { samples: 1_000, seed: 9 })
  expect(Math.max(...limits)).toBe(8)
  const after = serve(server, limit, { samples: 6_000, seed: 9, fromMs: endMs + 5_001 })
  expect(Math.max(...after.limits)).toBe(96)
})

test('failed samples add no goodput, so a limit at which half of them fail is not kept', () => {
  const server = { tokensPerSecond: 20_000, saturatedBy: 64 }
  const limit = new AdaptiveLimit(BOUNDS)
  let ended = 0
  const failing = {
    get limit() {
      return limit.limit
    },
    dispatched: limit.dispatched.bind(limit),
    completed(nowMs: number, tokens: number, _ok: boolean, elapsedMs: number) {
      const ok = limit.limit <= 24 || ended++ % 2 === 0
      limit.completed(nowMs, ok ? tokens : 0, ok, elapsedMs)
    },
  }
  const { limits } = serve(server, failing, { samples: 8_000, seed: 10 })
  const late = limits.slice(-4_000)
  expect(late.filter((n) => n <= 24).length / late.length).toBeGreaterThan(0.6)
  expect(mean(late)).toBeGreaterThan(15)
})

test('the limit stays an integer within its bounds for any input', () => {
  const limit = new AdaptiveLimit({ ...BOUNDS, initial: 3.7, min: 0, max: 12.9 })
  expect(limit.limit).toBe(3)
  const odd = [0, -1, Number.NaN, Number.POSITIVE_INFINITY, 1e308, 5]
  for (let i = 0; i < 5_000; i++) {
    limit.dispatched(i, 12)
    limit.completed(i, odd[i % 6] as number, i % 7 !== 0, odd[(i * 5) % 6] as number)
    if (i % 97 === 0) limit.busy(i)
    expect(Number.isInteger(limit.limit)).toBe(true)
    expect(limit.limit).toBeGreaterThanOrEqual(1)
    expect(limit.limit).toBeLessThanOrEqual(12)
  }
})
