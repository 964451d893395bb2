/** The rule's options, reasons and errors; `packages/math-verify` tests the comparison. */
import { expect, test } from 'vitest'
import { ruleByName } from './registry.ts'
import { RuleInputError, RuleTimeoutError } from './rule.ts'

const rule = ruleByName('math_verify')!

function score(solutionStr: string, groundTruth: unknown, kwargs: Record<string, unknown> = {}) {
  return rule.score({ dataSource: 'x', solutionStr, groundTruth, extraInfo: {}, kwargs })
}

const box = (answer: string) => `So it is $\\boxed{${answer}}$.`

test('allow_set_relation_comp accepts a condition as a set', () => {
  const kwargs = { allow_set_relation_comp: true }
  expect(score(box('-2 \\le x \\le 7'), 'x \\in [-2,7]', kwargs).score).toBe(1)
  expect(score(box('-2 \\le x < 7'), 'x \\in [-2,7]', kwargs).score).toBe(0)
})

test('the result has a reason', () => {
  expect(score(box('\\frac12'), '0.5')).toEqual({
    score: 1,
    extra: { score: 1, acc: true, extracted: '\\frac{1}{2}', reason: 'equal' },
    extracted: '\\frac{1}{2}',
    reason: 'equal',
  })
  expect(score(box('6'), '5')).toMatchObject({ score: 0, reason: 'different' })
  expect(score('who knows', '5')).toMatchObject({ score: 0, reason: 'no answer' })
  expect(score(box('a ? b'), '5')).toMatchObject({ score: 0, reason: 'not readable' })
  expect(score(box('a ? b'), 'a ? b')).toMatchObject({ score: 1, reason: 'same text' })
  expect(score(box('9^{9^9}'), '5')).toMatchObject({ score: 0, reason: 'too large' })
})

test('a comparison past its deadline fails the sample or scores timeout_score', () => {
  const terms = Array.from({ length: 60 }, (_, at) => `\\sqrt{${at + 2}}`).join(',')
  const answer = box(`\\{${terms}\\}`)
  const truth = `\\{${terms.split(',').reverse().join(',')}\\}`
  const kwargs = { deadline_ms: 1 }
  // CPU time has a resolution of milliseconds, so comparisons are repeated until one exceeds its deadline.
  const slow = (given: Record<string, unknown>) => {
    for (let at = 0; at < 50; at++) {
      const result = score(answer, truth.replace('\\{', `\\{${at},`), given)
      if (result.reason === 'timeout') return result
    }
    throw new Error('never timed out')
  }
  expect(() => slow(kwargs)).toThrow(RuleTimeoutError)
  expect(slow({ ...kwargs, timeout_score: 0.25 })).toMatchObject({ score: 0.25 })
})

test('an unusable ground truth fails the sample, which never scores 0', () => {
  for (const truth of ['', '   ']) {
    expect(() => score(box('5'), truth)).toThrow(RuleInputError)
  }
  expect(() => score(box('5'), null)).toThrow(/groundTruth is missing/)
  expect(() => score(box('5'), { target: '5' })).toThrow(RuleInputError)
  expect(score(box('5'), 5).score).toBe(1)
  expect(score(box('0.5'), 0.5).score).toBe(1)
})
