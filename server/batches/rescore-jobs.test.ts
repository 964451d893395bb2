import { describe, expect, it } from 'vitest'
import { indexesOf } from '../store/job-queue.ts'
import { chunk } from './accept/jobs.ts'
import { rescoreJobs } from './rescore-jobs.ts'

const all = (of: Partial<Parameters<typeof rescoreJobs>[0]> & { groupOf: Int32Array }) => [
  ...rescoreJobs({ batchId: 5, nowMs: 9, workOf: null, wholeGroups: false, ...of }),
]

describe('the jobs of a rescored batch', () => {
  it('equal those of a submit of the same samples', () => {
    const groupOf = Int32Array.from({ length: 4_000 }, (_, i) => i % 500)
    const workOf = Float64Array.from({ length: 4_000 }, (_, i) => (i * 7_919) % 1_000)
    const indexes = [...groupOf.keys()]
    const submitted = (work?: (i: number) => number) =>
      chunk(indexes, (i) => groupOf[i] as number, 5, 9, work)
    expect(all({ groupOf })).toEqual([submitted()])
    expect(all({ groupOf, workOf })).toEqual([submitted((i) => workOf[i] as number)])
  })

  it.each([true, false])(
    'contain every sample once, in windows that split no group (wholeGroups: %s)',
    (wholeGroups) => {
      // Groups of 7 whose members are 20,000 apart, so that every window spans the whole batch.
      const groupOf = Int32Array.from({ length: 140_000 }, (_, i) => i % 20_000)
      const windows = all({ groupOf, wholeGroups })
      expect(windows.length).toBeGreaterThan(3)
      const seen = windows.flat().flatMap(indexesOf)
      expect(seen.toSorted((a, b) => a - b)).toEqual([...groupOf.keys()])
      const groupsOf = windows.map(
        (jobs) => new Set(jobs.flatMap(indexesOf).map((i) => i % 20_000)),
      )
      expect(groupsOf.reduce((n, groups) => n + groups.size, 0)).toBe(20_000)
      for (const job of windows.flat()) {
        const members = Map.groupBy(indexesOf(job), (i) => i % 20_000)
        expect(new Set([...members.values()].map((list) => list.length))).toEqual(new Set([7]))
        expect(indexesOf(job).length).toBeLessThanOrEqual(64)
      }
    },
  )
})
