import { describe, expect, test } from 'vitest'
import { prepareComponents } from './components.prepare.ts'

const point = (step: number, mean: number, n = 10, std: number | null = 1) => ({
  batchId: `b${step}`,
  step,
  n,
  mean,
  std,
  weight: 1,
})

describe('components over steps', () => {
  test('keep gaps, and scale to the band', () => {
    const [data] = prepareComponents([
      { name: 'x', weight: 1, points: [point(1, 0), point(2, 1), point(5, 2)] },
    ])
    expect(data?.steps.map(({ step, mean }) => [step, mean])).toEqual([
      [1, 0],
      [2, 1],
      [3, null],
      [5, 2],
    ])
    const ticks = data!.valueTicks.map(({ at }) => at)
    expect(ticks[0]).toBeLessThanOrEqual(-1)
    expect(ticks.at(-1)).toBeGreaterThanOrEqual(3)
    expect(data?.last).toMatchObject({ step: 5, n: 10 })
  })

  test('have no gaps between evenly spaced steps', () => {
    const [data] = prepareComponents([
      { name: 'x', weight: 1, points: [10, 20, 30].map((step) => point(step, 1)) },
    ])
    expect(data?.steps.map(({ step }) => step)).toEqual([10, 20, 30])
  })

  test('merge two batches of one step', () => {
    // The two batches have the scores 0, 0, 1, 1 and 1, 1. Mean and standard deviation are those of all six.
    const [data] = prepareComponents([
      {
        name: 'x',
        weight: null,
        points: [point(1, 0.5, 4, Math.sqrt(1 / 3)), point(1, 1, 2, 0)],
      },
    ])
    expect(data?.steps).toHaveLength(1)
    expect(data?.steps[0]?.n).toBe(6)
    expect(data?.steps[0]?.mean).toBeCloseTo(2 / 3)
    expect(data?.steps[0]?.std).toBeCloseTo(Math.sqrt(4 / 3 / 5))
  })

  test('have no band for a single sample, and ticks for equal values', () => {
    const [data] = prepareComponents([
      { name: 'x', weight: 1, points: [point(1, 1, 1, null), point(2, 1, 1, null)] },
    ])
    expect(data?.steps[0]).toMatchObject({ mean: 1, band: null })
    expect(data!.valueTicks.length).toBeGreaterThan(1)
  })

  test('have no band if all scores are 0 or 1', () => {
    const std = (mean: number, n: number) => Math.sqrt((mean * (1 - mean) * n) / (n - 1))
    const verdict = [point(1, 0.7, 10, std(0.7, 10)), point(2, 1, 4, 0)]
    const [binary, graded] = prepareComponents([
      { name: 'verdict', weight: 1, points: verdict },
      { name: 'grade', weight: 1, points: [...verdict, point(3, 0.7, 10, 0.2)] },
    ])
    expect(binary?.steps.every(({ band }) => band === null)).toBe(true)
    expect(binary?.steps[0]?.std).toBeCloseTo(0.483)
    expect(graded?.steps.every(({ band }) => band !== null)).toBe(true)
  })

  test('have a gap before the first value', () => {
    const [, late] = prepareComponents([
      { name: 'x', weight: 1, points: [point(1, 1), point(2, 1)] },
      { name: 'late', weight: 1, points: [point(2, 1)] },
    ])
    expect(late?.steps.map(({ mean }) => mean)).toEqual([null, 1])
  })
})
