/** numina (prime_math) and geo3k: verdicts of verl's functions, and intended differences. */

import { describe, expect, test } from 'vitest'
import { Budget } from '../../../packages/math-verify/src/index.ts'
import { hasThoughtAndBox } from './geo3k.ts'
import { gradeAnswer } from './grade-answer.ts'
import { matchNuminaAnswer } from './numina.ts'
import { ruleForDataSource } from './registry.ts'
import { RuleInputError, type RuleResult } from './rule.ts'

function score(
  dataSource: string,
  solutionStr: string,
  groundTruth: unknown,
  kwargs: Record<string, unknown> = {},
): RuleResult {
  const input = { dataSource, solutionStr, groundTruth, extraInfo: {}, kwargs }
  return ruleForDataSource(dataSource)!.score(input)
}

const numina = 'numina_cn_k12'
const geo3k = 'hiyouga/geometry3k'

describe('the shared grading', () => {
  test.for<[given: string, truth: string, right: boolean]>([
    ['5', '5', true],
    ['5.0', '5', true],
    ['1,234', '1234', true],
    ['5 cm', '5', true],
    ['5 inches', '5', true],
    ['5^\\circ', '5', true],
    ['\\text{yes}', 'Yes', true],
    ['\\frac{1}{2}', '1/2', true],
    ['\\dfrac12', '\\frac{1}{2}', true],
    ['2\\sqrt{3}', '\\sqrt{12}', true],
    ['x+1', '1+x', true],
    ['(1, 2)', '(1,2)', true],
    ['(\\sqrt{4},2)', '(2,2)', false],
    // An equal fraction with different terms is incorrect, and so is an expression in place of an integer.
    ['\\frac{2}{4}', '\\frac{1}{2}', false],
    ['\\sqrt{25}', '5', false],
    ['6', '5', false],
    ['(1,2]', '(1,2)', false],
    ['(1,2,3)', '(1,2)', false],
    ['x+y+z', 'z+y+x', false],
    ['', '5', false],
    ['None', '5', false],
  ])('%j for %j: %s', ([given, truth, right]) => {
    expect(gradeAnswer(given, truth, new Budget(1_000))).toBe(right)
  })
})

describe('prime_math', () => {
  test.for<[response: string, answer: string]>([
    ['The answer is 5', '5'],
    ['The answer is: $5$', '$5$'],
    ['Answer: 5\n', '5'],
    ['so 5 is the answer', 'so 5'],
    ['The answer is \\boxed{5}.', '5'],
    ['first \\boxed{1}, then \\boxed{2 + 3 = 5}', '5'],
    ['\\fbox{7}', '7'],
    ['\\boxed{5', '\\boxed{5'],
    ['We get x = 5', '5'],
    ['We get 5. That is all', '5'],
    // verl finds an empty answer, because this letter is longer in lower case, which shifts positions.
    ['İs it 5? It is 6', '6'],
    ['nothing', 'nothing'],
  ])('%j: %j', ([response, answer]) => {
    expect(matchNuminaAnswer(response)).toBe(answer)
  })

  test.for<[response: string, truth: string, wanted: number]>([
    ['The answer is \\boxed{5}.', '5', 1],
    ['The answer is \\boxed{6}.', '5', 0],
    ['The answer is \\boxed{\\frac{2}{4}}.', '\\frac{1}{2}', 1],
    ['The answer is \\boxed{0.5}.', '\\frac{1}{2}', 1],
    ['The answer is \\boxed{50\\%}.', '0.5', 1],
    ['The answer is \\boxed{0.33333}.', '\\frac{1}{3}', 1],
    ['The answer is \\boxed{0.333}.', '\\frac{1}{3}', 0],
    ['The answer is \\boxed{6.28}.', '2\\pi', 1],
    ['The answer is \\boxed{6.2832}.', '2\\pi', 1],
    ['The answer is \\boxed{6.3}.', '2\\pi', 0],
    ['The answer is \\boxed{(1, 2)}.', '(1,2)', 1],
    ['The answer is \\boxed{[1, 2]}.', '(1,2)', 0],
    ['The answer is \\boxed{204_5}.', '204', 1],
    ['The answer is \\boxed{x^2-1}.', '(x-1)(x+1)', 1],
    ['I do not know', '5', 0],
  ])('%j against %j: %d', ([response, truth, wanted]) => {
    expect(score(numina, response, truth).score).toBe(wanted)
  })

  test('the extracted answer and the reason', () => {
    expect(score(numina, 'The answer is \\boxed{0.5}.', '\\frac{1}{2}')).toEqual({
      score: 1,
      extra: { acc: 1, extracted: '0.5', reason: 'equal' },
      extracted: '0.5',
      reason: 'equal',
      verdict: 'equal',
    })
    expect(score(numina, 'It is 0.33333', '\\frac13').reason).toBe('equal to four digits')
    expect(score(numina, 'no idea', '5')).toMatchObject({
      reason: 'no answer with a digit',
      verdict: 'no answer',
    })
  })
})

describe('geo3k', () => {
  const thought = '<think>two and three</think> So \\boxed{5}'

  test('the answer counts 0.9 and the form 0.1', () => {
    expect(score(geo3k, thought, '5')).toEqual({
      score: 1,
      extra: { acc: 1, accuracy: 1, format: 1, extracted: '5', reason: 'equal, format kept' },
      extracted: '5',
      reason: 'equal, format kept',
      verdict: 'equal',
    })
    expect(score(geo3k, '\\boxed{5}', '5')).toMatchObject({
      score: 0.9,
      reason: 'equal, format not kept',
    })
    expect(score(geo3k, thought, '6')).toMatchObject({ score: 0.1 })
    expect(score(geo3k, 'five', '5')).toMatchObject({
      score: 0,
      extracted: null,
      reason: 'no boxed answer, format not kept',
    })
    expect(score(geo3k, thought, '5', { format_score: 0.5 }).score).toBe(1)
    expect(score(geo3k, thought, '6', { format_score: 0.5 }).score).toBe(0.5)
    expect(score(geo3k, '5', '5', { use_boxed: false })).toMatchObject({ score: 0.9 })
  })

  test.for<[response: string, wanted: boolean]>([
    ['<think>a</think>\\boxed{5}', true],
    ['<think>a\nb</think>\nc\\boxed{}\n', true],
    ['<think>\\boxed{5}</think>', false],
    ['<think>a</think>\\boxed{5', false],
    ['<think>a</think>\\boxed5}', false],
    [' <think>a</think>\\boxed{5}', false],
    ['a</think>\\boxed{5}', false],
    ['<think>a</think></think>\\boxed{\\frac12}', true],
  ])('%j keeps the form: %s', ([response, wanted]) => {
    expect(hasThoughtAndBox(response)).toBe(wanted)
  })

  test('the last closed box counts', () => {
    expect(score(geo3k, '\\boxed{4} \\boxed{ \\frac{1}{2} }', '\\frac12').score).toBe(0.9)
    expect(score(geo3k, '\\boxed{5} \\boxed{6', '5').score).toBe(0)
  })
})

test.for([numina, geo3k])('%s fails on a ground truth of the wrong type', (source) => {
  for (const truth of [undefined, null, ['5'], { target: '5' }]) {
    expect(() => score(source, '\\boxed{5}', truth)).toThrow(RuleInputError)
  }
  expect(score(source, '\\boxed{5}', 5).score).toBeGreaterThan(0.8)
})
