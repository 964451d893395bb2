import { expect, test } from 'vitest'
import { HedgeBudget } from './hedge-budget.ts'

function hedgeAll(budget: HedgeBudget, nowMs: number): number {
  let hedges = 0
  while (budget.allows(nowMs)) {
    budget.promised(nowMs)
    budget.begun(nowMs, true)
    hedges++
  }
  return hedges
}

test('the budget allows hedges for 5 % of the samples, and at least three', () => {
  const budget = new HedgeBudget()
  expect(hedgeAll(budget, 0)).toBe(3)
  for (let i = 0; i < 1_000; i++) budget.begun(100, false)
  expect(hedgeAll(budget, 200)).toBe(47)
  expect([budget.hedges, budget.charged, budget.samples]).toEqual([50, 50, 1_000])
})

test('the last samples of a slow step can be hedged minutes after they began', () => {
  const budget = new HedgeBudget()
  for (let i = 0; i < 1_024; i++) budget.begun(0, false)
  expect(hedgeAll(budget, 240_000)).toBe(51)
  // The same step gets no more hedges, however long it takes.
  expect(hedgeAll(budget, 400_000)).toBe(0)
})

test('a pool that is never idle accumulates at most one step’s hedges per minute', () => {
  const budget = new HedgeBudget()
  for (let second = 0; second < 3_600; second++) {
    for (let i = 0; i < 100; i++) budget.begun(second * 1_000, false)
  }
  expect(hedgeAll(budget, 3_600_000)).toBe(295)
  expect(hedgeAll(budget, 3_610_000)).toBe(0)
  expect(hedgeAll(budget, 3_661_000)).toBe(204)
})

test('lone samples share three hedges per minute', () => {
  const budget = new HedgeBudget()
  let hedges = 0
  for (let second = 0; second < 60; second++) {
    budget.begun(second * 1_000, false)
    hedges += hedgeAll(budget, second * 1_000)
    budget.idle()
    expect([budget.hedges, budget.charged, budget.samples]).toEqual([0, 0, 0])
  }
  expect(hedges).toBe(3)
})

test('a refunded hedge can be used by another sample, and hedges outside the budget use none', () => {
  const budget = new HedgeBudget({ share: 0.1, least: 0 })
  expect(budget.allows(0)).toBe(false)
  for (let i = 0; i < 10; i++) budget.begun(0, false)
  for (let i = 0; i < 30; i++) budget.begun(0, true)
  expect(budget.allows(0)).toBe(true)
  budget.promised(0)
  expect(budget.allows(0)).toBe(false)
  budget.forgone()
  budget.forgone()
  expect(budget.charged).toBe(0)
  expect(budget.allows(61_000)).toBe(true)
  expect(budget.hedges).toBe(30)
})
