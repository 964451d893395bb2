import { expect, test } from 'vitest'
import { correlationWord, kappaWord } from '../../server/contract/agreement.ts'
import type { ComparedGroups, ComparePairDto } from '../../server/contract/compare.ts'
import { pairVerdict, shareText } from './pair-words.ts'

const NO_GROUPS = {
  ...{ n: 0, samples: 0, tau: null, tauGroups: 0, comparable: 0, reversed: 0, tiedFirst: 0 },
  ...{ tiedSecond: 0, tiedBoth: 0, bestChanged: 0, noSignalFirst: 0, noSignalSecond: 0 },
  ...{ noSignalBoth: 0, signs: [], signFlipped: 0 },
} satisfies ComparedGroups

const pair = (fields: Partial<ComparePairDto>) =>
  ({ n: 100, groups: NO_GROUPS, classes: null, spearman: null, ...fields }) as ComparePairDto

test('agreement statistics have their published interpretation', () => {
  expect([0.05, 0.1, -0.4, 0.7, 0.9, 1].map(correlationWord)).toEqual([
    ...['negligible', 'weak', 'moderate negative', 'strong', 'very strong', 'very strong'],
  ])
  // As in Landis and Koch, a bound belongs to the lower category.
  expect([-0.1, 0, 0.2, 0.21, 0.6, 0.8, 0.81].map(kappaWord)).toEqual([
    ...['poor', 'poor', 'slight', 'fair', 'moderate', 'substantial', 'almost perfect'],
  ])
  expect([correlationWord(null), kappaWord(null)]).toEqual([null, null])
})

test('the verdict is one sentence, followed by details on advantages', () => {
  expect(pairVerdict(pair({ spearman: 0.72 })).title).toBe(
    'Strong rank agreement over 100 samples (Spearman 0.720)',
  )
  expect(pairVerdict(pair({})).title).toContain('ranks cannot be compared')
  const groups = { ...NO_GROUPS, n: 4, samples: 16, comparable: 50, reversed: 5, signFlipped: 3 }
  const verdict = pairVerdict(
    pair({
      classes: { equal: 0.9, kappa: 0.7 },
      groups: { ...groups, noSignalFirst: 2, noSignalSecond: 1, noSignalBoth: 1 },
    }),
  )
  expect(verdict.title).toBe(
    'Equal scores for 90\u00a0% of 100 samples, substantial agreement beyond chance (κ 0.700)',
  )
  expect(verdict.detail).toContain('10\u00a0% of 50 within-group pairs are discordant')
  expect(verdict.detail).toContain('The advantage sign flipped for 3 of 16 samples')
  expect(verdict.detail).toContain('1 group has signal only in the second')
  expect(verdict.detail).not.toContain('only in the first')
})

test('the verdict describes κ by the same word as the table', () => {
  const titleOf = (kappa: number | null) =>
    pairVerdict(pair({ classes: { equal: 0.5, kappa } })).title.split(', ')[1]
  expect([0, -0.2, 1e-17, -0.0004, 0.01].map(titleOf)).toEqual([
    'poor agreement beyond chance (κ 0)',
    'poor agreement beyond chance (κ −0.200)',
    'poor agreement beyond chance (κ 0)',
    'poor agreement beyond chance (κ 0)',
    'slight agreement beyond chance (κ 0.010)',
  ])
  expect(titleOf(null)).toBeUndefined()
  expect([1e-17, -0.0004].map(kappaWord)).toEqual(['poor', 'poor'])
})

test('the share of a total of 0 is a dash', () => {
  expect(shareText(0, 0)).toBe('–')
})
