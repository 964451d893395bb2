import { describe, expect, test } from 'vitest'
import type { ComparedRunDto } from '../../server/contract/compare.ts'
import { prepareCdf, prepareDeltas, prepareOverlay } from './compare.prepare.ts'
import { jointAt, prepareJoint } from './joint.prepare.ts'

function run(name: string, step: number[], mean: (number | null)[]): ComparedRunDto {
  return {
    ...{ name, seeded: false, reward: null, step, mean },
    batchId: step.map((at) => `b${at}`),
    n: mean.map(() => 8),
    std: mean.map(() => 1),
    means: mean.map((one) => (one === null ? null : [one - 3, one + 3])),
    quantiles: [0, 1, 2, 3, 4].map((q) => mean.map((one) => (one === null ? null : one + q - 2))),
    failedShare: mean.map(() => 0),
    noSignalShare: mean.map(() => 0.5),
    waitMs: mean.map(() => 1_000),
  }
}

describe('overlaid runs', () => {
  const runs = [run('a', [1, 2, 5], [0, 1, null]), run('b', [2, 3], [10, 12])]

  test('have bins with the range of step means', () => {
    const { steps, ticks } = prepareOverlay([run('a', [1, 4, 8, 16], [0, 1, 2, 3])], 'mean', {
      width: 4,
    })
    expect(steps.map(({ step, last, b0 }) => [step, last, b0])).toEqual([
      [1, 3, [-3, 3]],
      [4, 7, [-2, 4]],
      [8, 11, [-1, 5]],
      [12, undefined, null],
      [16, 19, [0, 6]],
    ])
    expect(ticks.at(-1)?.at).toBeGreaterThanOrEqual(6)
  })

  test('count the values of 0 that a logarithmic axis cannot show', () => {
    const one = { ...run('a', [1, 2, 3], [0, 0, 0]), waitMs: [0, 20, 3_000] }
    const { steps, zeros, isWide } = prepareOverlay([one], 'waitMs', { log: true })
    expect(steps.map(({ v0 }) => v0)).toEqual([null, 20, 3_000])
    expect([zeros, isWide]).toEqual([1, true])
  })

  test('have a value per step and run, with gaps', () => {
    const { steps } = prepareOverlay(runs, 'mean')
    expect(steps.map(({ step, v0, v1 }) => [step, v0, v1])).toEqual([
      [1, 0, null],
      [2, 1, 10],
      [3, null, 12],
      // Steps 3 and 5 are further apart than the median distance, so there is a gap between them.
      [4, null, null],
      [5, null, null],
    ])
  })

  test('have a scale that includes bands, but not hidden runs', () => {
    const most = (data: { ticks: { at: number }[] }) => data.ticks.at(-1)?.at as number
    expect(most(prepareOverlay(runs, 'mean'))).toBeGreaterThanOrEqual(12)
    expect(most(prepareOverlay(runs, 'mean', { hidden: new Set(['b']) }))).toBeLessThanOrEqual(2)
    const banded = prepareOverlay(runs, 'mean', { band: 'most' })
    expect(banded.steps[1]?.b1).toEqual([8, 12])
    expect(most(banded)).toBeGreaterThanOrEqual(14)
  })

  test('include 0 on the scale of differences', () => {
    const step = { step: 3, delta: 0.2, low: 0.1, high: 0.3, nFirst: 4, nOther: 6 }
    const data = prepareDeltas([{ ...step, firstBatch: 'b1', otherBatch: 'b2' }])
    expect(data.ticks[0]?.at).toBe(0)
    expect(data.steps).toEqual([{ step: 3, delta: 0.2, interval: [0.1, 0.3], n: '4 and 6' }])
  })
})

test('distribution functions begin at 0 and end at 1, with padding', () => {
  const { points, valueTicks } = prepareCdf({ values: [0, 1], first: [0.25, 1], second: [0.5, 1] })
  expect(points[0]).toMatchObject({ first: 0, second: 0 })
  expect(points.at(-1)).toMatchObject({ first: 1, second: 1 })
  expect(valueTicks[0]?.at).toBeLessThan(0)
  expect(valueTicks.at(-1)?.at).toBeGreaterThan(1)
})

describe('joint distribution', () => {
  test('is a table, from the bottom left, if both rewards have few scores', () => {
    const data = prepareJoint({
      first: { kind: 'values', values: [0, 1] },
      second: { kind: 'values', values: [0, 1] },
      cells: [
        [0, 0, 3],
        [1, 1, 1],
      ],
    })
    expect(data).toMatchObject({ isTable: true, n: 4, equal: null })
    expect(jointAt(data, 0.25, 0.75)).toMatchObject({ first: '0', second: '0', samples: 3 })
    expect(jointAt(data, 0.25, 0.25)).toBeNull()
  })

  test('has a line of equal scores where the scales overlap', () => {
    const edges = [0, 1, 2]
    const of = (second: number[]) =>
      prepareJoint({
        first: { kind: 'bins', edges },
        second: { kind: 'bins', edges: second },
        cells: [[0, 1, 2]],
      }).equal
    expect(of([0, 1, 2])).toEqual({ x1: 0, y1: 1, x2: 1, y2: 0 })
    expect(of([1, 2, 3])).toEqual({ x1: 0.5, y1: 1, x2: 1, y2: 0.5 })
    expect(of([5, 6, 7])).toBeNull()
  })
})
