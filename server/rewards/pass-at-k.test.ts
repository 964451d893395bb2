import { describe, expect, it } from 'vitest'
import { bestOfK, passAtK, reportedK } from './pass-at-k.ts'

function choices<T>(values: readonly T[], k: number): T[][] {
  if (k === 0) return [[]]
  return values.flatMap((value, at) =>
    choices(values.slice(at + 1), k - 1).map((rest) => [value, ...rest]),
  )
}

describe('pass@k', () => {
  it('is the share of choices of k samples with at least one that passes', () => {
    for (let n = 1; n <= 8; n++) {
      for (let passed = 0; passed <= n; passed++) {
        const samples = Array.from({ length: n }, (_, i) => i < passed)
        for (let k = 1; k <= n; k++) {
          const all = choices(samples, k)
          const share = all.filter((chosen) => chosen.some(Boolean)).length / all.length
          expect(passAtK([{ n, passed, groups: 3 }], k)?.value).toBeCloseTo(share, 12)
        }
      }
    }
  })

  it('leaves out groups with too few samples, and says how many it counts', () => {
    const counts = [
      { n: 8, passed: 8, groups: 3 },
      { n: 8, passed: 0, groups: 1 },
      { n: 2, passed: 0, groups: 5 },
    ]
    expect(passAtK(counts, 4)).toEqual({ k: 4, groups: 4, value: 0.75 })
    expect(passAtK(counts, 16)).toBeNull()
  })

  it('works for groups of thousands', () => {
    expect(passAtK([{ n: 10_000, passed: 1, groups: 1 }], 100)?.value).toBeCloseTo(0.01, 10)
  })
})

describe('best of k', () => {
  it('is the mean of the highest score over all choices', () => {
    const scores = [-2, -2, 0, 0.5, 3, 3, 7]
    for (let k = 1; k <= scores.length; k++) {
      const all = choices(scores, k).map((chosen) => Math.max(...chosen))
      const mean = all.reduce((sum, value) => sum + value, 0) / all.length
      expect(bestOfK(scores, k)).toBeCloseTo(mean, 12)
    }
  })
})

it('reports powers of two', () => {
  expect(reportedK(8)).toEqual([1, 2, 4, 8])
  expect(reportedK(6)).toEqual([1, 2, 4])
  expect(reportedK(0)).toEqual([])
})
