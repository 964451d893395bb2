import { describe, expect, test } from 'vitest'
import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import { gdpoManager } from './gdpo.ts'
import type { RewardContext } from './manager.ts'

const gdpo = { keys: ['accuracy', 'format'], weights: [1, 0.5] }
const sample = {
  dataSource: 'ours',
  prompt: 'Q',
  solutionStr: 'A',
  groundTruth: '1',
  extraInfo: { index: 4 },
}

function run(extra: Record<string, unknown> | null, seen: unknown[] = []) {
  const reward = { kind: 'model', model: 'rm', manager: 'gdpo', kwargs: {}, gdpo }
  const router = {
    score: async ({ input }: { input: unknown }) => {
      seen.push(input)
      return { ok: true, score: 0.75, extra, promptTokens: null, attempts: [] }
    },
  }
  const context = { reward, router, run: 'tools-3b' } as unknown as RewardContext
  return gdpoManager.run(sample, context)
}

describe('gdpo, as in verl', () => {
  test('the score is the scorer’s, and the dimensions are in the extra info', async () => {
    const extra = { accuracy: 0.5, format: 1, think: 'yes' }
    expect(await run(extra)).toMatchObject({ ok: true, score: 0.75, extra })
  })

  test('the scorer gets the run’s name in the extra info, the sample stays unchanged', async () => {
    const seen: unknown[] = []
    await run({ accuracy: 0, format: 0 }, seen)
    expect(seen).toMatchObject([{ extraInfo: { index: 4, experiment_name: 'tools-3b' } }])
    expect(sample.extraInfo).toEqual({ index: 4 })
  })

  test('True counts as 1', async () => {
    expect(await run({ accuracy: true, format: false })).toMatchObject({ ok: true })
  })

  test.each([
    [
      { accuracy: 1 },
      'function_error',
      'dimension "format" is missing: the extra info has accuracy',
    ],
    [{ accuracy: 1, format: null }, 'non_finite', 'dimension "format" is null'],
    [null, 'function_error', 'dimension "accuracy" is missing: the extra info has no keys'],
    [{ accuracy: '1', format: 1 }, 'function_error', 'dimension "accuracy" is not a number: "1"'],
    [{ accuracy: Number.NaN, format: 1 }, 'non_finite', 'dimension "accuracy" is NaN'],
  ])('%j fails with the name of the dimension', async (extra, reason, detail) => {
    expect(await run(extra)).toMatchObject({
      ok: false,
      reason,
      detail: expect.stringContaining(detail),
    })
  })

  test('rules have dimensions too', () => {
    const reward = {
      kwargs: {},
      gdpo: { keys: ['acc'], weights: [1] },
    } as unknown as ResolvedReward
    const of = { ...sample, dataSource: 'openai/gsm8k', solutionStr: '#### 1' }
    expect(gdpoManager.runRule(of, reward)).toMatchObject({ ok: true, score: 1, extra: { acc: 1 } })
    const other = { ...reward, gdpo: { keys: ['form'], weights: [1] } }
    expect(gdpoManager.runRule(of, other)).toMatchObject({ ok: false, reason: 'function_error' })
  })
})
