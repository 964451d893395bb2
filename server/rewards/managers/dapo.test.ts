import { describe, expect, test } from 'vitest'
import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import type { RewardRouter } from '../../router/router-types.ts'
import { dapoManager } from './dapo.ts'
import type { RewardContext } from './manager.ts'
import { takeManagerKwargs } from './manager-kwargs.ts'
import { managerNames } from './registry.ts'

const buffer = { enable: true, len: 4096, penalty_factor: 1, log: true }

function reward(kwargs: Record<string, unknown>): ResolvedReward {
  return {
    kind: 'rule',
    manager: 'dapo',
    model: null,
    kwargs,
    timeoutMs: 300_000,
    maxAttempts: 4,
    maxConcurrency: null,
    onFailure: { policy: 'null' },
  }
}

function sample(responseLength?: number | null) {
  return {
    dataSource: 'math_dapo',
    prompt: 'What is 6 × 7?',
    solutionStr: 'Answer: 42',
    groundTruth: '42',
    extraInfo: {},
    ...(responseLength === undefined ? {} : { responseLength }),
  }
}

const run = (kwargs: Record<string, unknown>, responseLength?: number | null) =>
  dapoManager.runRule(sample(responseLength), reward(kwargs))

describe('dapo, as in verl', () => {
  test.each([
    [16_384, 1],
    [16_385, 1 - 0.000244140625],
    [18_432, 0.5],
    [20_480, 0],
    // As in verl, the penalty does not stop at −factor. Here it is −2, so a reward of 1 becomes −1.
    [24_576, -1],
  ])('%i tokens score %d', (responseLength, score) => {
    const kwargs = { max_resp_len: 20_480, overlong_buffer_cfg: buffer }
    expect(run(kwargs, responseLength)).toMatchObject({ ok: true, score, rawScore: 1 })
  })

  test('with clamp the penalty stops at −factor, as in the paper', () => {
    const clamped = { ...buffer, penalty_factor: 0.5, clamp: true }
    const kwargs = { max_resp_len: 20_480, overlong_buffer_cfg: clamped }
    expect(run(kwargs, 24_576)).toMatchObject({ ok: true, score: 0.5, rawScore: 1 })
    expect(run(kwargs, 18_432)).toMatchObject({ score: 0.75 })
  })

  test('the extra info keeps the score of the rule, and with log the penalty', () => {
    const kwargs = { max_resp_len: 20_480, overlong_buffer_cfg: buffer }
    expect(run(kwargs, 20_480)).toMatchObject({
      extra: { score: 1, acc: true, pred: '42', overlong_reward: -1, overlong: true },
    })
    expect(run(kwargs, 10)).toMatchObject({ extra: { overlong_reward: 0, overlong: false } })
    const quiet = { max_resp_len: 20_480, overlong_buffer_cfg: { ...buffer, log: false } }
    const outcome = run(quiet, 20_480)
    expect(outcome.ok && Object.keys(outcome.extra ?? {})).toEqual(['score', 'acc', 'pred'])
  })

  test('a penalty of −1 (length 4, max_resp_len 4, len 2) turns a score of 0.5 into −0.5', async () => {
    const kwargs = { max_resp_len: 4, overlong_buffer_cfg: { ...buffer, len: 2 } }
    const context = {
      reward: { ...reward(kwargs), kind: 'model', model: 'rm' },
      router: {
        score: async () => ({
          ok: true,
          score: 0.5,
          serverId: 1,
          promptTokens: null,
          attempts: [],
        }),
      } as unknown as RewardRouter,
    } as RewardContext
    expect(await dapoManager.run(sample(4), context)).toMatchObject({
      ok: true,
      score: -0.5,
      rawScore: 0.5,
    })
  })

  test('without a length the sample fails, and no server is called', async () => {
    const kwargs = { max_resp_len: 20_480, overlong_buffer_cfg: buffer }
    expect(run(kwargs)).toMatchObject({ ok: false, reason: 'function_error' })
    expect(run(kwargs, null)).toMatchObject({ ok: false, reason: 'function_error' })
    const router = { score: () => expect.unreachable() } as unknown as RewardRouter
    const context = { reward: reward(kwargs), router } as RewardContext
    expect(await dapoManager.run(sample(), context)).toMatchObject({ ok: false })
  })

  test('a sample that failed keeps its reason and gets no penalty', () => {
    const kwargs = { max_resp_len: 20_480, overlong_buffer_cfg: buffer }
    const outcome = dapoManager.runRule({ ...sample(24_576), groundTruth: null }, reward(kwargs))
    expect(outcome).toMatchObject({ ok: false, reason: 'function_error' })
  })
})

describe('the kwargs of dapo', () => {
  const taken = (kwargs: Record<string, unknown>) => takeManagerKwargs('dapo', kwargs)

  test('are taken by the manager, other kwargs are left to the rules', () => {
    const kwargs = { max_resp_len: 20_480, overlong_buffer_cfg: buffer, version: '2026-08' }
    expect(taken(kwargs)).toMatchObject({ ok: true, rest: { version: '2026-08' } })
    expect(takeManagerKwargs('naive', kwargs)).toMatchObject({ ok: true, rest: kwargs })
    expect(managerNames()).toContain('dapo')
  })

  test('need no max_resp_len if the buffer is disabled or absent', () => {
    expect(taken({}).ok).toBe(true)
    expect(taken({ overlong_buffer_cfg: null }).ok).toBe(true)
    expect(taken({ overlong_buffer_cfg: { enable: false } }).ok).toBe(true)
    expect(taken({ overlong_buffer_cfg: { enable: false, len: 0 }, max_resp_len: null }).ok).toBe(
      true,
    )
    expect(run({}, 1_000_000)).toMatchObject({ ok: true, score: 1 })
  })

  test.each([
    [{ overlong_buffer_cfg: buffer }, /"max_resp_len" is missing/],
    [{ max_resp_len: 4095, overlong_buffer_cfg: buffer }, /larger than max_resp_len/],
    [{ max_resp_len: 10, overlong_buffer_cfg: { ...buffer, len: 0 } }, /must be above 0/],
    [
      { max_resp_len: 10, overlong_buffer_cfg: { ...buffer, penalty_facor: 1 } },
      /did you mean "penalty_factor"/,
    ],
    [{ max_resp_len: 10, overlong_buffer_cfg: { len: 4 } }, /overlong_buffer_cfg\.enable/],
    [{ max_resp_len: '20480', overlong_buffer_cfg: buffer }, /"max_resp_len" of manager dapo/],
    [{ max_resp_len: 10, overlong_buffer_cfg: { ...buffer, penalty_factor: -1 } }, /penalty_facto/],
  ])('%j is refused', (kwargs, message) => {
    const checked = taken(kwargs)
    expect(checked.ok ? 'accepted' : checked.message).toMatch(message)
    expect(checked.ok ? '' : checked.hint).not.toBe('')
  })
})
