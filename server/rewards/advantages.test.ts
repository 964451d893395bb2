import { describe, expect, test } from 'vitest'
import { groupSignal, groupStatistics, grpoAdvantages } from './advantages.ts'

function expectClose(got: (number | null)[], wanted: (number | null)[]): void {
  expect(got).toHaveLength(wanted.length)
  for (const [at, value] of wanted.entries()) {
    if (value === null) expect(got[at]).toBeNull()
    else expect(Math.abs((got[at] as number) - value)).toBeLessThanOrEqual(1e-6)
  }
}

describe('advantages', () => {
  test('a failed member shifts no advantage and has none itself', () => {
    expectClose(grpoAdvantages([1, 3, 2, null]), [-1, 1, 0, null])
    // verl counts the failure as a score of 0 and trains on these values.
    expectClose(grpoAdvantages([1, 3, 2, 0]), [-0.3872978, 1.1618938, 0.3872978, -1.1618938])
  })

  test('as in verl, n − 1 and epsilon 1e-6 are used, and normByStd false skips the division', () => {
    expectClose(grpoAdvantages([0, 1]), [-0.7071058, 0.7071058])
    expectClose(grpoAdvantages([1, 3, 2, null], { normByStd: false }), [-1, 1, 0, null])
    expectClose(grpoAdvantages([4, 8], { normByStd: false }), [-2, 2])
    expectClose(grpoAdvantages([1, 1, 0], { epsilon: 1 }), [0.2113249, 0.2113249, -0.4226497])
  })

  test('the advantage of a single sample is its score; that of a lone scored member is 0', () => {
    expectClose(grpoAdvantages([0.5]), [0.5])
    expectClose(grpoAdvantages([5], { normByStd: false }), [5])
    expectClose(grpoAdvantages([5, null, null]), [0, null, null])
  })

  test('equal scores have an advantage of exactly 0, also where their mean is not exact', () => {
    expect(grpoAdvantages([0.1, 0.1, 0.1])).toEqual([0, 0, 0])
    expect(grpoAdvantages([])).toEqual([])
    expect(grpoAdvantages([null, null])).toEqual([null, null])
  })

  test('are finite for scores near the largest number', () => {
    const huge = grpoAdvantages([1.7e308, -1.7e308])
    expectClose(huge, [Math.SQRT1_2, -Math.SQRT1_2])
    expect(groupStatistics([1.7e308, -1.7e308, null])).toMatchObject({ mean: 0, failed: 1 })
    expect(groupStatistics([1.7e308, -1.7e308]).std).toBe(Number.MAX_VALUE)
    expect(grpoAdvantages([Number.NaN, 1, 2])[0]).toBeNull()
  })

  test('are computed for a group of 100,000 members', () => {
    const scores = Array.from({ length: 100_000 }, (_, at) => at % 2)
    expect(groupStatistics(scores)).toMatchObject({ scored: 100_000, mean: 0.5, min: 0, max: 1 })
    expect(grpoAdvantages(scores)[1]).toBeCloseTo(0.99999, 4)
  })
})

describe('statistics of a group', () => {
  test('leave failed members out', () => {
    expect(groupStatistics([1, 3, 2, null])).toEqual({
      members: 4,
      scored: 3,
      failed: 1,
      mean: 2,
      std: 1,
      min: 1,
      max: 3,
    })
    expect(groupStatistics([7])).toMatchObject({ mean: 7, std: null })
    expect(groupStatistics([null])).toMatchObject({ scored: 0, mean: null, std: null, min: null })
    expect(groupStatistics([])).toMatchObject({ members: 0, failed: 0, mean: null, max: null })
  })
})

describe('the class of a group', () => {
  test.each([
    [[1, 0], 'varied'],
    [[1, 1, 1], 'all_correct'],
    [[0, 0], 'all_incorrect'],
    [[-1, -1], 'all_incorrect'],
    [[0.5, 0.5], 'all_equal'],
    [[1, 1, null], 'all_correct'],
    [[null, null], 'all_failed'],
    [[1], 'single_sample'],
    [[1, null, null], 'single_sample'],
    [[], 'empty'],
  ] as const)('%j: %s', (scores, signal) => {
    expect(groupSignal(scores)).toBe(signal)
  })

  test('the caller sets the limits of correct and incorrect', () => {
    expect(groupSignal([8, 8], { correctAt: 9, incorrectAt: 3 })).toBe('all_equal')
    expect(groupSignal([9, 9], { correctAt: 9, incorrectAt: 3 })).toBe('all_correct')
    expect(groupSignal([2, 2], { correctAt: 9, incorrectAt: 3 })).toBe('all_incorrect')
  })
})
