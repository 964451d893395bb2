import { expect, test } from 'vitest'
import { median, quantile, rounded } from './statistics.ts'
import { makeSamples, USUAL_SHAPE } from './texts.ts'

test('quantiles lie between neighbours, whatever the order', () => {
  expect(median([3, 1, 2])).toBe(2)
  expect(median([4, 1, 2, 3])).toBe(2.5)
  expect(quantile([10, 20], 0.9)).toBeCloseTo(19)
  expect(quantile([5], 0.99)).toBe(5)
  expect(quantile([], 0.5)).toBeNaN()
  expect(rounded(1.2345, 2)).toBe(1.23)
})

test('samples have the shape asked for, and follow from the seed', () => {
  const shape = { ...USUAL_SHAPE, samples: 64 }
  const samples = makeSamples(shape, 1)
  expect(samples).toEqual(makeSamples(shape, 1))
  expect(samples[0]?.response).not.toBe(makeSamples(shape, 2)[0]?.response)
  expect(new Set(samples.map((s) => s.response.length))).toEqual(new Set([2200]))
  expect(new Set(samples.map((s) => s.prompt.length))).toEqual(new Set([800]))
  expect(new Set(samples.map((s) => s.response)).size).toBe(64)
  expect(new Set(samples.map((s) => s.uid)).size).toBe(8)
})
