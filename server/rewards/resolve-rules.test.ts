import { describe, expect, test, vi } from 'vitest'
import { RewardSpec } from '../contract/trainer.ts'
import { managerNamed } from './managers/registry.ts'
import { checkRulesForMore, requireSandbox, resolveReward } from './resolve.ts'

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
  const url = 'http://sandbox.internal:8080'
  const sandboxes = { big: url }
  const withNamed = (reward: object, dataSources: string[] = []) =>
    resolveReward(RewardSpec.parse(reward), dataSources, { models: [], sandboxes })

  test('is selected by its name, or by a data source next to others', () => {
    const kwargs = { max_concurrent: 8 }
    expect(resolved({ function: { name: 'code', kwargs } }).reward).toMatchObject({
      kind: 'service',
      rule: 'code',
      kwargs,
      sandbox: { name: 'local', url: null },
    })
    const mixed = resolved({ kwargs }, ['taco', 'openai/gsm8k'])
    expect(mixed).toMatchObject({ reward: { kind: 'service', kwargs }, rewardName: 'code + gsm8k' })
  })

  test('gets its sandbox at acceptance, so an open batch names it before its first sample', () => {
    const open = resolved({ kwargs: { sandbox: 'local' } }, [])
    expect(open.reward).toMatchObject({ kind: 'service', sandbox: { name: 'local' } })
    expect(() => checkRulesForMore(['taco', 'math'], open.reward)).not.toThrow()
    expect(() => checkRulesForMore(['taco'], resolved({}, []).reward)).toThrow(
      'opened without a sandbox',
    )
  })

  test('uses only sandboxes that an admin has named, by name or by URL', () => {
    const big = { name: 'big', url }
    expect(withNamed({ kwargs: { sandbox: 'big' } }, ['taco']).reward.sandbox).toEqual(big)
    for (const address of [url, `${url}/`, `${url}/run_code`]) {
      const kwargs = { sandbox_fusion_url: address }
      expect(withNamed({ kwargs }, ['taco']).reward.sandbox).toEqual(big)
    }
    expect(() => withNamed({ kwargs: { sandbox: 'small' } })).toThrow(
      expect.objectContaining({ reason: 'invalid_kwargs', hint: expect.stringContaining('big') }),
    )
    const both = { sandbox: 'big', sandbox_fusion_url: url }
    expect(() => withNamed({ kwargs: both })).toThrow('both given')
  })

  test('is refused without a sandbox, with the reason and what to install or grant', async () => {
    const none = { ok: false as const, reason: 'bubblewrap is missing.', remedy: 'Install it.' }
    const local = vi.fn(async () => none)
    const combine = [{ name: 'code', reward: { function: { name: 'code' } } }]
    for (const { reward } of [resolved({}, ['taco']), resolved({ combine })]) {
      await expect(requireSandbox(reward, local)).rejects.toMatchObject({
        reason: 'sandbox_unavailable',
        message: expect.stringContaining(none.reason),
        hint: none.remedy,
      })
    }
    local.mockClear()
    await requireSandbox(withNamed({ kwargs: { sandbox: 'big' } }, ['taco']).reward, local)
    await requireSandbox(resolved({}, ['openai/gsm8k']).reward, local)
    // If no programs are scored, no sandbox is started.
    expect(local).not.toHaveBeenCalled()
  })

  test.each([
    'http://sandbox.internal:8081/run_code',
    'http://169.254.169.254/run_code',
    'http://2852039166/run_code',
    'http://user:secret@sandbox.internal:8080/run_code',
    'http://sandbox.internal:8080/run_code?to=elsewhere',
  ])('refuses a sandbox at %s', (address) => {
    const refused = expect.objectContaining({ reason: 'forbidden_url' })
    const kwargs = { sandbox_fusion_url: address }
    expect(() => withNamed({ kwargs }, ['taco'])).toThrow(refused)
    expect(() => withNamed({ kwargs })).toThrow(refused)
    expect(() => withNamed({ combine: [{ name: 'code', reward: { kwargs } }] })).toThrow(refused)
  })

  test('checks its kwargs', () => {
    const kwargs = { memory_limit: 512 }
    expect(() => resolved({ kwargs }, ['taco'])).toThrow('did you mean "memory_limit_mb"?')
    expect(() => resolved({ kwargs: { ...kwargs, memory_limit: 0 } }, ['taco'])).toThrow('memory')
  })
})

test('without a name the data sources select the rules', () => {
  const { reward, rewardName } = resolved({}, ['numina_olympiads', 'hiyouga/geometry3k'])
  expect(rewardName).toBe('prime_math + geo3k')
  expect(reward).not.toHaveProperty('rule')
})
