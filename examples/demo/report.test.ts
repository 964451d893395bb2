import { describe, expect, test } from 'vitest'
import { progressLine, showProgress } from '../../packages/cli/progress.ts'
import type { GroupResult, SampleInput } from '../../server/contract/trainer.ts'
import type { Reward } from './collect.ts'
import { isCorrect, renderReport, type Scored, summarize } from './report.ts'
import { bySteps } from './submit.ts'

const sample = (uid: string, model?: string): SampleInput => ({
  uid,
  dataSource: 'openai/gsm8k',
  prompt: '',
  response: '',
  extraInfo: model ? { model } : null,
})
const reward = (score: number | null): Reward => ({
  score,
  acc: score ?? undefined,
  reason: score === null ? 'timeout' : null,
})

/** One group is all correct; in the other, the model prefers the incorrect response. */
function scored(): Scored {
  const rule = [1, 1, 1, 0].map(reward)
  const group = (uid: string, seq: number, indexes: number[]) =>
    ({
      uid,
      seq,
      samples: indexes.map((index) => ({
        index,
        score: rule[index]!.score,
        rewardExtraInfo: { acc: rule[index]!.acc },
      })),
    }) as unknown as GroupResult
  return {
    samples: [sample('a', 'x'), sample('a', 'y'), sample('b', 'x'), sample('b', 'y')],
    rule: { rewards: rule, groups: [group('b', 1, [2, 3]), group('a', 2, [0, 1])] },
    model: { rewards: [0.5, 1, -2, 2].map(reward) },
  }
}

test('results are summarized and printed', () => {
  const report = summarize([scored()])
  expect(report).toEqual({
    byDataSource: [
      {
        name: 'openai/gsm8k',
        n: 4,
        correct: 3,
        meanReward: 0.75,
        meanModelScore: 0.375,
        failed: 0,
      },
    ],
    byPolicy: [
      { name: 'x', n: 2, correct: 2, meanReward: 1, meanModelScore: -0.75, failed: 0 },
      { name: 'y', n: 2, correct: 1, meanReward: 0.5, meanModelScore: 1.5, failed: 0 },
    ],
    groups: { n: 2, allRight: 1, noneRight: 0, size: 2 },
    pairs: { n: 1, preferred: 0 },
  })
  const text = renderReport(report, 'rm').join('\n')
  expect(text).toContain('2 · 1 correct of 2 (x · y)')
  expect(text).toContain('2 groups: 1 with all two correct, 0 with none, 1 mixed')
  expect(text).toContain('rm prefers the correct response in 0.0 % of 1 pairs')
})

test('failures are counted separately and excluded from means', () => {
  const one = scored()
  const rewards = [reward(1), reward(null), reward(1), reward(0)]
  const report = summarize([{ ...one, rule: { rewards, groups: one.rule!.groups } }])
  expect(report.byDataSource[0]).toMatchObject({ n: 4, correct: 2, meanReward: 2 / 3, failed: 1 })
})

test('without a rule, only model rewards are reported', () => {
  const report = summarize([{ ...scored(), rule: null }])
  expect(report).toMatchObject({ groups: null, pairs: null })
  expect(report.byDataSource[0]).toMatchObject({ correct: null, meanReward: null, failed: 0 })
  expect(renderReport(report, 'rm').join('\n')).toContain('–')
})

test('correctness is acc if the scorer returns it, else a reward of 1', () => {
  expect(isCorrect(1, undefined)).toBe(true)
  expect(isCorrect(-1, true)).toBe(true)
  expect(isCorrect(1, false)).toBe(false)
  expect(isCorrect(0.25, undefined)).toBe(false)
  expect(isCorrect(null, undefined)).toBe(false)
})

test('rollouts are grouped by run, step and split; the group size is set only if all groups share it', () => {
  const at = (uid: string, step: number | null, split: 'train' | 'val' | null = null) => ({
    sample: sample(uid),
    run: null,
    step,
    split,
  })
  const steps = bySteps(
    [
      ...[at('a', 3), at('a', 3, 'train'), at('b', 4), at('b', 4), at('c', 4), at('d', null)],
      at('a', 3, 'val'),
    ],
    'r',
  )
  expect(
    steps.map(({ run, step, split, groupSize, samples }) => [
      ...[run, step, split, groupSize, samples.length],
    ]),
  ).toEqual([
    ['r', 3, 'train', 2, 2],
    ['r', 4, 'train', null, 3],
    ['r', 1, 'train', 1, 1],
    ['r', 3, 'val', 1, 1],
  ])
})

describe('progress', () => {
  test('a line fits its width and fills with progress', () => {
    const line = (done: number) => progressLine('by rule', { done, total: 1000, note: 'x' }, 60)
    expect(line(0)).toContain('░'.repeat(24))
    expect(line(1000)).toContain(`${'█'.repeat(24)}  1,000 of 1,000  x`)
    expect(line(500)).toContain(`${'█'.repeat(12)}░`)
    expect(progressLine('by rule', { done: 1, total: 1, note: 'n'.repeat(99) }, 60)).toHaveLength(
      60,
    )
  })

  test('without a terminal, one line per second is printed', () => {
    let written = ''
    let now = 0
    const output = {
      write(text: string) {
        written += text
      },
    }
    const progress = showProgress('by rule', output, () => now)
    for (const at of [0, 500, 999, 1000, 1500, 2100]) {
      now = at
      progress.update({ done: at, total: 2100, note: '' })
    }
    progress.end({ done: 2100, total: 2100, note: 'ended' })
    const lines = written.trimEnd().split('\n')
    expect(lines).toHaveLength(3)
    expect(lines.at(-1)).toContain('ended')
    expect(written).not.toContain('\u001b')
  })
})
