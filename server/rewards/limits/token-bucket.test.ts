/**
 * The sixteen scenarios of verl's token-bucket tests, under verl's names, on a clock that stands still between steps.
 */
import { describe, expect, test } from 'vitest'
import { TestClock } from './testing/test-clock.ts'
import { TokenBucket } from './token-bucket.ts'

function bucketOn(clock: TestClock, ratePerSecond: number, capacity?: number) {
  const bucket = new TokenBucket(ratePerSecond, capacity)
  return {
    bucket,
    async acquire(tokens = 1): Promise<void> {
      const waitMs = bucket.reserve(tokens, clock.nowMs())
      if (waitMs > 0) await clock.sleep(waitMs)
    },
  }
}

async function timed(clock: TestClock, run: () => Promise<unknown>): Promise<number> {
  const startedMs = clock.nowMs()
  await clock.until(run())
  return clock.nowMs() - startedMs
}

describe('token bucket', () => {
  test('basic_acquire', async () => {
    const clock = new TestClock()
    const { bucket, acquire } = bucketOn(clock, 10, 10)
    expect(await timed(clock, () => acquire(5))).toBe(0)
    expect(bucket.tokens).toBe(5)
  })

  test('refill_mechanism', async () => {
    const clock = new TestClock()
    const { bucket, acquire } = bucketOn(clock, 10, 10)
    await clock.until(acquire(10))
    expect(bucket.tokens).toBe(0)
    await clock.pass(500)
    expect(await timed(clock, () => acquire(4))).toBe(0)
  })

  test('waiting_for_tokens', async () => {
    const clock = new TestClock()
    const { acquire } = bucketOn(clock, 10, 10)
    await clock.until(acquire(10))
    expect(await timed(clock, () => acquire(5))).toBeCloseTo(500)
  })

  test('max_tokens_cap', async () => {
    const clock = new TestClock()
    const { bucket, acquire } = bucketOn(clock, 10, 5)
    await clock.pass(1_000)
    await clock.until(acquire(1))
    expect(bucket.tokens).toBe(4)
    await clock.pass(60_000)
    expect(bucket.tokensAt(clock.nowMs())).toBe(5)
  })

  test('fractional_tokens', async () => {
    const clock = new TestClock()
    const { bucket, acquire } = bucketOn(clock, 100, 100)
    for (const tokens of [0.5, 1.5, 2.3]) await clock.until(acquire(tokens))
    expect(bucket.tokens).toBeCloseTo(95.7)
  })

  test('concurrent_acquires', async () => {
    const clock = new TestClock()
    const { acquire } = bucketOn(clock, 10, 10)
    const endsMs: number[] = []
    const five = Array.from({ length: 5 }, () => acquire(3).then(() => endsMs.push(clock.nowMs())))
    await clock.until(Promise.all(five))
    expect(endsMs.map((ms) => Math.round(ms))).toEqual([0, 0, 0, 200, 500])
  })

  test('high_rate_limit', async () => {
    const clock = new TestClock()
    const { acquire } = bucketOn(clock, 1_000, 1_000)
    const takenMs = await timed(clock, async () => {
      for (let at = 0; at < 100; at++) await acquire(10)
    })
    expect(takenMs).toBeLessThan(1_500)
  })

  test('zero_initial_state', async () => {
    const clock = new TestClock()
    const { bucket, acquire } = bucketOn(clock, 10, 10)
    expect(bucket.tokens).toBe(10)
    expect(bucket.lastUpdateMs).toBeNull()
    await clock.until(acquire())
    expect(bucket.lastUpdateMs).toBe(0)
  })

  test('rate_limit_accuracy', async () => {
    const clock = new TestClock()
    const { acquire } = bucketOn(clock, 50, 50)
    await clock.until(acquire(50))
    expect(await timed(clock, () => acquire(25))).toBeCloseTo(500)
  })

  test('sequential_acquires', async () => {
    const clock = new TestClock()
    const { bucket, acquire } = bucketOn(clock, 20, 20)
    for (let at = 0; at < 4; at++) expect(await timed(clock, () => acquire(5))).toBe(0)
    expect(bucket.tokens).toBe(0)
    expect(await timed(clock, () => acquire(10))).toBeCloseTo(500)
  })

  test('default_max_tokens', () => {
    const bucket = new TokenBucket(15)
    expect(bucket.capacity).toBe(15)
    expect(bucket.tokens).toBe(15)
  })

  test('single_token_acquire', async () => {
    const clock = new TestClock()
    const { bucket, acquire } = bucketOn(clock, 10, 10)
    await clock.until(acquire())
    expect(bucket.tokens).toBe(9)
  })

  test('large_token_acquire', async () => {
    const clock = new TestClock()
    const { bucket, acquire } = bucketOn(clock, 10, 10)
    expect(await timed(clock, () => acquire(50))).toBeCloseTo(4_000)
    expect(bucket.tokensAt(clock.nowMs())).toBeCloseTo(0)
  })

  test('thread_safety_with_lock', async () => {
    const clock = new TestClock()
    const { bucket, acquire } = bucketOn(clock, 100, 100)
    await clock.until(Promise.all(Array.from({ length: 10 }, () => acquire(10))))
    expect(clock.nowMs()).toBe(0)
    expect(bucket.tokens).toBeCloseTo(0)
  })

  test('multiple_wait_cycles', async () => {
    const clock = new TestClock()
    const { acquire } = bucketOn(clock, 10, 10)
    await clock.until(acquire(10))
    expect(await timed(clock, () => acquire(15))).toBeCloseTo(1_500)
  })

  test('rapid_small_acquires', async () => {
    const clock = new TestClock()
    const { bucket, acquire } = bucketOn(clock, 100, 100)
    const takenMs = await timed(clock, async () => {
      for (let at = 0; at < 50; at++) await acquire(2)
    })
    expect(takenMs).toBe(0)
    expect(bucket.tokens).toBeCloseTo(0)
  })
})

describe('beyond verl', () => {
  test('a refund shortens the next wait and never overfills the bucket', () => {
    const bucket = new TokenBucket(10, 10)
    expect(bucket.reserve(10, 0)).toBe(0)
    bucket.refund(4, 0)
    expect(bucket.reserve(4, 0)).toBe(0)
    bucket.refund(1_000, 0)
    expect(bucket.tokens).toBe(10)
  })

  test('usage beyond the estimate is a debt that the next call waits for', () => {
    const bucket = new TokenBucket(10, 10)
    bucket.reserve(10, 0)
    bucket.refund(-20, 0)
    expect(bucket.reserve(1, 0)).toBeCloseTo(2_100)
  })

  test('an hour of steps of 0.1 s leaves no wait from rounding', () => {
    const bucket = new TokenBucket(10, 10)
    let nowMs = 0
    bucket.reserve(10, nowMs)
    for (let at = 0; at < 36_000; at++) {
      nowMs += 100
      expect(bucket.reserve(1, nowMs)).toBe(0)
    }
  })

  test('a clock that runs backwards removes no tokens', () => {
    const bucket = new TokenBucket(10, 10)
    bucket.reserve(10, 1_000)
    expect(bucket.reserve(5, 500)).toBeCloseTo(500)
    expect(bucket.reserve(5, 2_000)).toBe(0)
  })

  test.each([
    [0, 1],
    [-1, 1],
    [Number.NaN, 1],
    [1, 0],
    [1, Number.POSITIVE_INFINITY],
  ])('a rate of %d with a capacity of %d is refused', (rate, capacity) => {
    expect(() => new TokenBucket(rate, capacity)).toThrow(RangeError)
  })
})
