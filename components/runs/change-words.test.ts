import { expect, test } from 'vitest'
import { chosenText } from './change-words.ts'

const cause = { dimension: 'component', key: 'style', by: 'total' } as const

test('a run with too few steps for the search says only that, with and without a cause', () => {
  const text = 'Sudden changes are searched for in runs of at least 11 steps.'
  expect(chosenText({ chosen: 'unsearched', standsOut: null })).toBe(text)
  expect(chosenText({ chosen: 'unsearched', standsOut: cause })).toBe(text)
})

test('nothing stands out only after a search', () => {
  expect(chosenText({ chosen: 'latest', standsOut: null })).toMatch(
    /^Nothing stands out: the run has no sudden change/,
  )
  for (const chosen of ['given', 'largest'] as const) {
    expect(chosenText({ chosen, standsOut: null })).toMatch(/^Nothing stands out: no cause/)
    expect(chosenText({ chosen, standsOut: cause })).toBe('')
  }
})
