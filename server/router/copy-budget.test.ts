import { expect, test } from 'vitest'
import { CopyBudget } from './copy-budget.ts'

function copyAll(budget: CopyBudget, nowMs: number): number {
  let copies = 0
  while (budget.allows(nowMs)) {
    budget.promised(nowMs)
    budget.begun(nowMs, true)
    copies++
  }
  return copies
}

test('one row in twenty may be sent twice, and three at least', () => {
  const budget = new CopyBudget()
  expect(copyAll(budget, 0)).toBe(3)
  for (let i = 0; i < 1_000; i++) budget.begun(100, false)
  expect(copyAll(budget, 200)).toBe(47)
  expect([budget.copies, budget.charged, budget.rows]).toEqual([50, 50, 1_000])
})

test("the last rows of a judge's step are sent again minutes after they were begun", () => {
  const budget = new CopyBudget()
  for (let i = 0; i < 1_024; i++) budget.begun(0, false)
  expect(copyAll(budget, 240_000)).toBe(51)
  // The same step has no more, however long it lasts.
  expect(copyAll(budget, 400_000)).toBe(0)
})

test('a pool that never rests saves up no more than a step has, a minute', () => {
  const budget = new CopyBudget()
  for (let second = 0; second < 3_600; second++) {
    for (let i = 0; i < 100; i++) budget.begun(second * 1_000, false)
  }
  expect(copyAll(budget, 3_600_000)).toBe(295)
  expect(copyAll(budget, 3_610_000)).toBe(0)
  expect(copyAll(budget, 3_661_000)).toBe(204)
})

test('lone rows, each the only one of its time, have three copies a minute between them', () => {
  const budget = new CopyBudget()
  let copies = 0
  for (let second = 0; second < 60; second++) {
    budget.begun(second * 1_000, false)
    copies += copyAll(budget, second * 1_000)
    budget.idle()
    expect([budget.copies, budget.charged, budget.rows]).toEqual([0, 0, 0])
  }
  expect(copies).toBe(3)
})

test('what is forgone can be used by another row, what asks no budget uses none', () => {
  const budget = new CopyBudget({ share: 0.1, least: 0 })
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
  expect(budget.copies).toBe(30)
})
