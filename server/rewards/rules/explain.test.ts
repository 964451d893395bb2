import { describe, expect, test } from 'vitest'
import { Budget, formatAnswer, parse } from '../../../packages/math-verify/src/index.ts'
import { listRules, ruleByName } from './registry.ts'
import { RuleInputError } from './rule.ts'

const cases: [rule: string, response: string, groundTruth: unknown, kwargs?: object][] = [
  ['gsm8k', 'so 1,200\n#### 1,200', '1200'],
  ['gsm8k', 'so 71\n#### 71', '72'],
  ['gsm8k', 'no mark, 72', '72'],
  ['gsm8k', 'no mark, 72', '72', { method: 'flexible' }],
  ['math_reward', 'thus \\boxed{\\dfrac{1}{2}}', '\\frac12'],
  ['math_reward', 'thus \\boxed{3}', '4'],
  ['math_reward', 'nothing', '4'],
  ['math_dapo', 'Answer: $\\text{12}$', '12'],
  ['math_dapo', 'Answer: 13', '12'],
  ['math_dapo', 'in a box: \\boxed{12}', '12', { version: '2026-08' }],
  ['math_dapo', 'in a box: \\boxed{12}', '12', { strict_box_verify: true }],
  ['prime_math', 'The answer is \\boxed{5 \\text{ cm}}', '5'],
  ['geo3k', '<think>…</think>\\boxed{5}', '5'],
  ['search_r1', '<answer>The Paris!</answer>', { target: ['London', 'Paris'] }],
  ['search_r1', '<answer>Rome</answer>', { target: ['London', 'Paris'] }],
  ['math_verify', 'so $x = \\frac{2}{4}$', '\\frac12'],
  ['math_verify', 'so \\boxed{\\{2, 1\\}}', '\\{1, 2\\}'],
]

describe('a rule’s explanation', () => {
  test.each(cases)('%s of %j against %j', (name, solutionStr, groundTruth, kwargs = {}) => {
    const rule = ruleByName(name)!
    const input = {
      dataSource: 'any',
      solutionStr,
      groundTruth,
      extraInfo: {},
      kwargs: kwargs as Record<string, unknown>,
    }
    const scored = rule.score(input)
    const explained = rule.explain(input)
    expect(explained.where).not.toBe('')
    expect(explained.comparison).not.toBe('')
    // The displayed answer is the scored one, and it occurs in the response.
    expect(explained.found === null).toBe(scored.extracted === null)
    if (explained.found !== null && name !== 'math_verify')
      expect(solutionStr).toContain(explained.found)
    const last = explained.forms.at(-1)!
    const isText = name !== 'math_verify' && name !== 'prime_math'
    if (isText && scored.extracted !== null && !last.groundTruth?.includes(' | ')) {
      expect(last.response === last.groundTruth).toBe(scored.reason.startsWith('equal'))
    }
  })

  test('every rule refuses to explain a sample that it refuses to score', () => {
    for (const rule of listRules()) {
      const input = {
        dataSource: 'any',
        solutionStr: 'x',
        groundTruth: null,
        extraInfo: {},
        kwargs: {},
      }
      expect(() => rule.explain(input)).toThrow(RuleInputError)
    }
  })

  test('the parsed answer is formatted in readable notation', () => {
    const read = (latex: string) =>
      formatAnswer(parse(`\\boxed{${latex}}`, ['latex'], new Budget(1_000)).value!)
    expect(read('\\frac{2}{4}')).toBe('1/2')
    expect(read('[0, 1)')).toBe('[0, 1)')
    expect(read('x^2 = 4')).toBe('x^2 = 4')
    expect(read('\\{1, 2, \\pi\\}')).toBe('{1, 2, π}')
    expect(read('9'.repeat(1_000))).toMatch(/^a number of about \d+ digits$/)
  })
})
