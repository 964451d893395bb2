import { expect, it } from 'vitest'
import { combinedRewards, readPartRewards } from './part-rewards.ts'

it('components add up by turn and span, each with its weight', () => {
  const span = { message: 1, start: 0, end: 4 }
  const combined = combinedRewards([
    {
      weight: 2,
      rewards: { turns: [{ message: 0, score: 1 }], spans: [{ ...span, score: 1 }] },
    },
    {
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
  })
})

it('rewards of user code have exactly their fields', () => {
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
  ]
  for (const given of malformed) expect(readPartRewards(given)).toBeNull()
})
