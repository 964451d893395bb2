import { describe, expect, it } from 'vitest'
import { RewardSpec } from '../../server/contract/trainer.ts'
import { resolveReward } from '../../server/rewards/resolve.ts'
import { readReward, requestReward, rewardText } from './reward-text.prepare.ts'

const context = { models: ['rm'], judges: ['judge'], sleepless: [] }
const resolve = (request: object) =>
  resolveReward(RewardSpec.parse(request), ['openai/gsm8k'], context).reward

describe('request form of a resolved reward', () => {
  it.each([
    [{}],
    [{ kwargs: { method: 'flexible' } }],
    [{ function: { name: 'math_verify' }, onFailure: { policy: 'constant', value: -1 } }],
    [{ model: 'rm', timeoutMs: 1_000, maxAttempts: 2, maxConcurrency: 16, sleepAfter: true }],
    [{ model: 'rm', tokenScores: true }],
    [
      {
        combine: [
          { name: 'rm', weight: 1, reward: { model: 'rm', tokenScores: true } },
          { name: 'rule', weight: 1, reward: {} },
        ],
      },
    ],
    [{ manager: 'gdpo', kwargs: { gdpo_reward_keys: ['acc'], gdpo_reward_weights: [1] } }],
    [
      {
        manager: 'dapo',
        kwargs: {
          max_resp_len: 64,
          overlong_buffer_cfg: { enable: true, len: 8, penalty_factor: 1, log: true },
        },
        advantages: { normByStd: false },
      },
    ],
    [
      {
        combine: [
          { name: 'rule', weight: 0.5, reward: { function: { name: 'gsm8k' }, timeoutMs: 50 } },
          { name: 'rm', weight: 1, reward: { model: 'rm' } },
        ],
      },
    ],
  ])('equals the request: %j', (request) => {
    expect(requestReward(resolve(request))).toEqual(request)
  })

  it.each([
    [{ manager: 'rate_limited', model: 'rm', kwargs: { max_rpm: 60, timeout: 5 } }],
    [{ manager: 'rate_limited', kwargs: { limiter: 'mine', compat: 'verl' } }],
    [{ manager: 'remote', kwargs: { num_workers: 3, method: 'strict' } }],
    [{ model: 'judge', judge: 'rating-1-10' }],
  ])('resolves to the same reward: %j', (request) => {
    expect(resolve(requestReward(resolve(request)))).toEqual(resolve(request))
  })

  it('refers to functions and managers by file', () => {
    const ref = { hash: 'h', path: 'mine.ts', name: 'score', kwargs: { a: 1 } }
    const base = resolve({})
    expect(requestReward({ ...base, kind: 'function', function: ref })).toEqual({
      function: { path: 'mine.ts', name: 'score', kwargs: { a: 1 } },
    })
    const wraps = resolve({ model: 'rm' })
    const own = { ...ref, name: null, kwargs: {} }
    expect(
      requestReward({ ...base, kind: 'function', manager: 'module', function: own, wraps }),
    ).toEqual({ manager: { path: 'mine.ts' }, model: 'rm' })
  })
})

describe('reward entered as JSON', () => {
  it('is parsed, or refused with a message', () => {
    expect(readReward('{"model": "rm"}')).toEqual({ reward: { model: 'rm' } })
    expect(readReward(rewardText({ kwargs: { a: 1 } }))).toEqual({ reward: { kwargs: { a: 1 } } })
    for (const text of ['', '  ', '{', '[]', '"rm"', 'null'])
      expect(readReward(text)).toEqual({ error: expect.stringMatching(/\w/) })
  })
})
