import { describe, expect, test } from 'vitest'
import { showsCorrectness } from '../contract/resolved-reward.ts'
import { type GroupMember, groupReport } from './group-report.ts'

const member = (score: number | null, scored = true, substituted = false): GroupMember => ({
  scored,
  score,
  substituted,
})
const policyNull = { onFailure: { policy: 'null' } } as const

function expectClose(got: readonly (number | null)[], wanted: readonly (number | null)[]): void {
  expect(got.map((a) => a === null)).toEqual(wanted.map((a) => a === null))
  for (const [at, a] of got.entries()) {
    if (a !== null) expect(Math.abs(a - (wanted[at] as number))).toBeLessThanOrEqual(1e-6)
  }
}

describe('the report of a group', () => {
  test('a failed member has no advantage and changes no other', () => {
    const report = groupReport([member(1), member(3), member(2), member(null, false)], policyNull)
    expectClose(report.advantages, [-1, 1, 0, null])
    expect(report).toMatchObject({
      members: 4,
      scored: 3,
      failed: 1,
      substituted: 0,
      mean: 2,
      std: 1,
      min: 1,
      max: 3,
      signal: 'varied',
    })
  })

  test('group_mean: a substituted score is neutral, even where all others agree', () => {
    const reward = { onFailure: { policy: 'group_mean' } } as const
    const report = groupReport([member(1), member(3), member(2), member(2, false, true)], reward)
    expectClose(report.advantages, [-1, 1, 0, 0])
    expect(report).toMatchObject({ scored: 3, failed: 1, substituted: 1, mean: 2, std: 1 })
    const agreed = groupReport([member(1), member(1), member(1, false, true)], reward)
    expect(agreed.advantages).toEqual([0, 0, 0])
    expect(agreed.signal).toBe('all_correct')
    // No member was scored, so there was no mean to substitute.
    expect(groupReport([member(null, false)], reward).advantages).toEqual([null])
  })

  test('constant: a substituted score counts in no statistic and has no advantage', () => {
    const reward = { onFailure: { policy: 'constant', value: -1 } } as const
    const report = groupReport([member(1), member(1), member(-1, false, true)], reward)
    expect(report.advantages).toEqual([0, 0, null])
    expect(report).toMatchObject({ mean: 1, std: 0, min: 1, signal: 'all_correct', substituted: 1 })
  })

  test('drop_group: no member counts', () => {
    const reward = { onFailure: { policy: 'drop_group' } } as const
    const report = groupReport(
      [member(null, true, true), member(null, true, true), member(null, false)],
      reward,
    )
    expect(report.advantages).toEqual([null, null, null])
    expect(report).toMatchObject({
      scored: 0,
      failed: 1,
      substituted: 2,
      mean: null,
      signal: 'all_failed',
    })
  })

  test('advantages are not divided by the deviation if the batch sets normByStd to false', () => {
    const report = groupReport([member(4), member(8)], {
      ...policyNull,
      advantages: { normByStd: false },
    })
    expect(report.advantages).toEqual([-2, 2])
  })
})

test('scores of reward models show whether answers are correct only if they are verdicts', () => {
  const judge = { kind: 'model' } as const
  expect(showsCorrectness(judge, { min: 0, max: 1 })).toBe(true)
  expect(showsCorrectness(judge, { min: -1, max: 1 })).toBe(true)
  // A rating from 1 to 10, probabilities, raw scores, a single score, and no score.
  for (const [min, max] of [
    [1, 10],
    [0.02, 0.97],
    [-3.1, 4.2],
    [1, 1],
    [null, null],
  ] as const) {
    expect(showsCorrectness(judge, { min, max })).toBe(false)
    expect(showsCorrectness({ kind: 'rule' }, { min, max })).toBe(true)
  }
})
