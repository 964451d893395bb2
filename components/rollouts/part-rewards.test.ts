import { expect, it } from 'vitest'
import { rewardedParts, rewardsByMessage, spanMarks } from './part-rewards.ts'

const RESPONSE = [{ content: null }, { content: '🎉 It is 42.' }]
const REWARDS = {
  turns: [{ message: 0, score: 0.5 }],
  spans: [
    { message: 1, start: 8, end: 10, score: 1 },
    { message: 1, start: 0, end: 1, score: -1 },
    { message: 1, start: 2, end: 4, score: 0 },
  ],
}

it('marks spans by code points, and lists their texts', () => {
  const text = RESPONSE[1]!.content as string
  const of = rewardsByMessage(REWARDS)
  const marks = spanMarks(of(1).spans, text)
  expect(marks.map(({ start, end, kind }) => [text.slice(start, end), kind])).toEqual([
    ['42', 'credit'],
    ['🎉', 'penalty'],
  ])
  expect(spanMarks(of(0).spans, '')).toEqual([])
  expect(spanMarks(rewardsByMessage(null)(0).spans, 'text')).toEqual([])
  expect(of(0).score).toBe(0.5)
  expect(of(1).score).toBeNull()
  expect(rewardedParts(REWARDS, RESPONSE)).toEqual([
    { message: 0, text: null, score: 0.5 },
    { message: 1, text: '🎉', score: -1 },
    { message: 1, text: 'It', score: 0 },
    { message: 1, text: '42', score: 1 },
  ])
})
