import { describe, expect, it } from 'vitest'
import { outliersOf, type Vote } from './pool-agreement.ts'

const differs = (a: number, b: number) => Math.abs(a - b) > 0.05 * Math.max(1, Math.abs(a))
const odd = (...votes: [calibration: number, drifted?: boolean][]) =>
  [
    ...outliersOf(
      votes.map(
        ([calibration, drifted = false], i): Vote<number> => ({
          id: i + 1,
          sinceMs: 100 * i,
          calibration,
          drifted,
        }),
      ),
      differs,
    ),
  ].sort()

describe('the outliers of a pool', () => {
  it('are empty when all agree or there is one server', () => {
    expect(odd([1.2], [1.21], [1.19])).toEqual([])
    expect(odd([1.2])).toEqual([])
    expect(odd()).toEqual([])
  })

  it('are the later of two', () => {
    expect(odd([1.2], [5])).toEqual([2])
  })

  it('are the minority of three or more, even if it came first', () => {
    expect(odd([5], [1.2], [1.2])).toEqual([1])
    expect(odd([1.2], [5], [1.2])).toEqual([2])
    expect(odd([5], [5.01], [1.2], [1.2], [1.21])).toEqual([1, 2])
  })

  it('are the servers that drifted if as many others did not', () => {
    expect(odd([5, true], [1.2])).toEqual([1])
    expect(odd([5, true], [5.01, true], [1.2], [1.2])).toEqual([1, 2])
  })
})
