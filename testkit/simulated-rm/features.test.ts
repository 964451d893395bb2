import { existsSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { openRollouts } from '../../packages/cli/rollouts/read-rollouts.ts'
import { featureLogit, features, finalAnswer } from './features.ts'
import { pairOf } from './text.ts'

const prompt = 'Mara packs 12 boxes of 8 candles and gives half of them away. How many are left?'
const good = '12 * 8 = <<12*8=96>>96 candles are packed.\n96 / 2 = 48 are left.\n#### 48'

describe('features', () => {
  test('of a complete solution', () => {
    expect(features(prompt, good)).toEqual({
      answered: 1,
      supported: 1,
      calculated: 1,
      stepsWrong: 0,
      grounded: 1,
      invented: 0,
      repeated: 0,
      unfinished: 0,
      lengthOff: 0,
    })
  })

  test('of a solution with an error, an invented number and no answer', () => {
    const found = features(prompt, '12 * 8 = 86 candles, and 86 + 31 = 117 of them are')
    expect(found).toMatchObject({ answered: 0, supported: 0, unfinished: 1, stepsWrong: 1 / 3 })
    expect(found.invented).toBeCloseTo(1 / 4)
  })

  test('calculations follow precedence, percent, commas and rounding; a division by zero is ignored', () => {
    const wrong = (text: string) => features('', text).stepsWrong * 3
    expect(wrong('16 - 3 * 4 = 4, 20% * 50 = 10, $1,200 + 80 = $1,280, 10 / 3 = 3.33')).toBe(0)
    expect(wrong('16 - 3 - 4 = 10')).toBe(1)
    expect(wrong('5 / 0 = 7')).toBe(0)
    expect(wrong('2 × 3 = 6 and 8 ÷ 2 = 3')).toBe(1)
  })

  test('the final answer is the last one of the most reliable kind', () => {
    expect(finalAnswer('#### 1\n#### 2')).toBe('2')
    expect(finalAnswer('Answer: 7\nso \\boxed{8}')).toBe('8')
    expect(finalAnswer('<answer>Paris</answer>')).toBe('Paris')
    expect(finalAnswer('I think it is 5.')).toBeNull()
  })

  test('long hostile texts take linear time', () => {
    for (const text of ['1'.repeat(200_000), '1+'.repeat(100_000), '####'.repeat(50_000)]) {
      expect(Number.isFinite(featureLogit(text, text))).toBe(true)
    }
  })
})

test('better responses score higher', () => {
  const scores = [
    good,
    good.replaceAll('48', '46'),
    good.replace('\n#### 48', ''),
    'They are left. '.repeat(40),
  ].map((response) => featureLogit(prompt, response))
  expect(scores).toEqual(scores.toSorted((a, b) => b - a))
  expect(new Set(scores).size).toBe(scores.length)
})

test('a text is split at the assistant’s turn or its first line end', () => {
  const chatml = `<|im_start|>user\n${prompt}<|im_end|>\n<|im_start|>assistant\n${good}<|im_end|>\n`
  expect(pairOf(chatml).response).toBe(good)
  expect(pairOf(chatml).prompt).toContain(prompt)
  expect(pairOf(`${prompt}\n${good}`)).toEqual({ prompt, response: good })
  expect(pairOf('alone')).toEqual({ prompt: '', response: 'alone' })
})

const solutions = '../shared/data/gsm8k/example_model_solutions.jsonl'
test.skipIf(!existsSync(solutions))(
  'the model prefers the correct solution in at least 61 % of 2,429 pairs of real solutions',
  async () => {
    const groups = new Map<string, { correct: boolean; score: number }[]>()
    for await (const { sample } of (await openRollouts(solutions)).rollouts()) {
      const group = groups.get(sample.uid) ?? []
      groups.set(sample.uid, group)
      group.push({
        correct: sample.extraInfo?.is_correct === true,
        score: featureLogit(sample.prompt as string, sample.response as string),
      })
    }
    let pairs = 0
    let preferred = 0
    for (const group of groups.values()) {
      for (const right of group.filter((s) => s.correct)) {
        for (const wrong of group.filter((s) => !s.correct)) {
          pairs += 1
          preferred += right.score > wrong.score ? 1 : right.score === wrong.score ? 0.5 : 0
        }
      }
    }
    expect(pairs).toBe(2429)
    expect(preferred / pairs).toBeGreaterThan(0.61)
    expect(preferred / pairs).toBeLessThan(0.64)
  },
)
