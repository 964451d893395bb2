import { expect, test } from 'vitest'
import { z } from 'zod'
import { RULE_CASES, truthOf } from '../../../testkit/rules/rule-cases.ts'
import {
  asyncRuleForDataSource,
  checkRuleKwargs,
  listAsyncRules,
  listRuleDataSources,
  listRules,
  ruleByName,
  ruleForDataSource,
} from './registry.ts'

const named = (...sources: string[]) => sources.map((source) => ruleForDataSource(source)!)

test.for<[source: string, rule: string | undefined]>([
  ['openai/gsm8k', 'gsm8k'],
  ['lighteval/MATH', 'math_reward'],
  ['DigitalLearningGmbH/MATH-lighteval', 'math_reward'],
  ['HuggingFaceH4/MATH-500', 'math_reward'],
  ['math_dapo', 'math_dapo'],
  ['math', 'math_dapo'],
  ['math_dapo_reasoning', 'math_dapo'],
  ['aime', 'math_dapo'],
  ['aime2024', 'math_dapo'],
  ['aime_2025/I', 'math_dapo'],
  ['searchR1_nq', 'search_r1'],
  ['searchR1_bamboogle', 'search_r1'],
  ['numina_aops_forum', 'prime_math'],
  ['numina_synthetic_math', 'prime_math'],
  ['numina_amc_aime', 'prime_math'],
  ['numina_synthetic_amc', 'prime_math'],
  ['numina_cn_k12', 'prime_math'],
  ['numina_olympiads', 'prime_math'],
  ['numina_', undefined],
  ['hiyouga/geometry3k', 'geo3k'],
  ['geometry3k', undefined],
  ['codecontests', undefined],
  ['math_verify', undefined],
  ['AIME24', undefined],
  ['gsm8k', undefined],
  ['openai/gsm8k ', undefined],
  ['math_', undefined],
  ['aim', undefined],
  ['aime*', 'math_dapo'],
  ['searchR1_', undefined],
  ['toString', undefined],
  ['', undefined],
])('%j selects %s', ([source, rule]) => {
  expect(ruleForDataSource(source)?.name).toBe(rule)
})

test.for(['codecontests', 'apps', 'codeforces', 'taco'])(
  '%j selects code, which calls a sandbox',
  (source) => {
    expect(asyncRuleForDataSource(source)?.name).toBe('code')
  },
)

test('a rule is found by its name, and math_verify only by its name', () => {
  expect(ruleByName('math_verify')).toMatchObject({ dataSources: [] })
  expect(ruleByName('gsm8k')).toBe(ruleForDataSource('openai/gsm8k'))
  expect(ruleByName('code')).toBeUndefined()
  expect(ruleByName('constructor')).toBeUndefined()
})

test('every rule has a unique name, data sources that select it, and documented kwargs', () => {
  const rules = listRules()
  expect(new Set(rules.map((rule) => rule.name)).size).toBe(rules.length)
  for (const source of listRuleDataSources()) {
    expect(ruleForDataSource(source)?.dataSources).toContain(source)
  }
  for (const rule of [...rules, ...listAsyncRules()]) {
    const schema = z.toJSONSchema(rule.kwargs, { io: 'input' })
    expect(schema.additionalProperties, rule.name).toBe(false)
    for (const [key, option] of Object.entries(schema.properties!)) {
      expect(option, `${rule.name}.${key}`).toHaveProperty('default')
      expect(option, `${rule.name}.${key}`).toHaveProperty('description')
    }
  }
})

test('every rule has cases, and scores its usual answer higher than another one', () => {
  expect(Object.keys(RULE_CASES).toSorted()).toEqual(
    listRules()
      .map(({ name }) => name)
      .toSorted(),
  )
  for (const rule of listRules()) {
    const { usual, scored, slow } = RULE_CASES[rule.name]!
    expect([scored.length, slow.length], rule.name).not.toContain(0)
    const score = (n: number) => {
      const groundTruth = truthOf(rule.name, usual.accepted(10))
      const sample = { dataSource: 'any', groundTruth, extraInfo: {}, kwargs: {} }
      return rule.score({ ...sample, solutionStr: usual.response(n) }).score
    }
    expect(score(10), rule.name).toBeGreaterThan(score(11))
  }
})

test('kwargs are accepted if one rule knows them and they are valid', () => {
  const all = listRules()
  expect(checkRuleKwargs(all, {})).toEqual({ ok: true })
  expect(checkRuleKwargs(all, { version: '2026-08' })).toEqual({ ok: true })
  expect(checkRuleKwargs(all, { method: 'strict', strict_box_verify: true })).toEqual({ ok: true })
  expect(checkRuleKwargs(named('openai/gsm8k'), { method: 'flexible', format_score: 0.1 })).toEqual(
    { ok: true },
  )
})

test('a kwarg unknown to all rules is named, with the nearest known one', () => {
  const check = checkRuleKwargs(named('openai/gsm8k', 'math'), { fromat_score: 1 })
  expect(check).toEqual({
    ok: false,
    message: 'unknown kwarg "fromat_score", did you mean "format_score"?',
    hint: expect.stringMatching(/^Known to gsm8k, math_dapo: method, .*strict_box_verify/),
  })
  const other = checkRuleKwargs(named('lighteval/MATH'), { strict_box_verify: true })
  expect(other).toMatchObject({ ok: false, message: 'unknown kwarg "strict_box_verify"' })
  const proto = checkRuleKwargs(listRules(), JSON.parse('{"__proto__":1}'))
  expect(proto).toMatchObject({ ok: false, message: 'unknown kwarg "__proto__"' })
  expect(checkRuleKwargs(listRules(), { constructor: 1 }).ok).toBe(false)
  expect(checkRuleKwargs([], { method: 'strict' })).toMatchObject({
    ok: false,
    hint: expect.stringContaining('takes no kwargs'),
  })
})

test.for<[kwargs: Record<string, unknown>, message: string]>([
  [{ method: 'loose' }, 'kwarg "method" of rule gsm8k is not valid'],
  [{ score: '1' }, 'kwarg "score" of rule gsm8k is not valid'],
  [{ format_score: null }, 'kwarg "format_score" of rule gsm8k is not valid'],
  [{ score: Number.POSITIVE_INFINITY }, 'kwarg "score" of rule gsm8k is not valid'],
  [{ version: '2026-09' }, 'kwarg "version" of rule gsm8k is not valid'],
  [{ strict_box_verify: 1 }, 'kwarg "strict_box_verify" of rule math_dapo is not valid'],
  [{ pause_tokens_index: [1, 2] }, 'kwarg "pause_tokens_index" of rule math_dapo is not valid'],
])('%j is refused', ([kwargs, message]) => {
  const check = checkRuleKwargs(named('openai/gsm8k', 'math'), kwargs)
  expect(check).toMatchObject({
    ok: false,
    message: expect.stringContaining(message),
    hint: expect.stringContaining('Default: '),
  })
})

test('a kwarg must be valid for all the rules that know it', () => {
  const flexible = { method: 'flexible' }
  expect(checkRuleKwargs(named('openai/gsm8k'), flexible).ok).toBe(true)
  expect(checkRuleKwargs(named('openai/gsm8k', 'searchR1_nq'), flexible)).toMatchObject({
    ok: false,
    message: expect.stringContaining('rule search_r1'),
  })
})
