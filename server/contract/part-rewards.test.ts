import { expect, it } from 'vitest'
import { combinedRewards, partRewardsProblem, readPartRewards } from './part-rewards.ts'
import type { TokenScores } from './trainer.ts'

const TOKENS: TokenScores = {
  ...{ component: null, message: 1, starts: [0, 1], ends: [1, 4], scores: [0.5, -1] },
  ...{ omitted: 0, problem: null },
}

it('components add up by turn and span without rounding errors', () => {
  const parts = [0.7, 0.2, 0.1].map((weight) => ({
    ...{ name: `${weight}`, weight },
    rewards: {
      turns: [{ message: 0, score: 1 }],
      spans: [{ message: 0, start: 0, end: 4, score: 1 }],
    },
  }))
  expect(combinedRewards(parts)).toEqual(parts[0]?.rewards)
})

it('components add up by turn and span, each with its weight', () => {
  const span = { message: 1, start: 0, end: 4 }
  const combined = combinedRewards([
    {
      name: 'prm',
      weight: 2,
      rewards: {
        turns: [{ message: 0, score: 1 }],
        spans: [{ ...span, score: 1 }],
        tokens: [{ ...TOKENS, scores: [1, -3] }],
      },
    },
    {
      name: 'style',
      weight: -0.5,
      rewards: {
        turns: [
          { message: 0, score: 3 },
          { message: 2, score: 1 },
        ],
        spans: [
          { ...span, score: 2 },
          { ...span, end: 5, score: 1 },
        ],
      },
    },
  ])
  expect(combined).toEqual({
    turns: [
      { message: 0, score: 0.5 },
      { message: 2, score: -0.5 },
    ],
    spans: [
      { ...span, score: 1 },
      { ...span, end: 5, score: -0.5 },
    ],
    tokens: [{ ...TOKENS, component: 'prm', scores: [2, -6] }],
  })
})

it('token scores need columns of equal length and offsets within the text of their message', () => {
  const problem = (tokens: Partial<TokenScores>) =>
    partRewardsProblem({ turns: [], spans: [], tokens: [{ ...TOKENS, ...tokens }] }, [
      { content: '' },
      { content: '🎉 42' },
    ])
  expect(problem({})).toBeNull()
  expect(problem({ starts: null, ends: null, problem: 'steps' })).toBeNull()
  expect(problem({ scores: [1] })).toMatch('columns differ in length')
  expect(problem({ ends: null })).toMatch('columns differ in length')
  expect(problem({ ends: [1, 0] })).toMatch('a token that ends before it starts, in message 1')
  expect(problem({ ends: [1, 5] })).toMatch(
    'a token that ends at 5 in message 1, which has 4 code points',
  )
  expect(problem({ message: 2 })).toMatch('only messages 0 to 1')
})

it('rewards of user code with missing, unknown or invalid fields are refused', () => {
  const turn = { message: 0, score: -1.5 }
  expect(readPartRewards({ turns: [turn] })).toEqual({ turns: [turn], spans: [] })
  const malformed = [
    ...[null, [], { turns: [turn], others: [] }, { turns: turn }],
    ...[
      { ...turn, note: 'x' },
      { message: 0 },
      { message: -1, score: 1 },
      { message: 0.5, score: 1 },
    ].map((one) => ({ turns: [one] })),
    { turns: [{ message: 0, score: Number.NaN }] },
    { spans: [{ message: 0, start: 0, score: 1 }] },
    ...[{ starts: [-1] }, { scores: ['1'] }, { problem: 1 }, { note: 'x' }].map((wrong) => ({
      tokens: [{ ...TOKENS, ...wrong }],
    })),
  ]
  const whole = { turns: [], spans: [], tokens: [TOKENS] }
  expect(readPartRewards(whole)).toEqual(whole)
  for (const given of malformed) expect(readPartRewards(given)).toBeNull()
})
