import { describe, expect, test } from 'vitest'
import { RewardSpec } from '../contract/trainer.ts'
import { managerNamed } from './managers/registry.ts'
import { checkRulesForMore, resolveReward } from './resolve.ts'

const context = { functionsDir: '/functions', models: ['rm'] }

function resolved(reward: Record<string, unknown>, dataSources: string[] = ['openai/gsm8k']) {
  return resolveReward(RewardSpec.parse(reward), dataSources, context)
}

describe('a rule named in reward.function', () => {
  test('scores every sample, regardless of its data source', () => {
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
    expect(() => checkRulesForMore(['another'], reward)).not.toThrow()
    expect(() => checkRulesForMore(['another'], resolved({}).reward)).toThrow('No rule scores')
  })

  test('gets the checked kwargs of the reward and of the function', () => {
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

  test('that does not exist is refused with the nearest name', () => {
    expect(() => resolved({ function: { name: 'math_verfy' } })).toThrow(
      'reward.function.name: "math_verfy" is not registered. Did you mean "math_verify"?',
    )
    expect(() => resolved({ function: { name: 'toString' } })).toThrow('is not registered')
    expect(() => resolved({ function: {} })).toThrow('give its name')
    expect(() => resolved({ function: { name: 'gsm8k' }, model: 'rm' })).toThrow('give only one')
  })
})

describe('the rule code', () => {
  const url = 'http://sandbox.internal:8080/run_code'

  test('is selected by its name, or by a data source next to others', () => {
    const kwargs = { sandbox_fusion_url: url, max_concurrent: 8 }
    expect(resolved({ function: { name: 'code', kwargs } }).reward).toMatchObject({
      kind: 'service',
      rule: 'code',
      kwargs,
    })
    const mixed = resolved({ kwargs }, ['taco', 'openai/gsm8k'])
    expect(mixed).toMatchObject({ reward: { kind: 'service', kwargs }, rewardName: 'code + gsm8k' })
  })

  test('needs a sandbox, which an open batch must have before its first sample', () => {
    expect(() => resolved({ function: { name: 'code' } })).toThrow(
      'kwarg "sandbox_fusion_url" of rule code is missing',
    )
    expect(() => resolved({}, ['taco'])).toThrow('"sandbox_fusion_url" of rule code is missing')
    const open = resolved({ kwargs: { sandbox_fusion_url: url } }, [])
    expect(open.reward.kind).toBe('service')
    expect(() => checkRulesForMore(['taco', 'math'], open.reward)).not.toThrow()
    expect(() => checkRulesForMore(['taco'], resolved({}, []).reward)).toThrow('is missing')
  })

  test.each([
    'http://169.254.169.254/run_code',
    'http://metadata.google.internal/run_code',
    'http://[::ffff:a9fe:a9fe]/run_code',
    'http://2852039166/run_code',
    'http://user:secret@sandbox/run_code',
  ])('refuses a sandbox at %s', (address) => {
    const refused = expect.objectContaining({ reason: 'forbidden_url' })
    expect(() => resolved({ kwargs: { sandbox_fusion_url: address } }, ['taco'])).toThrow(refused)
    expect(() => resolved({ kwargs: { sandbox_fusion_url: address } })).toThrow(refused)
    const component = { name: 'code', reward: { kwargs: { sandbox_fusion_url: address } } }
    expect(() => resolved({ combine: [component] })).toThrow(refused)
  })

  test('checks its kwargs', () => {
    const kwargs = { sandbox_fusion_url: url, memory_limit: 512 }
    expect(() => resolved({ kwargs }, ['taco'])).toThrow('did you mean "memory_limit_mb"?')
    expect(() => resolved({ kwargs: { ...kwargs, memory_limit: 0 } }, ['taco'])).toThrow('memory')
  })
})

test('without a name the data sources select the rules', () => {
  const { reward, rewardName } = resolved({}, ['numina_olympiads', 'hiyouga/geometry3k'])
  expect(rewardName).toBe('prime_math + geo3k')
  expect(reward).not.toHaveProperty('rule')
})
