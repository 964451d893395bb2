import { describe, expect, test } from 'vitest'
import { modelsOf } from '../contract/resolved-reward.ts'
import { RewardSpec } from '../contract/trainer.ts'
import { resolveReward } from './resolve.ts'

const context = { functionsDir: '/functions', models: ['rm'], judges: ['judge'], sleepless: ['rm'] }

function resolved(reward: Record<string, unknown>, dataSources: string[] = ['openai/gsm8k']) {
  return resolveReward(RewardSpec.parse(reward), dataSources, context)
}

const rule = { name: 'correct', reward: { function: { name: 'gsm8k' } } }
const rm = { name: 'rm', weight: 0.5, reward: { model: 'rm' } }

describe('a composite reward', () => {
  test('resolves its components, each with its own timeout or that of the reward', () => {
    const judged = {
      name: 'judged',
      weight: -1,
      reward: { model: 'judge', judge: 'rating-1-10', timeoutMs: 1_000, maxAttempts: 1 },
    }
    const bySource = { name: 'source', reward: { kwargs: { method: 'flexible' } } }
    const combine = [rule, rm, judged, bySource]
    const { reward, rewardName } = resolved({ combine, timeoutMs: 9_000 })
    expect(rewardName).toBe('correct + rm + judged + source')
    expect(reward).toMatchObject({ kind: 'combine', model: null, timeoutMs: 9_000, kwargs: {} })
    expect(modelsOf(reward)).toEqual(['rm', 'judge'])
    const components = reward.components ?? []
    expect(components.map(({ name, weight }) => [name, weight])).toEqual([
      ['correct', 1],
      ['rm', 0.5],
      ['judged', -1],
      ['source', 1],
    ])
    expect(components.map((component) => component.reward)).toMatchObject([
      { kind: 'rule', rule: 'gsm8k', timeoutMs: 9_000, maxAttempts: 4 },
      { kind: 'model', model: 'rm' },
      { kind: 'model', judge: { name: 'rating-1-10' }, timeoutMs: 1_000, maxAttempts: 1 },
      { kind: 'rule', kwargs: { method: 'flexible' } },
    ])
  })

  test('works with every manager and keeps the manager’s kwargs', () => {
    const buffer = { enable: true, len: 4, penalty_factor: 1 }
    const kwargs = { max_resp_len: 10, overlong_buffer_cfg: buffer }
    expect(resolved({ combine: [rule], manager: 'dapo', kwargs }).reward.kwargs).toEqual(kwargs)
    const limited = resolved({ combine: [rule, rm], manager: 'limit', kwargs: { max_rpm: 60 } })
    expect(limited.reward).toMatchObject({
      manager: 'rate_limited',
      kwargs: {},
      limiter: { name: 'model:rm', limits: { maxRpm: 60 } },
    })
  })

  test.each([
    [
      { combine: [rule, rule] },
      /combine\[1\]\.name: "correct" is the name of an earlier component/,
    ],
    [{ combine: [rm], model: 'rm' }, /reward\.combine and reward\.model are both given/],
    [{ combine: [rm], kwargs: { method: 'strict' } }, /reward\.kwargs\.method: .* component/],
    [{ combine: [{ name: 'x', reward: { model: 'mr' } }] }, /combine\[0\]\.reward\.model "mr"/],
    [{ combine: [{ name: 'x', reward: { model: 'judge' } }] }, /\.judge: .* needs a judge/],
    [{ combine: [{ name: 'x', reward: { function: { name: 'gsm' } } }] }, /mean "gsm8k"/],
    [{ combine: [{ name: 'x', reward: { kwargs: { scor: 1 } } }] }, /did you mean "score"/],
    [{ combine: [rule], sleepAfter: true }, /sleepAfter: only servers of a reward model/],
    [{ combine: [rule, rm], sleepAfter: true }, /no server of "rm" can be put to sleep/],
  ])('%j is refused', (reward, message) => {
    expect(() => resolved(reward)).toThrow(message)
  })

  test.each([
    { combine: [] },
    { combine: [{ name: 'a/b' }] },
    { combine: [{ name: '' }] },
    { combine: [{ name: 'x', weight: Number.POSITIVE_INFINITY }] },
    { combine: [{ name: 'x', reward: { combine: [{ name: 'y' }] } }] },
    { combine: [{ name: 'x', reward: { manager: 'dapo' } }] },
  ])('%j is not a composite reward', (reward) => {
    expect(RewardSpec.safeParse(reward).success).toBe(false)
  })
})

describe('the kwargs of rate_limited and gdpo', () => {
  test('define the limiter of a reward, which is named after its scorer', () => {
    const limiterOf = (reward: Record<string, unknown>) => resolved(reward).reward.limiter
    expect(limiterOf({ manager: 'rate_limited', model: 'rm' })).toEqual({
      name: 'model:rm',
      limits: {
        maxConcurrent: 1,
        maxRpm: null,
        maxTpm: null,
        estimatedTokens: 2_000,
        timeoutMs: 300_000,
        burstSeconds: 1,
      },
    })
    expect(limiterOf({ manager: 'limited' })?.name).toBe('rules:by data source')
    expect(limiterOf({ manager: 'limit', kwargs: { limiter: 'openai', compat: 'verl' } })).toEqual(
      expect.objectContaining({
        name: 'openai',
        limits: expect.objectContaining({ compat: 'verl' }),
      }),
    )
  })

  test('move a rule off the synchronous path, and the rule keeps its own kwargs', () => {
    const { reward } = resolved({
      manager: 'rate_limited',
      kwargs: { max_concurrent: 4, timeout: 2, method: 'flexible' },
    })
    expect(reward).toMatchObject({ kind: 'service', kwargs: { method: 'flexible' } })
    expect(reward.limiter?.limits).toMatchObject({ maxConcurrent: 4, timeoutMs: 2_000 })
  })

  test('set the dimensions, with a weight each', () => {
    const kwargs = { gdpo_reward_keys: ['acc', 'format'], gdpo_reward_weights: [1, 0.5] }
    expect(resolved({ manager: 'gdpo', kwargs }).reward).toMatchObject({
      kwargs: {},
      gdpo: { keys: ['acc', 'format'], weights: [1, 0.5] },
    })
    const { gdpo_reward_keys } = kwargs
    expect(resolved({ manager: 'gdpo', kwargs: { gdpo_reward_keys } }).reward.gdpo).toEqual({
      keys: ['acc', 'format'],
      weights: [1, 1],
    })
  })

  test.each([
    ['rate_limited', { max_rpm: 0 }, /kwarg "max_rpm" of manager rate_limited is not valid/],
    ['rate_limited', { max_rps: 1 }, /unknown kwarg "max_rps", did you mean "max_rpm"\?/],
    ['rate_limited', { timeout: '300' }, /kwarg "timeout"/],
    ['rate_limited', { limiter: '' }, /kwarg "limiter"/],
    ['gdpo', {}, /kwarg "gdpo_reward_keys" of manager gdpo/],
    ['gdpo', { gdpo_reward_keys: ['a', 'a'] }, /names a dimension twice/],
    ['gdpo', { gdpo_reward_keys: ['a'], gdpo_reward_weights: [1, 2] }, /not one weight for each/],
    ['gdpo', { gdpo_reward_key: ['a'], gdpo_reward_keys: ['a'] }, /mean "gdpo_reward_keys"/],
  ])('%s with %j is refused', (manager, kwargs, message) => {
    expect(() => resolved({ manager, kwargs })).toThrow(message)
  })
})
