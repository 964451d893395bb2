import { describe, expect, test } from 'vitest'
import { runHeat, type StepBins } from './run-heat.ts'

const values = (step: number, at: Record<string, number>): StepBins => {
  const scores = Object.keys(at).map(Number)
  return {
    step,
    min: Math.min(...scores),
    max: Math.max(...scores),
    values: scores,
    counts: Object.values(at),
  }
}

describe('the spread of scores over steps', () => {
  test('few distinct scores have a row each, even if a step lacks one', () => {
    expect(runHeat([values(1, { 0: 3, 1: 1 }), values(4, { 0.5: 2 })])).toEqual({
      kind: 'values',
      edges: [0, 0.5, 1],
      steps: [
        { step: 1, shares: [0.75, 0, 0.25] },
        { step: 4, shares: [0, 1, 0] },
      ],
    })
  })

  test('many scores have equal bins; a step’s own bins are spread evenly', () => {
    const binned: StepBins = { step: 2, min: 0, max: 16, values: [], counts: [8, 24] }
    const heat = runHeat([binned, values(3, { 32: 5 })])
    expect(heat?.kind).toBe('bins')
    expect(heat?.edges).toHaveLength(33)
    expect([heat?.edges[0], heat?.edges.at(-1)]).toEqual([0, 32])
    const [first, second] = heat!.steps
    // A row covers a score range of 1, and a bin of step 2 a range of 8, so each row gets an eighth of the bin's share.
    expect(first?.shares.slice(0, 8)).toEqual(new Array(8).fill(0.0313))
    expect(first?.shares.slice(8, 16)).toEqual(new Array(8).fill(0.0938))
    expect(first?.shares.slice(16)).toEqual(new Array(16).fill(0))
    expect(second?.shares.indexOf(1)).toBe(31)
  })

  test('shares of a step add up to one for any bins', () => {
    const counts = Array.from({ length: 128 }, (_, i) => (i * 7919) % 31)
    const heat = runHeat([
      { step: 1, min: -3.7, max: 4.1, values: [], counts },
      { step: 2, min: -9, max: 12.3, values: [], counts },
    ])
    for (const { shares } of heat!.steps) {
      expect(shares.reduce((a, b) => a + b, 0)).toBeCloseTo(1, 2)
    }
  })

  test('is null without scores', () => {
    expect(runHeat([])).toBeNull()
    expect(runHeat([{ step: 1, min: 0, max: 0, values: [], counts: [] }])).toBeNull()
  })
})
