import { expect, test } from 'vitest'
import { backoffMs, RetryBudget } from './retries.ts'

test('the budget allows retries for a fifth of the calls in flight, and at least three', () => {
  const budget = new RetryBudget()
  const begin = (inFlight: number) => {
    let begun = 0
    while (budget.allows(inFlight)) {
      budget.begun()
      begun++
    }
    return begun
  }
  expect(begin(0)).toBe(3)
  expect(begin(19)).toBe(0)
  expect(begin(20)).toBe(1)
  expect(budget.left(20)).toBe(0)
  expect(budget.left(100)).toBe(16)
  expect(begin(100)).toBe(16)
  expect(budget.inFlight).toBe(20)
  expect(budget.left(10)).toBe(0)
  for (let i = 0; i < 20; i++) budget.ended()
  expect(budget.inFlight).toBe(0)
  expect(budget.left(Number.NaN)).toBe(3)
})

test('the count of retries in flight is never negative, and includes those beyond the budget', () => {
  const budget = new RetryBudget({ share: 0.5, least: 1 })
  budget.ended()
  expect(budget.inFlight).toBe(0)
  for (let i = 0; i < 9; i++) budget.begun()
  expect(budget.inFlight).toBe(9)
  expect(budget.allows(18)).toBe(false)
  expect(budget.allows(20)).toBe(true)
})

test('back-off is between 0 and 100 ms × 2^failures, at most 5 s', () => {
  expect(backoffMs(1, true, () => 0.999)).toBe(0)
  expect([1, 2, 3, 4, 5, 6, 40, 2_000].map((n) => backoffMs(n, false, () => 0.5))).toEqual([
    100, 200, 400, 800, 1_600, 2_500, 2_500, 2_500,
  ])
  expect(backoffMs(2, true, () => 0.5)).toBe(200)
  expect(backoffMs(3, false, () => 0)).toBe(0)
})
