import { expect, test } from 'vitest'
import { median, pairedDifference, quantile, rounded, studentQuantile } from './statistics.ts'
import { makeSamples, USUAL_SHAPE } from './texts.ts'

test('quantiles are interpolated between neighbors, for any order of the values', () => {
  expect(median([3, 1, 2])).toBe(2)
  expect(median([4, 1, 2, 3])).toBe(2.5)
  expect(quantile([10, 20], 0.9)).toBeCloseTo(19)
  expect(quantile([5], 0.99)).toBe(5)
  expect(quantile([], 0.5)).toBeNaN()
  expect(rounded(1.2345, 2)).toBe(1.23)
})

test.each([
  [1, 12.7062],
  [2, 4.30265],
  [4, 2.77645],
  [9, 2.26216],
  [30, 2.04227],
  [1000, 1.96234],
])("Student's t with %i degrees of freedom", (degreesOfFreedom, expected) => {
  expect(studentQuantile(0.975, degreesOfFreedom)).toBeCloseTo(expected, 4)
  expect(studentQuantile(0.025, degreesOfFreedom)).toBeCloseTo(-expected, 4)
  expect(studentQuantile(0.5, degreesOfFreedom)).toBeCloseTo(0)
})

test('a paired difference uses ratios, so a slow pair weighs no more than a fast one', () => {
  const difference = pairedDifference([
    { ours: 102, theirs: 100 },
    { ours: 1020, theirs: 1000 },
    { ours: 10.2, theirs: 10 },
  ])
  expect(difference.pairs).toBe(3)
  for (const percent of [difference.medianPercent, difference.lowPercent, difference.highPercent]) {
    expect(percent).toBeCloseTo(2)
  }
})

test('a paired difference of equal measurements has an interval around 0 as wide as their spread', () => {
  const log = 0.02
  const pairs = [Math.exp(log), Math.exp(-log)].map((ours) => ({ ours, theirs: 1 }))
  const { lowPercent, highPercent } = pairedDifference(pairs)
  // Two log ratios of +0.02 and −0.02 have a standard error of 0.02. Their interval has one degree of freedom, so t is
  // 12.7.
  expect(lowPercent).toBeCloseTo(Math.expm1(-12.7062 * log) * 100, 2)
  expect(highPercent).toBeCloseTo(Math.expm1(12.7062 * log) * 100, 2)
})

test('swapping the sides of a paired difference inverts it', () => {
  const pairs = [3, 5, 4, 7, 6].map((ours, i) => ({ ours, theirs: 4 + (i % 2) }))
  const there = pairedDifference(pairs)
  const back = pairedDifference(pairs.map(({ ours, theirs }) => ({ ours: theirs, theirs: ours })))
  expect(1 + back.lowPercent! / 100).toBeCloseTo(1 / (1 + there.highPercent! / 100))
  expect(1 + back.medianPercent / 100).toBeCloseTo(1 / (1 + there.medianPercent / 100))
})

test('one pair has no interval', () => {
  expect(pairedDifference([{ ours: 11, theirs: 10 }])).toMatchObject({
    lowPercent: null,
    highPercent: null,
  })
})

test('samples have the requested shape, and the seed determines their texts', () => {
  const shape = { ...USUAL_SHAPE, samples: 64 }
  const samples = makeSamples(shape, 1)
  expect(samples).toEqual(makeSamples(shape, 1))
  expect(samples[0]?.response).not.toBe(makeSamples(shape, 2)[0]?.response)
  expect(new Set(samples.map((s) => s.response.length))).toEqual(new Set([2200]))
  expect(new Set(samples.map((s) => s.prompt.length))).toEqual(new Set([800]))
  expect(new Set(samples.map((s) => s.response)).size).toBe(64)
  expect(new Set(samples.map((s) => s.uid)).size).toBe(8)
})
