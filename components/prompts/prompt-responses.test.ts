import { expect, test } from 'vitest'
import { visitsText } from './prompt-cells.tsx'
import { responsesOf } from './prompt-responses.prepare.ts'

const sample = (index: number, score: number | null, substituted = false) => ({
  ...{ index, score, substituted },
})

test('the best and the worst response come first', () => {
  const samples = [sample(0, 0), sample(1, 1), sample(2, 0.5), sample(3, 1), sample(4, 0)]
  const { listed, best, worst } = responsesOf(samples)
  expect([best?.index, worst?.index]).toEqual([1, 4])
  expect(listed.map(({ index }) => index)).toEqual([1, 4, 3, 2, 0])
})

test('failed and substituted samples come last, and equal scores have no best', () => {
  const { listed, best, worst } = responsesOf([
    ...[sample(0, null), sample(1, 9, true), sample(2, 1), sample(3, 1)],
  ])
  expect(listed.map(({ index }) => index)).toEqual([2, 3, 0, 1])
  expect([best, worst]).toEqual([null, null])
  expect(responsesOf([]).listed).toEqual([])
})

test('if a group is read in part, the best and the worst response are those of the whole group', () => {
  const read = [sample(7, 0.5), sample(6, null), sample(5, 0.4)]
  const { listed, best, worst } = responsesOf(read, [sample(7, 0.5), sample(2, 0.1)])
  expect([best?.index, worst?.index]).toEqual([7, 2])
  expect(listed.map(({ index }) => index)).toEqual([7, 2, 5, 6])
  expect(responsesOf(read, null)).toMatchObject({ best: null, worst: null })
})

test('the visits of a prompt with more than are kept are called the newest', () => {
  expect([visitsText(1), visitsText(255), visitsText(256)]).toEqual([
    ...['1 visit', '255 visits', 'Newest 256 visits'],
  ])
})
