import { expect, test } from 'vitest'
import { MAX_TOKEN_SCORES } from '../../contract/trainer.ts'
import { responseText } from '../../contract/turn-text.ts'
import { tokenRewards } from './token-rewards.ts'

/** One token per code point of the response, after two tokens of the prompt. */
function perCharacter(solutionStr: string) {
  const points = [...solutionStr].map((_, i) => i)
  return {
    tokenScores: [9, 9, ...points],
    tokenOffsets: { first: 2, starts: points, ends: points.map((i) => i + 1) },
  }
}

test('token scores have offsets in the contents of messages; tokens between contents are omitted', () => {
  const messages = [
    { role: 'assistant', content: '🎉 a', reasoning: 'Hm', tool_calls: [{ name: 'f' }] },
    { role: 'tool', content: 'b🎉', name: 'f' },
    { role: 'assistant', content: '' },
    { role: 'assistant', content: 'end' },
  ]
  const solutionStr = responseText(messages)
  const rewards = tokenRewards(perCharacter(solutionStr), { solutionStr, messages })
  const points = [...solutionStr]
  const texts = rewards.map(({ message, starts, scores }) => [
    message,
    starts?.length,
    scores.map((at) => points[at]).join(''),
  ])
  expect(texts).toEqual([
    [0, 3, '🎉 a'],
    [1, 2, 'b🎉'],
    [3, 3, 'end'],
  ])
  expect(rewards.every(({ problem, omitted }) => problem === null && omitted === 0)).toBe(true)
})

test('a token that crosses the edge of a content keeps its part inside the content', () => {
  const messages = [
    { role: 'assistant', content: 'ab' },
    { role: 'tool', content: '' },
    { role: 'assistant', content: 'cd' },
  ]
  const solutionStr = responseText(messages)
  const length = solutionStr.length
  const tokenOffsets = { first: 0, starts: [0, 1, length - 3], ends: [1, length - 3, length] }
  const rewards = tokenRewards({ tokenScores: [1, 2, 3], tokenOffsets }, { solutionStr, messages })
  expect(rewards).toMatchObject([
    { message: 0, starts: [0, 1], ends: [1, 2], scores: [1, 2] },
    { message: 2, starts: [0], ends: [2], scores: [3] },
  ])
})

test('for a long response, the last scores are kept, and the omitted ones are counted', () => {
  const solutionStr = 'x'.repeat(MAX_TOKEN_SCORES + 7)
  const [only, ...others] = tokenRewards(perCharacter(solutionStr), { solutionStr })
  expect(others).toEqual([])
  expect(only).toMatchObject({ message: 0, omitted: 7 })
  expect([only?.starts?.[0], only?.ends?.at(-1)]).toEqual([7, MAX_TOKEN_SCORES + 7])
  expect(only?.scores).toHaveLength(MAX_TOKEN_SCORES)
  const tokenScores = [...solutionStr].map((_, i) => i)
  const [unplaced] = tokenRewards({ tokenScores }, { solutionStr })
  expect(unplaced).toMatchObject({ starts: null, omitted: 7 })
  expect(unplaced?.scores).toEqual(tokenScores.slice(7))
})

test('tokens that are part of a character or end after the response have offsets', () => {
  const tokenOffsets = { first: 0, starts: [0, 0, 1], ends: [0, 1, 2] }
  const [only] = tokenRewards({ tokenScores: [1, 2, 3, 4], tokenOffsets }, { solutionStr: '🎉x' })
  expect(only).toMatchObject({ starts: [0, 0, 1], ends: [0, 1, 2], scores: [1, 2, 3] })
})

test('scores without offsets are kept with the reason', () => {
  const sample = { solutionStr: 'x' }
  expect(tokenRewards({ tokenScores: [1, 2], tokenOffsets: { problem: 'steps' } }, sample)).toEqual(
    [
      {
        ...{ component: null, message: 0, starts: null, ends: null, scores: [1, 2] },
        ...{ omitted: 0, problem: 'steps' },
      },
    ],
  )
  expect(tokenRewards({}, sample)).toMatchObject([
    { scores: [], problem: 'the model returns one score per response' },
  ])
})
