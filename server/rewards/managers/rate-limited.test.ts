import { describe, expect, test } from 'vitest'
import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import type { RouterChatResult, RouterResult, ScoreRequest } from '../../router/router-types.ts'
import { BUILTIN_JUDGES } from '../judge/builtin-templates.ts'
import { JudgeTemplate } from '../judge/judge-template.ts'
import { localCallLimits } from '../limits/call-limits.ts'
import { readLimits } from '../limits/limit-settings.ts'
import { TestClock } from '../limits/testing/test-clock.ts'
import type { RewardContext } from './manager.ts'
import { rateLimitedManager } from './rate-limited.ts'

const attempt = (outcome: 'ok' | 'fault' = 'ok') => ({ serverId: 1, startedAtMs: 1, outcome })

function setUp(kwargs: Record<string, unknown>, fields: Partial<ResolvedReward> = {}) {
  const clock = new TestClock()
  const limits = localCallLimits(clock)
  const calls: number[] = []
  let takesMs = 10
  let result: object = { ok: true, score: 1, promptTokens: null, attempts: [attempt()] }
  const signals: AbortSignal[] = []
  const answer = async (request: Pick<ScoreRequest, 'signal'>): Promise<never> => {
    calls.push(Math.round(clock.nowMs()))
    const { signal } = request
    if (signal) signals.push(signal)
    const aborted = new Promise((resolve) => signal?.addEventListener('abort', resolve))
    await Promise.race([clock.sleep(takesMs), aborted])
    const cancelled = { ok: false, reason: 'cancelled', detail: '', attempts: [attempt('fault')] }
    return (signal?.aborted ? cancelled : result) as never
  }
  const reward: ResolvedReward = {
    kind: 'model',
    manager: 'rate_limited',
    model: 'rm',
    kwargs: {},
    timeoutMs: 300_000,
    maxAttempts: 4,
    maxConcurrency: null,
    onFailure: { policy: 'null' },
    limiter: { name: 'model:rm', limits: readLimits(kwargs) },
    ...fields,
  }
  const score = (more: Partial<RewardContext> = {}) =>
    rateLimitedManager.run(
      {
        dataSource: 'openai/gsm8k',
        prompt: 'Q',
        solutionStr: '#### 1',
        groundTruth: '1',
        extraInfo: {},
      },
      {
        reward,
        router: { score: answer, chat: answer } as never,
        functions: {} as never,
        limits,
        sandboxes: {} as never,
        signal: undefined,
        urgent: false,
        run: 'r',
        group: undefined,
        key: 'k',
        priority: 0,
        deadlineMs: undefined,
        ...more,
      },
    )
  return {
    clock,
    calls,
    score,
    signals,
    all: (n: number) => clock.until(Promise.all(Array.from({ length: n }, () => score()))),
    async inTurn(n: number) {
      for (let at = 0; at < n; at++) await clock.until(score())
    },
    answers: (with_: Partial<RouterResult> | Partial<RouterChatResult>, afterMs = 10) => {
      result = { ...result, ...with_ }
      takesMs = afterMs
    },
  }
}

describe('the waiting time', () => {
  test('is in the extra info by cause, and in waitedMs', async () => {
    const { all, calls } = setUp({ max_concurrent: 1, max_rpm: 60 })
    const outcomes = await all(3)
    expect(calls).toEqual([0, 1_000, 2_000])
    expect(outcomes.map((outcome) => outcome.ok && outcome.extra?.rate_limit)).toEqual([
      { slotMs: 0, rpmMs: 0, tpmMs: 0 },
      { slotMs: 10, rpmMs: 990, tpmMs: 0 },
      { slotMs: 20, rpmMs: 1_980, tpmMs: 0 },
    ])
    expect(outcomes.map(({ waitedMs }) => Math.round(waitedMs ?? -1))).toEqual([0, 1_000, 2_000])
  })

  test('reduces the remaining time of a deadline', async () => {
    const { clock, score } = setUp({ max_rpm: 60 })
    const left: (number | undefined)[] = []
    const router = {
      score: async ({ deadlineMs }: ScoreRequest) => {
        left.push(deadlineMs)
        return { ok: true, score: 1, promptTokens: null, attempts: [attempt()] }
      },
    } as never
    const run = (deadlineMs?: number) => score({ deadlineMs, router })
    await clock.until(Promise.all([run(5_000), run(5_000), run()]))
    expect(left.map((ms) => ms && Math.round(ms))).toEqual([5_000, 4_000, undefined])
  })
})

describe('the timeout of a call', () => {
  test('aborts the call and fails the sample, which keeps its attempts and has no score', async () => {
    const { clock, score, answers, signals } = setUp({ timeout: 0.5 })
    answers({}, 2_000)
    const outcome = await clock.until(score())
    expect(outcome).toMatchObject({
      ok: false,
      reason: 'timeout',
      detail: 'took longer than 500 ms',
      attempts: [{ outcome: 'fault' }],
    })
    expect(outcome).not.toHaveProperty('score')
    expect(signals[0]?.aborted).toBe(true)
  })

  test('does not end a call that takes less', async () => {
    const { clock, score, answers } = setUp({ timeout: 5 })
    await clock.until(score())
    answers({}, 2_000)
    expect(await clock.until(score())).toMatchObject({ ok: true })
  })
})

describe('actual usage', () => {
  test('the tokens of a model correct the estimate', async () => {
    const kwargs = { max_concurrent: 9, max_tpm: 60_000, estimated_tokens_per_request: 1_000 }
    const { inTurn, calls, answers } = setUp(kwargs)
    answers({ promptTokens: 500 }, 0)
    await inTurn(4)
    expect(calls).toEqual([0, 500, 1_000, 1_500])
  })

  test('the tokens of a judge are those of all votes, and each vote is a request', async () => {
    const judge = JudgeTemplate.parse({
      ...BUILTIN_JUDGES.get('rating-1-10'),
      sampling: { temperature: 1 },
      votes: { k: 3 },
    })
    const kwargs = { max_concurrent: 9, max_rpm: 60, burst_seconds: 3, max_tpm: 600_000 }
    const { inTurn, calls, answers } = setUp(kwargs, { judge })
    answers(
      {
        reply: {
          content: '[[7]]',
          reasoning: null,
          logprobs: null,
          promptTokens: 90,
          completionTokens: 10,
        },
      } as never,
      0,
    )
    await inTurn(3)
    // Each sample takes three of the 60 requests a minute.
    expect(calls).toEqual([0, 0, 0, 3_000, 3_000, 3_000, 6_000, 6_000, 6_000])
  })

  test('retries count as requests, and a sample without a request returns its reservation', async () => {
    const { inTurn, calls, answers } = setUp({ max_rpm: 60 })
    answers({ attempts: [attempt(), attempt(), attempt()] as never }, 0)
    await inTurn(2)
    expect(calls).toEqual([0, 3_000])
    const none = setUp({ max_rpm: 60 })
    none.answers({ attempts: [] }, 0)
    await none.inTurn(3)
    expect(none.calls).toEqual([0, 0, 0])
  })
})

describe('limits', () => {
  test('apply to rules and models', async () => {
    const { clock, score } = setUp({ max_rpm: 60 }, { kind: 'service', model: null })
    const outcomes = await clock.until(Promise.all([score(), score()]))
    expect(outcomes).toMatchObject([{ score: 1 }, { score: 1, waitedMs: 1_000 }])
  })

  test('never let a rule run in the synchronous path', () => {
    const limiter = { name: 'x', limits: readLimits({}) }
    const reward = { manager: 'rate_limited', kwargs: {}, limiter } as unknown as ResolvedReward
    expect(rateLimitedManager.runRule({} as never, reward)).toMatchObject({
      ok: false,
      reason: 'function_error',
    })
  })

  test('that cannot be determined fail the sample', async () => {
    const { score } = setUp({})
    const limits = { clock: new TestClock(), gate: () => Promise.reject(new Error('no database')) }
    expect(await score({ limits })).toMatchObject({
      ok: false,
      reason: 'function_error',
      detail: 'limiter "model:rm": no database',
    })
  })
})
