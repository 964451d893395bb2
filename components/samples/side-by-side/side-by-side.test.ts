import { expect, test } from 'vitest'
import { counterpartOf, sideBySideHref, sideBySideView } from './side-by-side-url.ts'
import { diffTexts } from './word-diff.ts'

const marked = (text: string, marks: readonly { start: number; end: number }[]) =>
  marks.map(({ start, end }) => text.slice(start, end))

test('marks the words that differ', () => {
  const [left, right] = ['So the total is 42 apples in all.', 'So the total is 41 apples in all.']
  const diff = diffTexts(left, right)
  expect(diff).toMatchObject({ unit: 'words' })
  expect(marked(left, diff.left)).toEqual(['42'])
  expect(marked(right, diff.right)).toEqual(['41'])
  expect(diff.common).toBeCloseTo(31 / 33)
})

test('a single common word between differences is marked as different', () => {
  const [left, right] = ['They begin with one two the three.', 'They begin with five six the nine.']
  const diff = diffTexts(left, right)
  expect(marked(left, diff.left)).toEqual(['one two the three'])
  expect(marked(right, diff.right)).toEqual(['five six the nine'])
})

test('texts with little in common have no marks', () => {
  expect(diffTexts('one two the three four', 'five six the seven eight')).toEqual({
    ...{ unit: 'none', left: [], right: [], common: 0 },
  })
  expect(diffTexts('', 'new')).toMatchObject({ unit: 'none', common: 0 })
})

test('equal and empty texts have no marks', () => {
  for (const text of ['', 'the same text']) {
    expect(diffTexts(text, text)).toEqual({ unit: 'words', left: [], right: [], common: 1 })
  }
})

test('100 kB of unlike words take bounded time', () => {
  const words = (seed: number) =>
    Array.from({ length: 16_000 }, (_, i) => ((i * seed * 7_919) % 99_991).toString(36)).join(' ')
  const start = process.cpuUsage()
  const diff = diffTexts(words(3), words(5))
  expect(process.cpuUsage(start).user / 1_000).toBeLessThan(3_000)
  expect(diff.unit).not.toBe('words')
})

test('100 kB with few differences are compared by word', () => {
  const left = Array.from({ length: 16_000 }, (_, i) => `word${i}`).join(' ')
  const right = left.replace('word7000', 'other')
  const diff = diffTexts(left, right)
  expect(marked(left, diff.left)).toEqual(['word7000'])
  expect(marked(right, diff.right)).toEqual(['other'])
})

test('the URL contains both samples, the side and the differences', () => {
  const href = sideBySideHref('b12-3', 'b14-9')
  expect(href).toBe('/samples/compare?left=b12-3&right=b14-9')
  const view = sideBySideView.parse(new URLSearchParams(href.split('?')[1]))
  expect(view).toEqual({ left: 'b12-3', right: 'b14-9', side: 'right', diff: true })
  const changed = { ...view, side: 'left' as const, diff: false }
  expect(sideBySideView.parse(sideBySideView.write(changed))).toEqual(changed)
  expect(sideBySideView.parse(new URLSearchParams('left=javascript:1&right=b1'))).toMatchObject({
    left: null,
    right: null,
  })
})

test('a sample is compared with the sibling whose score differs most', () => {
  const group = [0, 1, null, 0.5].map((score, index) => ({ id: `b1-${index}`, index, score }))
  expect(counterpartOf(group, 'b1-0')).toBe('b1-1')
  expect(counterpartOf(group, 'b1-1')).toBe('b1-0')
  expect(counterpartOf(group, 'b1-2')).toBe('b1-3')
  expect(counterpartOf(group.slice(0, 1), 'b1-0')).toBeNull()
})

test('a sample without a score is the counterpart only if no other sibling has a score', () => {
  const group = [1, null, 1].map((score, index) => ({ id: `b1-${index}`, index, score }))
  expect(counterpartOf(group, 'b1-0')).toBe('b1-2')
  expect(counterpartOf(group.slice(0, 2), 'b1-0')).toBe('b1-1')
})
