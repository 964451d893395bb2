import { describe, expect, test } from 'vitest'
import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import type { RewardContext, RewardOutcome } from '../managers/manager.ts'
import { scoreSample } from './score-sample.ts'

const sample = {
  dataSource: 'openai/gsm8k',
  prompt: 'Q',
  solutionStr: '#### 72',
  groundTruth: '72' as unknown,
  extraInfo: {},
}

const attempt = (serverId: number, startedAtMs: number) => ({
  serverId,
  startedAtMs,
  outcome: 'ok',
})
const failed = (serverId: number, startedAtMs: number, detail: string | null) => ({
  serverId,
  startedAtMs,
  outcome: 'fault',
  detail,
})
const rewardOf = (fields: Partial<ResolvedReward>) =>
  ({
    manager: 'naive',
    model: null,
    kwargs: {},
    timeoutMs: 1_000,
    maxAttempts: 1,
    ...fields,
  }) as ResolvedReward
const byRule = rewardOf({ kind: 'rule', rule: 'gsm8k' })
const byModel = (model: string, fields: Partial<ResolvedReward> = {}) =>
  rewardOf({ kind: 'model', model, ...fields })

interface ModelCall {
  model: string
  timeoutMs: number
  maxAttempts: number
  signal: AbortSignal
}

function run(
  components: NonNullable<ResolvedReward['components']>,
  answers: Record<string, (call: ModelCall) => Promise<object> | object>,
  of: Partial<typeof sample> = {},
  signal?: AbortSignal,
): Promise<RewardOutcome> {
  const router = { score: async (call: ModelCall) => answers[call.model]?.(call) }
  const reward = rewardOf({ kind: 'combine', components })
  const context = { reward, router, signal, key: '1' } as unknown as RewardContext
  return scoreSample({ ...sample, ...of }, context)
}

const ok = (score: number, extra?: object, attempts = [attempt(1, 1)]) => ({
  ok: true,
  score,
  promptTokens: 5,
  attempts,
  ...(extra === undefined ? {} : { extra }),
})
const failing = (reason: string, detail: string, attempts = [failed(9, 2, detail)]) => ({
  ok: false,
  reason,
  detail,
  attempts,
})

describe('a composite reward', () => {
  test('is Σ weight · score, with each component’s score and keys under its name', async () => {
    const components = [
      { name: 'correct', weight: 1, reward: byRule },
      { name: 'rm', weight: 0.5, reward: byModel('a') },
      { name: 'style', weight: -2, reward: byModel('b') },
    ]
    const answers = {
      a: () => ok(-3, { label: 'x' }, [attempt(1, 20)]),
      b: () => ok(0.25, undefined, [attempt(2, 10)]),
    }
    expect(await run(components, answers)).toEqual({
      ok: true,
      score: 1 - 1.5 - 0.5,
      extra: { correct: 1, 'correct/acc': 1, rm: -3, 'rm/label': 'x', style: 0.25 },
      verdict: { verdict: 'equal', extracted: '72' },
      attempts: [attempt(2, 10), attempt(1, 20)],
      tokens: 10,
    })
  })

  test.each([
    [[0.7, 0.2, 0.1], [1, 1, 1], 1],
    [Array(10).fill(0.1), Array(10).fill(1), 1],
    [[1.4, -0.4], [1, 1], 1],
    [[1, -3], [0.3, 0.1], 0],
    [[1e-7, 1], [1e-7, 0], 1e-14],
  ])('has no rounding error: weights %j × scores %j', async (weights, scores, score) => {
    const components = weights.map((weight, at) => ({
      ...{ name: `c${at}`, weight, reward: byModel(`m${at}`) },
    }))
    const answers = Object.fromEntries(scores.map((one, at) => [`m${at}`, () => ok(one)]))
    expect(await run(components, answers)).toMatchObject({ ok: true, score })
  })

  test('has a number of tokens only if each component, except rules, reports its own', async () => {
    const components = [
      { name: 'a', weight: 1, reward: byModel('a') },
      { name: 'b', weight: 1, reward: byModel('b') },
    ]
    const silent = { ...ok(1), promptTokens: null }
    const outcome = await run(components, { a: () => ok(1), b: () => silent })
    expect(outcome).toMatchObject({ ok: true, score: 2 })
    expect(outcome).not.toHaveProperty('tokens')
  })

  test('scores components concurrently, each with its own timeout and attempts', async () => {
    const calls: ModelCall[] = []
    let open = 0
    let mostOpen = 0
    const answer = async (one: ModelCall) => {
      calls.push(one)
      mostOpen = Math.max(mostOpen, ++open)
      await new Promise((resolve) => setImmediate(resolve))
      open--
      return ok(1)
    }
    const components = [
      { name: 'x', weight: 1, reward: byModel('a', { timeoutMs: 50, maxAttempts: 2 }) },
      { name: 'y', weight: 1, reward: byModel('b', { timeoutMs: 70 }) },
    ]
    expect(await run(components, { a: answer, b: answer })).toMatchObject({ ok: true, score: 2 })
    expect(calls).toMatchObject([
      { timeoutMs: 50, maxAttempts: 2 },
      { timeoutMs: 70, maxAttempts: 1 },
    ])
    expect(mostOpen).toBe(2)
  })

  test('fails with the reason and name of a failed component; the others are cancelled and keep their attempts', async () => {
    let cancelled = false
    const components = [
      { name: 'correct', weight: 1, reward: byRule },
      { name: 'slow', weight: 1, reward: byModel('slow') },
      { name: 'rm', weight: 1, reward: byModel('bad') },
    ]
    const answers = {
      slow: ({ signal }: ModelCall) =>
        new Promise<object>((resolve) => {
          signal.addEventListener('abort', () => {
            cancelled = true
            resolve(failing('cancelled', 'the call was ended', [failed(7, 1, 'gone')]))
          })
        }),
      bad: () => failing('rejected', 'server rm-0: 400 no'),
    }
    expect(await run(components, answers)).toEqual({
      ok: false,
      reason: 'rejected',
      detail: 'component "rm": server rm-0: 400 no',
      attempts: [
        failed(7, 1, 'component "slow": gone'),
        failed(9, 2, 'component "rm": server rm-0: 400 no'),
      ],
      components: [
        expect.objectContaining({ ok: true, score: 1 }),
        expect.objectContaining({ reason: 'cancelled', detail: 'another component failed' }),
        expect.objectContaining({ reason: 'rejected', detail: 'server rm-0: 400 no' }),
      ],
    })
    expect(cancelled).toBe(true)
  })

  test('calls no server if a rule fails first', async () => {
    const components = [
      { name: 'rm', weight: 1, reward: byModel('a') },
      { name: 'correct', weight: 1, reward: byRule },
    ]
    const answers = { a: () => expect.unreachable() }
    expect(await run(components, answers, { groundTruth: null })).toMatchObject({
      ok: false,
      reason: 'function_error',
      detail: expect.stringMatching(/^component "correct": groundTruth is missing/),
      attempts: null,
    })
  })

  test('names all components that failed by themselves', async () => {
    const components = [
      { name: 'x', weight: 1, reward: byModel('a') },
      { name: 'y', weight: 1, reward: byModel('b') },
    ]
    const answers = { a: () => failing('timeout', 'late'), b: () => failing('transport', 'gone') }
    expect(await run(components, answers)).toMatchObject({
      reason: 'timeout',
      detail: 'component "x": late; component "y": gone',
    })
  })

  test('is cancelled as a whole', async () => {
    const abort = new AbortController()
    const components = [{ name: 'x', weight: 1, reward: byModel('a') }]
    const answers = {
      a: ({ signal }: ModelCall) =>
        new Promise<object>((resolve) => {
          signal.addEventListener('abort', () => resolve(failing('cancelled', 'ended', [])))
          setImmediate(() => abort.abort())
        }),
    }
    expect(await run(components, answers, {}, abort.signal)).toMatchObject({
      ok: false,
      reason: 'cancelled',
      detail: 'component "x": ended',
    })
  })

  test('fails as non_finite if its score is not finite', async () => {
    const components = [
      { name: 'x', weight: 1e200, reward: byModel('a') },
      { name: 'y', weight: -1e200, reward: byModel('a') },
    ]
    const outcome = await run(components, { a: () => ok(1e200) })
    expect(outcome).toMatchObject({ ok: false, reason: 'non_finite' })
  })

  test('keeps the keys of a component apart from component names', async () => {
    const components = [
      { name: 'x', weight: 1, reward: byModel('a') },
      { name: 'y', weight: 1, reward: byModel('b') },
    ]
    const outcome = await run(components, { a: () => ok(1, { y: 7, score: 2 }), b: () => ok(3) })
    expect(outcome.ok && outcome.extra).toEqual({ x: 1, 'x/y': 7, 'x/score': 2, y: 3 })
  })
})
