import { expect, test } from 'vitest'
import { Z_95 } from '../../server/contract/intervals.ts'
import type { PromptStepDto, PromptVisitDto } from '../../server/contract/prompts.ts'
import { preparePromptHeat, promptAt } from './prompt-heat.prepare.ts'
import {
  isBestOfPassAt,
  prepareByK,
  preparePassShares,
  prepareVisits,
} from './prompt-steps.prepare.ts'

const row = (key: string, steps: number[], rates: number[]) => ({
  ...{ key, promptId: null, preview: key, steps, rates },
})

test('a prompt keeps its rate until its next visit', () => {
  const data = preparePromptHeat({
    passRates: true,
    rows: [row('easy', [2, 6], [1, 0.5]), row('hard', [5], [0])],
  })
  expect([data.firstStep, data.span, data.low, data.high]).toEqual([2, 5, 0, 1])
  expect(data.cells).toEqual([
    { row: 0, x: 0, right: 0.2, until: 0.8, level: 1 },
    { row: 0, x: 0.8, right: 1, until: 1, level: 0.5 },
    { row: 1, x: 0.6, right: 0.8, until: 1, level: 0 },
  ])
  expect(promptAt(data, 0.9, 0.1)).toMatchObject({ row: { key: 'easy' }, at: 1 })
  expect(promptAt(data, 0.1, 0.9)).toMatchObject({ row: { key: 'hard' }, at: 0 })
  expect(promptAt(data, 0.5, 1)).toBeNull()
})

test('the scale of mean scores leaves out the most extreme ones', () => {
  const means = Array.from({ length: 41 }, (_, i) => (i === 40 ? 900 : i))
  const { low, high, cells } = preparePromptHeat({
    ...{ passRates: false, rows: [row('a', [...means.keys()], means)] },
  })
  expect([low, high]).toEqual([2, 38])
  expect([cells[0]?.level, cells[20]?.level, cells[40]?.level]).toEqual([0, 0.5, 1])
})

const step = (number: number, more: Partial<PromptStepDto> = {}): PromptStepDto => ({
  ...{ step: number, batchId: `b${number}`, groups: { none: 1, some: 1, most: 0, all: 2 } },
  passAt: [
    { k: 1, groups: 4, value: 0.5 },
    { k: 2, groups: 2, value: 0.75 },
  ],
  bestOf: [{ k: 1, groups: 4, value: 0.5 }],
  ...more,
})

test('groups by pass rate are shares; a missing step is a gap', () => {
  const data = preparePassShares([step(1), step(2), step(4)])
  expect(data?.steps.map((one) => [one.step, one.all, one.groups])).toEqual([
    [1, 0.5, 4],
    [2, 0.5, 4],
    [3, null, 0],
    [4, 0.5, 4],
  ])
  expect(preparePassShares([step(1, { groups: null })])).toBeNull()
})

test('each k has a line', () => {
  const data = prepareByK([step(1), step(2, { passAt: [{ k: 1, groups: 4, value: 1 }] })], 'passAt')
  expect(data?.ks).toEqual([1, 2])
  expect(data?.steps.map((one) => [one['k:1'], one['k:2']])).toEqual([
    [0.5, 0.75],
    [1, null],
  ])
  expect(prepareByK([step(1, { passAt: null })], 'passAt')).toBeNull()
})

test('best of k equals pass@k for scores of 0 and 1', () => {
  expect(isBestOfPassAt([step(1)])).toBe(true)
  expect(isBestOfPassAt([step(1), step(2, { passAt: null })])).toBe(false)
  expect(isBestOfPassAt([step(1, { bestOf: [{ k: 1, groups: 4, value: 0.6 }] })])).toBe(false)
})

const visit = (passed: number | null, mean: number, std: number | null): PromptVisitDto => ({
  ...{ step: 1, batchId: 'b1', uid: null, scored: 4, passed, mean, std },
})

test('the interval of a pass rate stays within 0 and 1; the mean of one sample has none', () => {
  const { steps, passRates } = prepareVisits([visit(4, 1, 0), visit(2, 0.5, 0.6)])
  expect(passRates).toBe(true)
  expect(steps[0]?.interval?.[1]).toBeCloseTo(1, 12)
  expect(steps[0]?.interval?.[0]).toBeCloseTo(0.51, 2)
  const means = prepareVisits([visit(null, 3, 2), visit(null, 5, null)])
  expect(means.steps[0]?.interval).toEqual([3 - Z_95, 3 + Z_95])
  expect(means.steps[1]?.interval).toBeNull()
})
