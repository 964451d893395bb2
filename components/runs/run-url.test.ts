import { expect, test } from 'vitest'
import type { RunDto, RunStepDto } from '../../server/contract/runs.ts'
import { againstBefore, partFilter, rangeProblem, runSamplesHref, zoomed } from './run-url.ts'

const steps = [1, 2, 3, 5, 8, 9].map((step) => ({ step }) as RunStepDto)

test('a range is compared with as many steps before it', () => {
  expect(againstBefore({ steps }, { from: 5, to: 8 })).toEqual({
    ...{ before: { from: 2, to: 3 }, after: { from: 5, to: 8 }, dimension: null },
  })
  expect(againstBefore({ steps }, { from: 5, to: 5 })?.before).toEqual({ from: 3, to: 3 })
  expect(againstBefore({ steps }, { from: 3, to: 9 })?.before).toEqual({ from: 1, to: 2 })
})

test('a range of bins is compared up to the last step of the bin before it', () => {
  const binned = [0, 10, 20].map(
    (step) => ({ step, bin: { last: step + 9, steps: 10 } }) as RunStepDto,
  )
  const compared = againstBefore({ steps: binned }, { from: 20, to: 29 })
  expect(compared?.before).toEqual({ from: 10, to: 19 })
})

test('a range that begins or lies inside a bin is compared with the steps before it', () => {
  const binned = Array.from(
    { length: 80 },
    (_, at) => ({ step: at * 16, bin: { last: at * 16 + 15, steps: 16 } }) as RunStepDto,
  )
  const before = (from: number, to: number) =>
    againstBefore({ steps: binned }, { from, to })?.before
  expect(before(100, 200)).toEqual({ from: 0, to: 99 })
  expect(before(1_000, 1_005)).toEqual({ from: 992, to: 999 })
  expect(before(992, 1_000)).toEqual({ from: 976, to: 991 })
  expect(before(0, 5)).toBeUndefined()
})

test('the samples of a part of a change are those of the compared data source', () => {
  expect(partFilter('outcome', 'no answer', null)).toEqual({ verdict: 'no answer' })
  expect(partFilter('outcome', 'no answer', 'gsm8k')).toEqual({
    ...{ dataSource: 'gsm8k', verdict: 'no answer' },
  })
  expect(partFilter('component', 'style', 'gsm8k')).toEqual({ dataSource: 'gsm8k' })
  expect(partFilter('outcome', '', 'gsm8k')).toBeNull()
})

test('a range without steps, or without earlier steps, is not compared', () => {
  expect(againstBefore({ steps }, { from: 6, to: 7 })).toBeNull()
  expect(againstBefore({ steps }, { from: 20, to: 30 })).toBeNull()
  expect(againstBefore({ steps }, { from: 1, to: 2 })).toBeNull()
})

test('an invalid typed range has a message; an empty one restores the shown range', () => {
  for (const text of ['abc', '5-', '-5', '1.5', '9-10-11', '99999999999'])
    expect(rangeProblem(text), text).toBe('For example: 9 or 9-10')
  for (const text of ['9', '9-10', '10 – 9', null]) expect(rangeProblem(text)).toBeNull()
})

test('a zoom selects the steps of every chart; without a step, all are shown', () => {
  const steps = [1, 2, 3].map((step) => ({ step }))
  const sources = [
    { source: 'a', points: steps },
    { source: 'b', points: steps.slice(2) },
  ]
  const run = { name: 'a', steps, sources, heat: { steps } } as unknown as RunDto
  expect(zoomed(run, { from: 1, to: 2 })).toEqual({
    ...{ name: 'a', steps: steps.slice(0, 2), heat: { steps: steps.slice(0, 2) } },
    sources: [{ source: 'a', points: steps.slice(0, 2) }],
  })
  expect(zoomed(run, { from: 7, to: 9 })).toBe(run)
})

test('links to the samples of a run exclude rescored samples', () => {
  expect(runSamplesHref({ name: 'a b' })).toBe('/samples?run=a+b&rescored=false')
  expect(runSamplesHref({ name: 'a', split: 'val' }, { step: 3, status: 'failed' })).toBe(
    '/samples?run=a&step=3&split=val&rescored=false&status=failed',
  )
})
