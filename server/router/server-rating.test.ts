import { describe, expect, test } from 'vitest'
import { leastWork } from './policies/least-work.ts'
import { ServerRating } from './server-rating.ts'
import { type SharingServer, serve } from './testing/sharing-server.ts'

function rate(
  server: SharingServer,
  most: number,
  options: { samples: number; seed: number; offered?: (nowMs: number) => number; fromMs?: number },
  rating = new ServerRating(),
) {
  const served = serve(
    server,
    {
      limit: most,
      dispatched: (_, inFlight) => rating.began(inFlight, most),
      completed: (nowMs, tokens, _, elapsedMs) => rating.completed(nowMs, tokens, elapsedMs),
    },
    options,
  )
  return { rating, ...served }
}

describe('tokens per second', () => {
  const server = { tokensPerSecond: 20_000, saturatedBy: 8 }

  test('is the server’s rate at full load', () => {
    const { rating, endMs, tokensPerSecond } = rate(server, 16, { samples: 1_000, seed: 1 })
    const measured = rating.tokensPerSecond(endMs) as number
    expect(measured / tokensPerSecond).toBeGreaterThan(0.9)
    expect(measured / tokensPerSecond).toBeLessThan(1.1)
  })

  test('is unknown until the server was full, and again a minute later', () => {
    const idle = rate(server, 16, { samples: 200, seed: 1, offered: () => 2 })
    expect(idle.rating.tokensPerSecond(idle.endMs)).toBeNull()
    const { rating, endMs } = rate(server, 16, { samples: 200, seed: 1 })
    expect(rating.tokensPerSecond(endMs + 50_000)).not.toBeNull()
    expect(rating.tokensPerSecond(endMs + 70_000)).toBeNull()
  })

  test('does not fall while there is little work', () => {
    const { rating, endMs } = rate(server, 16, { samples: 500, seed: 1 })
    const before = rating.tokensPerSecond(endMs) as number
    const idle = rate(server, 16, { samples: 60, seed: 2, offered: () => 1, fromMs: endMs }, rating)
    expect(rating.tokensPerSecond(idle.endMs)).toBeGreaterThanOrEqual(before)
  })

  test('rises with a faster measurement below full load, and does not fall with a slower one', () => {
    const rating = new ServerRating()
    const measure = (nowMs: number, inFlight: number, elapsedMs: number) => {
      rating.began(inFlight, 8)
      rating.completed(nowMs, 1_000, elapsedMs)
      return rating.tokensPerSecond(nowMs)
    }
    measure(0, 8, 8_000)
    expect(measure(2_000, 8, 8_000)).toBe(1_000)
    // 4 concurrent samples of 1,000 tokens in 2 s are 2,000 tokens/s. After 10 s, half of the change from 1,000 counts.
    expect(measure(12_000, 4, 2_000)).toBeCloseTo(1_500, 9)
    expect(measure(22_000, 4, 8_000)).toBeCloseTo(1_500, 9)
  })

  test('follows a server that becomes slower: half of the change in 10 s', () => {
    const { rating, endMs } = rate(server, 16, { samples: 500, seed: 1 })
    const slow = { ...server, tokensPerSecond: 4_000 }
    const samples = 40
    const { endMs: laterMs } = rate(slow, 16, { samples, seed: 2, fromMs: endMs }, rating)
    expect(laterMs - endMs).toBeGreaterThan(7_000)
    const measured = rating.tokensPerSecond(laterMs) as number
    expect(measured).toBeGreaterThan(6_000)
    expect(measured).toBeLessThan(16_000)
    const { endMs: endedMs } = rate(slow, 16, { samples: 400, seed: 3, fromMs: laterMs }, rating)
    expect(rating.tokensPerSecond(endedMs)).toBeLessThan(4_800)
  })

  test('low traffic to equal servers stays even: the one with fewer samples does not look slow', () => {
    const policy = leastWork()
    const servers = [1, 2, 3].map((id) => ({
      id,
      weight: 1,
      inFlight: 0,
      slots: 16,
      workTokens: 0,
      tokensPerSecond: null as number | null,
      peakMsPerKtok: null,
      externalQueue: 0,
      rating: new ServerRating(),
      taken: 0,
      ends: [] as { atMs: number; fromMs: number; tokens: number }[],
    }))
    for (let i = 0; i < 3_000; i++) {
      const nowMs = i * 20
      for (const each of servers) {
        for (let end = each.ends[0]; end !== undefined && end.atMs <= nowMs; end = each.ends[0]) {
          each.ends.shift()
          each.inFlight--
          each.workTokens -= end.tokens
          each.rating.completed(end.atMs, end.tokens, end.atMs - end.fromMs)
        }
        each.tokensPerSecond = each.rating.tokensPerSecond(nowMs)
      }
      const tokens = 200 + ((i * 7919) % 1_000)
      const taken = policy.pick(servers, { tokens, group: undefined, key: undefined })
      taken.taken++
      taken.inFlight++
      taken.workTokens += tokens
      taken.rating.began(taken.inFlight, taken.slots)
      taken.ends.push({ atMs: nowMs + tokens / 10, fromMs: nowMs, tokens })
      taken.ends.sort((a, b) => a.atMs - b.atMs)
    }
    for (const { taken } of servers) expect(Math.abs(taken - 1_000)).toBeLessThan(150)
  })
})

describe('peak latency', () => {
  // With the fixed cost of 200 tokens, a sample of 1,000 tokens counts as 1,200 and one of 800 as 1,000.
  test('rises immediately, decays with a time constant of 10 s, is unknown after a minute', () => {
    const rating = new ServerRating()
    expect(rating.peakMsPerKtok(0)).toBeNull()
    for (let i = 0; i < 100; i++) rating.completed(i * 10, 800, 40)
    expect(rating.peakMsPerKtok(1_000)).toBeCloseTo(1.2 * 40, 5)
    rating.completed(1_000, 800, 900)
    expect(rating.peakMsPerKtok(1_000)).toBeCloseTo(1.2 * 900, 5)
    expect(rating.peakMsPerKtok(11_000)).toBeCloseTo(1.2 * (40 + 860 / Math.E), 0)
    rating.completed(21_000, 800, 40)
    expect(rating.peakMsPerKtok(21_000)).toBeCloseTo(1.2 * (40 + 860 / Math.E ** 2), 0)
    expect(rating.peakMsPerKtok(82_000)).toBeNull()
  })

  test('a fault counts as a whole attempt: a server that fails quickly is not fast', () => {
    const rating = new ServerRating()
    for (let i = 0; i < 50; i++) rating.completed(i, 800, 40)
    rating.fault(50, 1, 800)
    expect(rating.peakMsPerKtok(50)).toBe(1.2 * 5_000)
    rating.fault(60, 7_000, 800)
    expect(rating.peakMsPerKtok(60)).toBe(1.2 * 7_000)
    rating.fault(70, 1, 800, 30_000)
    expect(rating.peakMsPerKtok(70)).toBe(1.2 * 30_000)
    const never = new ServerRating()
    for (let i = 0; i < 100; i++) never.fault(i, 1)
    expect(never.peakMsPerKtok(100)).toBeGreaterThan(20_000)
  })
})

describe('times', () => {
  test('scale with a sample’s size', () => {
    const rating = new ServerRating()
    expect(rating.expectedMs(100)).toBeNull()
    expect(rating.samples).toBe(0)
    // 5 ms per call and 25 ms per 1,000 tokens.
    for (let i = 0; i < 100; i++) rating.completed(i, 10 * i, 5 + 0.25 * i)
    for (const tokens of [10, 500, 5_000]) {
      expect(rating.expectedMs(tokens)).toBeCloseTo(5 + tokens / 40, 5)
      expect(rating.quantileMs(0.99, tokens)).toBeCloseTo(5 + tokens / 40, 5)
    }
  })

  test('cover only the last 256 samples', () => {
    const rating = new ServerRating()
    for (let i = 0; i < 256; i++) rating.completed(i, 800, 500)
    expect(rating.normalizedMs(0.5)).toBe(500)
    for (let i = 0; i < 250; i++) rating.completed(300 + i, 800, i + 1)
    expect(rating.samples).toBe(256)
    expect(rating.normalizedMs(0.5)).toBeGreaterThan(110)
    expect(rating.normalizedMs(0.5)).toBeLessThan(145)
    expect(rating.normalizedMs(1)).toBe(500)
  })

  test('are known from the first sample on', () => {
    const rating = new ServerRating()
    for (let i = 1; i <= 8; i++) {
      rating.completed(i, 800, i)
      expect(rating.normalizedMs(1)).toBe(i)
    }
  })
})

describe('faults', () => {
  test('are a share of the calls of the last 30 s', () => {
    const rating = new ServerRating()
    expect(rating.faultShare(0)).toEqual({ share: 0, calls: 0 })
    for (let i = 0; i < 6; i++) rating.completed(1_000, 100, 10)
    for (let i = 0; i < 2; i++) rating.fault(2_000, 10)
    expect(rating.faultShare(2_500)).toEqual({ share: 0.25, calls: 8 })
    expect(rating.faultShare(31_500)).toEqual({ share: 1, calls: 2 })
    expect(rating.faultShare(40_000)).toEqual({ share: 0, calls: 0 })
  })

  test('invalid responses are counted for a minute', () => {
    const rating = new ServerRating()
    expect([0, 10_000, 20_000].map((nowMs) => rating.corrupt(nowMs))).toEqual([1, 2, 3])
    expect(rating.corruptCount(59_000)).toBe(3)
    expect(rating.corruptCount(65_000)).toBe(2)
  })
})

test('accepts invalid numbers, and can be reset', () => {
  const rating = new ServerRating()
  const odd = [0, -1, Number.NaN, Number.POSITIVE_INFINITY]
  for (let i = 0; i < 1_000; i++) {
    rating.began(odd[i % 4] as number, odd[(i * 3) % 4] as number)
    rating.completed(i * 10, odd[i % 4] as number, odd[(i >> 2) % 4] as number)
    if (i % 50 === 0) rating.fault(i * 10, odd[i % 4] as number, odd[(i * 7) % 4] as number)
  }
  for (const value of [
    rating.tokensPerSecond(10_000) ?? 0,
    rating.peakMsPerKtok(10_000) ?? 0,
    rating.normalizedMs(0.99) ?? 0,
  ]) {
    expect(Number.isFinite(value)).toBe(true)
  }
  rating.reset()
  expect(rating.tokensPerSecond(10_000)).toBeNull()
  expect(rating.peakMsPerKtok(10_000)).toBeNull()
  expect(rating.expectedMs(10)).toBeNull()
  expect(rating.faultShare(10_000).calls).toBe(0)
})
