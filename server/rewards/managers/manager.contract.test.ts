import { describe, expect, test } from 'vitest'
import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import { SAMPLE_FAILURE_REASONS } from '../../contract/sample-reason.ts'
import type { RouterResult, ScoreRequest } from '../../router/router-types.ts'
import { localCallLimits } from '../limits/call-limits.ts'
import { readLimits } from '../limits/limit-settings.ts'
import { scoreByRule } from '../scoring/by-rule.ts'
import type { RewardContext, RewardSample } from './manager.ts'
import { managerNamed, managerNames } from './registry.ts'

const OF_MANAGER: Record<string, Partial<ResolvedReward>> = {
  dapo: {
    kwargs: { max_resp_len: 100, overlong_buffer_cfg: { enable: true, len: 10, log: true } },
  },
  gdpo: { gdpo: { keys: ['acc'], weights: [1] } },
  rate_limited: {
    limiter: { name: 'contract', limits: readLimits({ max_concurrent: 4, timeout: 5 }) },
  },
}
const OWN_KEYS = ['overlong_reward', 'overlong', 'rate_limit']

const attempt = {
  serverId: 1,
  serverName: 'rm-0',
  attempt: 1,
  startedAtMs: 1,
  queueMs: 0,
  backoffMs: 0,
  serviceMs: 1,
  outcome: 'ok' as const,
  reason: null,
  status: 200,
  detail: null,
}

type Answer = (request: ScoreRequest) => Promise<RouterResult> | RouterResult

const scored = (score: number, extra: Record<string, unknown> = { acc: score }): RouterResult => ({
  ok: true,
  score,
  serverId: 1,
  promptTokens: 7,
  extra,
  attempts: [attempt],
})

const sample = (fields: Partial<RewardSample> = {}): RewardSample => ({
  dataSource: 'openai/gsm8k',
  prompt: 'What is 6 × 12?',
  solutionStr: '#### 72',
  groundTruth: '72',
  extraInfo: { index: 3 },
  responseLength: 5,
  ...fields,
})

const model: Partial<ResolvedReward> = { kind: 'model', model: 'rm' }
const rule: Partial<ResolvedReward> = { kind: 'service' }

describe.each(managerNames())('manager %s', (name) => {
  const manager = managerNamed(name)
  const rewardOf = (fields: Partial<ResolvedReward>): ResolvedReward => ({
    kind: 'rule',
    manager: name,
    model: null,
    kwargs: {},
    timeoutMs: 5_000,
    maxAttempts: 1,
    maxConcurrency: null,
    onFailure: { policy: 'null' },
    ...OF_MANAGER[name],
    ...fields,
  })
  const limits = localCallLimits()

  function run(
    fields: Partial<ResolvedReward>,
    of: Partial<RewardSample> = {},
    answer: Answer = () => expect.unreachable(),
    signal?: AbortSignal,
  ) {
    const context: RewardContext = {
      reward: rewardOf(fields),
      router: { score: async (request: ScoreRequest) => answer(request) } as never,
      // The manager `remote` scores by the same rule, in a child process.
      functions: {
        scoreByRule: async (one: RewardSample, by: ResolvedReward) => scoreByRule(one, by),
      } as never,
      limits,
      sandboxes: {} as never,
      signal,
      urgent: false,
      run: 'contract',
      group: undefined,
      key: '0',
      priority: 0,
      deadlineMs: undefined,
    }
    return manager.run(sample(of), context)
  }

  test('returns the result of the scorer, its calls and its tokens', async () => {
    const outcome = await run(model, {}, () => scored(0.25))
    expect(outcome).toMatchObject({ ok: true, score: 0.25, attempts: [attempt], tokens: 7 })
    expect(await run(rule)).toMatchObject({ ok: true, score: 1, attempts: null })
  })

  test('passes the extra info on and adds only its own keys', async () => {
    const extra = { acc: 1, format: 0, nested: { a: [1, null] }, ключ: 'знач' }
    const outcome = await run(model, {}, () => scored(1, extra))
    expect(outcome).toMatchObject({ ok: true, extra })
    const added = outcome.ok ? Object.keys(outcome.extra ?? {}) : []
    expect(added.filter((key) => !OWN_KEYS.includes(key)).sort()).toEqual(Object.keys(extra).sort())
  })

  test('passes the sample to the scorer unchanged', async () => {
    const extraInfo = Object.freeze({ index: 3, nested: Object.freeze({ a: 1 }) })
    let sent: ScoreRequest | undefined
    await run(model, { extraInfo }, (request) => {
      sent = request
      return scored(1)
    })
    expect(sent).toMatchObject({ model: 'rm', maxAttempts: 1, timeoutMs: 5_000, run: 'contract' })
    expect(sent?.input).toMatchObject({ response: '#### 72', groundTruth: '72', extraInfo })
    expect(extraInfo).toEqual({ index: 3, nested: { a: 1 } })
  })

  test.each(SAMPLE_FAILURE_REASONS)('a failure with the reason %s has no score', async (reason) => {
    const outcome = await run(model, {}, () => ({
      ok: false,
      reason,
      detail: 'why',
      attempts: [{ ...attempt, outcome: 'fault', reason }],
    }))
    expect(outcome).toMatchObject({ ok: false, reason, detail: 'why', attempts: [{ reason }] })
    expect(outcome).not.toHaveProperty('score')
  })

  test('a scorer that throws fails its sample alone', async () => {
    const outcome = await run(model, {}, () => {
      throw new Error('a mistake')
    })
    expect(outcome).toMatchObject({ ok: false, reason: 'function_error', detail: 'a mistake' })
  })

  test('a score that is not finite is non_finite', async () => {
    const component = {
      name: 'acc',
      weight: 1e300,
      reward: rewardOf({ ...model, manager: 'naive' }),
    }
    const outcome = await run({ kind: 'combine', components: [component] }, {}, () => scored(1e300))
    expect(outcome).toMatchObject({ ok: false, reason: 'non_finite' })
  })

  test('an abort ends the call, and the sample fails as cancelled', async () => {
    const abort = new AbortController()
    const ended: RouterResult = {
      ok: false,
      reason: 'cancelled',
      detail: 'on purpose',
      attempts: [],
    }
    const outcome = run(
      model,
      {},
      ({ signal }) =>
        new Promise((resolve) => {
          signal?.addEventListener('abort', () => resolve(ended))
          setImmediate(() => abort.abort())
        }),
      abort.signal,
    )
    expect(await outcome).toMatchObject({ ok: false, reason: 'cancelled' })
  })

  test('an empty response is scored', async () => {
    const of = { solutionStr: '', responseLength: 0 }
    expect(await run(rule, of)).toMatchObject({ ok: true, score: 0, extra: { acc: 0 } })
    expect(await run(model, of, () => scored(-3))).toMatchObject({ ok: true, score: -3 })
  })

  test('samples of different data sources have different extra info keys', async () => {
    const gsm8k = await run(rule)
    const dapo = await run(rule, { dataSource: 'math_dapo', solutionStr: 'Answer: 72' })
    expect(gsm8k).toMatchObject({ ok: true, extra: { acc: 1 } })
    expect(gsm8k.ok && gsm8k.extra).not.toHaveProperty('pred')
    expect(dapo).toMatchObject({ ok: true, extra: { score: 1, acc: true, pred: '72' } })
  })

  test('a ground truth of null fails the sample if the rule compares with it', async () => {
    expect(await run(rule, { groundTruth: null })).toMatchObject({
      ok: false,
      reason: 'function_error',
      detail: expect.stringContaining('groundTruth is missing'),
    })
    expect(await run(model, { groundTruth: null }, () => scored(1, { acc: 1 }))).toMatchObject({
      ok: true,
    })
  })

  test('rules score the same in the synchronous path', async () => {
    const { limiter: _, ...fields } = rewardOf({ kind: 'rule' })
    const reward = fields as ResolvedReward
    const waiting = await run(rule)
    expect(manager.runRule(sample(), reward)).toMatchObject({ ok: true, score: 1 })
    expect(waiting).toMatchObject({ ok: true, score: 1 })
    expect(manager.runRule(sample({ groundTruth: null }), reward).ok).toBe(false)
  })
})
