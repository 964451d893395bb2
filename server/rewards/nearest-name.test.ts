import { expect, test } from 'vitest'
import { nearestName } from './nearest-name.ts'

const sources = ['openai/gsm8k', 'lighteval/MATH', 'math_dapo', 'math', 'aime*', 'searchR1_nq']

test.for<[name: string, nearest: string | undefined]>([
  ['openai/gsm8k', 'openai/gsm8k'],
  ['gsm8k', 'openai/gsm8k'],
  ['openai/GSM8K', 'openai/gsm8k'],
  ['opneai/gsm8k', 'openai/gsm8k'],
  ['me/gsm-8k', 'openai/gsm8k'],
  ['mth', 'math'],
  ['MATH', 'math'],
  ['math-dapo', 'math_dapo'],
  ['searchR1-NQ', 'searchR1_nq'],
  ['amie24', undefined],
  ['humaneval', undefined],
  ['x', undefined],
  ['', undefined],
  ['y'.repeat(1_000_000), undefined],
])('%s', ([name, nearest]) => {
  expect(nearestName(name, sources)).toBe(nearest)
})

test('finds the nearest manager name', () => {
  const managers = ['naive', 'dapo', 'rate_limited', 'limited', 'limit', 'remote', 'gdpo', 'batch']
  expect(nearestName('niave', managers)).toBe('naive')
  expect(nearestName('rate-limited', managers)).toBe('rate_limited')
  expect(nearestName('limits', managers)).toBe('limit')
  expect(nearestName('prime', managers)).toBe(undefined)
  expect(nearestName('naive', [])).toBe(undefined)
})
