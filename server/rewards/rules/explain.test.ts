import { describe, expect, test } from 'vitest'
import { Budget, formatAnswer, parse } from '../../../packages/math-verify/src/index.ts'
import { RULE_CASES } from '../../../testkit/rules/rule-cases.ts'
import { listRules, ruleByName } from './registry.ts'
import { RuleInputError } from './rule.ts'

const cases = Object.entries(RULE_CASES).flatMap(([name, { scored }]) =>
  scored.map(([response, groundTruth, score, kwargs = {}]) => ({
    ...{ name, response, groundTruth, score, kwargs },
  })),
)

describe('a rule’s explanation', () => {
  test.for(cases)('$name of $response against $groundTruth', (given) => {
    const { name, response: solutionStr, groundTruth, score, kwargs } = given
    const { isFoundNormalized, isByValue } = RULE_CASES[name]!
    const rule = ruleByName(name)!
    const input = { dataSource: 'any', solutionStr, groundTruth, extraInfo: {}, kwargs }
    const scored = rule.score(input)
    expect(scored.score).toBe(score)
    const explained = rule.explain(input)
    expect(explained.where).not.toBe('')
    expect(explained.comparison).not.toBe('')
    // The displayed answer is the scored one, and it occurs in the response.
    expect(explained.found === null).toBe(scored.extracted === null)
    if (explained.found !== null && !isFoundNormalized)
      expect(solutionStr).toContain(explained.found)
    const last = explained.forms.at(-1)!
    if (!isByValue && scored.extracted !== null && !last.groundTruth?.includes(' | ')) {
      expect(last.response === last.groundTruth).toBe(scored.reason.startsWith('equal'))
    }
  })

  test.for(cases)('the docs name the reason and the extra info of $name, $response', (given) => {
    const { name, response: solutionStr, groundTruth, kwargs } = given
    const { docs, score } = ruleByName(name)!
    const input = { dataSource: 'any', solutionStr, groundTruth, extraInfo: {}, kwargs }
    const { reason, verdict = reason, extra } = score(input)
    const words = docs.reason.split('`').filter((_, at) => at % 2 === 1)
    const reasons = words.includes(reason) ? [reason] : reason.split(', ')
    expect(words).toEqual(expect.arrayContaining([verdict, ...reasons]))
    for (const key of Object.keys(extra)) expect(docs.extraInfo).toContain(`\`${key}\``)
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
