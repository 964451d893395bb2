import { expect, test } from 'vitest'
import { chosenText, excludedTexts } from './change-words.ts'

const cause = { dimension: 'component', key: 'style', by: 'total' } as const

test('a run with too few steps to detect changes says only that, with and without a cause', () => {
  const text = 'Sudden changes are detected only in runs of at least 11 steps.'
  expect(chosenText({ chosen: 'unsearched', standsOut: null })).toBe(text)
  expect(chosenText({ chosen: 'unsearched', standsOut: cause })).toBe(text)
})

test('“nothing stands out” appears only after a search for changes', () => {
  expect(chosenText({ chosen: 'latest', standsOut: null })).toMatch(
    /^Nothing stands out: the run has no sudden change/,
  )
  for (const chosen of ['given', 'largest'] as const) {
    expect(chosenText({ chosen, standsOut: null })).toMatch(/^Nothing stands out: no cause/)
    expect(chosenText({ chosen, standsOut: cause })).toBe('')
  }
})

test('the shares of excluded samples are relative to their range', () => {
  const excluded = [
    { reason: 'timeout', before: 64, after: 42 },
    { reason: 'function_error', before: 0, after: 1_200 },
  ]
  const sides = { before: { samples: 16_320 }, after: { samples: 7_798 } }
  expect(excludedTexts({ ...sides, excluded })).toEqual([
    'timeout 0.39\u00a0% → 0.46\u00a0% (64, 42; not in the mean)',
    'function_error 0\u00a0% → 13\u00a0% (0, 1,200; not in the mean)',
  ])
})
