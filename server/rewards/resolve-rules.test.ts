import { describe, expect, test } from 'vitest'
import { RewardSpec } from '../wire/trainer.ts'
import { managerNamed } from './managers/registry.ts'
import { checkRulesForMore, resolveReward } from './resolve.ts'

const context = { functionsDir: '/functions', models: ['rm'] }

function resolved(reward: Record<string, unknown>, dataSources: string[] = ['openai/gsm8k']) {
  return resolveReward(RewardSpec.parse(reward), dataSources, context)
}

describe('a rule named in reward.function', () => {
  test('scores every sample, whatever its data source', () => {
    const { reward, rewardName } = resolved({ function: { name: 'math_verify' } }, [
      'a set of ours',
    ])
    expect(rewardName).toBe('math_verify')
    expect(reward).toMatchObject({ kind: 'rule', model: null, rule: 'math_verify', kwargs: {} })
    const sample = {
      dataSource: 'a set of ours',
      prompt: 'What is half of one?',
      solutionStr: '\\boxed{0.5}',
      groundTruth: '\\frac12',
      extraInfo: {},
      responseLength: null,
    }
    expect(managerNamed('naive').runRule(sample, reward)).toMatchObject({
      ok: true,
      score: 1,
      extra: { acc: true, extracted: '\\frac{1}{2}', reason: 'equal' },
    })
    expect(managerNamed('naive').runRule(sample, { ...reward, rule: 'gone' })).toMatchObject({
      ok: false,
      reason: 'function_error',
    })
    expect(() => checkRulesForMore(['another'], {}, 'math_verify')).not.toThrow()
    expect(() => checkRulesForMore(['another'], {})).toThrow('No rule scores')
  })

  test('gets the kwargs of both places, each checked', () => {
    const given = {
      kwargs: { timeout_score: 0 },
      function: { name: 'math_verify', kwargs: { deadline_ms: 50 } },
    }
    expect(resolved(given).reward.kwargs).toEqual({ timeout_score: 0, deadline_ms: 50 })
    expect(() => resolved({ function: { name: 'math_verify', kwargs: { deadline: 50 } } })).toThrow(
      'unknown kwarg "deadline", did you mean "deadline_ms"?',
    )
    expect(() => resolved({ function: { name: 'gsm8k' }, kwargs: { method: 'loose' } })).toThrow(
      'kwarg "method" of rule gsm8k is not valid',
    )
    const twice = {
      kwargs: { deadline_ms: 1 },
      function: { name: 'math_verify', kwargs: { deadline_ms: 2 } },
    }
    expect(() => resolved(twice)).toThrow('is in reward.kwargs and in reward.function.kwargs')
  })

  test('that there is not is refused with the nearest there is', () => {
    expect(() => resolved({ function: { name: 'math_verfy' } })).toThrow(
      'reward.function.name: "math_verfy" is not registered. Did you mean "math_verify"?',
    )
    expect(() => resolved({ function: { name: 'toString' } })).toThrow('is not registered')
    expect(() => resolved({ function: {} })).toThrow('give its name')
    expect(() => resolved({ function: { name: 'gsm8k' }, model: 'rm' })).toThrow(
      'one of them scores',
    )
  })
})

test('code asks a sandbox, which is said of its data sources too', () => {
  expect(() => resolved({ function: { name: 'code' } })).toThrow('asks a service')
  expect(() => resolved({}, ['taco'])).toThrow('dataSource "taco": rule code asks a service')
})

test('without a name the data sources choose', () => {
  const { reward, rewardName } = resolved({}, ['numina_olympiads', 'hiyouga/geometry3k'])
  expect(rewardName).toBe('prime_math + geo3k')
  expect(reward).not.toHaveProperty('rule')
})
