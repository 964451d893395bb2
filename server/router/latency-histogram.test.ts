import { expect, test } from 'vitest'
import { LATENCY_BOUNDS_MS, LATENCY_BUCKET_RATIO, LatencyHistogram } from './latency-histogram.ts'

test('a quantile is within half a bucket of the exact value', () => {
  const histogram = new LatencyHistogram()
  const durations = Array.from({ length: 10_000 }, (_, i) => 0.2 * 1.0009 ** i)
  for (const duration of durations) histogram.add(duration)
  for (const q of [0.01, 0.5, 0.9, 0.99, 1]) {
    const truth = durations[Math.ceil(q * durations.length) - 1] as number
    const read = histogram.quantile(q) as number
    expect(read / truth).toBeLessThan(Math.sqrt(LATENCY_BUCKET_RATIO) * 1.001)
    expect(truth / read).toBeLessThan(Math.sqrt(LATENCY_BUCKET_RATIO) * 1.001)
  }
})

test('every duration is counted in the bucket whose bounds contain it', () => {
  for (const duration of [0, -1, Number.NaN, 0.05, 0.1, 0.11, 1, 7.3, 999, 1e5, 1e9, Infinity]) {
    const histogram = new LatencyHistogram()
    histogram.add(duration)
    const index = histogram.counts.indexOf(1)
    const last = LATENCY_BOUNDS_MS.length - 1
    if (index < last && duration > 0) {
      expect(duration).toBeLessThanOrEqual((LATENCY_BOUNDS_MS[index] as number) * 1.000001)
    }
    if (index > 0 && Number.isFinite(duration)) {
      expect(duration).toBeGreaterThan((LATENCY_BOUNDS_MS[index - 1] as number) * 0.999999)
    }
    expect(histogram.total).toBe(1)
  }
})

test('a histogram can be restored from stored counts, and counts can be subtracted from it', () => {
  const a = new LatencyHistogram()
  a.add(1)
  const stored = a.toJSON()
  a.add(100)
  a.add(100)
  const restored = LatencyHistogram.from(JSON.parse(JSON.stringify(a)))
  expect(restored.total).toBe(3)
  expect(restored.quantile(0)).toBeLessThan(2)
  restored.subtract(stored)
  expect(restored.total).toBe(2)
  expect(restored.quantile(0)).toBeGreaterThan(85)
  expect(new LatencyHistogram().quantile(0.5)).toBeNull()
  expect(() => LatencyHistogram.from([1, 2])).toThrow(RangeError)
  expect(() => LatencyHistogram.from(a.toJSON().fill(-1))).toThrow(RangeError)
})
