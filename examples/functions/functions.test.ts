import { readFileSync } from 'node:fs'
import { afterAll, expect, it } from 'vitest'
import { sampleOf, testPool } from '../../server/rewards/functions/testing/test-pool.ts'
import type { RewardRouter } from '../../server/router/router-types.ts'

// The examples run in function processes, as in a worker.
const one = testPool({
  router: {
    models: () => [{ model: 'my-judge' }],
    chat: async () => ({ ok: true, reply: { content: 'Close. [[7]]' }, attempts: [] }),
  } as unknown as RewardRouter,
})
afterAll(() => one.close())

const options = { timeoutMs: 20_000, signal: undefined, run: 'run', sampleId: 'b1-0' }
const refOf = (path: string, kwargs: Record<string, unknown>) =>
  one.ref(readFileSync(new URL(path, import.meta.url), 'utf8'), { path, kwargs })

it('length_penalty.ts subtracts 0.001 for each token beyond the budget', async () => {
  const ref = refOf('length_penalty.ts', { budget: 512 })
  const score = (text: string, responseLength: number) =>
    one.pool.score(ref, sampleOf(text, { responseLength }), {}, options)
  expect(await score('#### 42', 100)).toMatchObject({ ok: true, score: 1, extra: { acc: true } })
  expect(await score('#### 42', 612)).toMatchObject({ score: 0.9, extra: { tokens_beyond: 100 } })
  expect(await score('no answer', 512)).toMatchObject({ score: 0, extra: { pred: null } })
})

it('rule_then_judge.ts calls a judge only if the boxed answer does not equal the ground truth', async () => {
  const ref = refOf('rule_then_judge.ts', { model: 'my-judge' })
  const score = (text: string) => one.pool.score(ref, sampleOf(text), {}, options)
  expect(await score('so \\boxed{42}')).toMatchObject({ score: 1, extra: { by: 'rule' } })
  expect(await score('forty-two')).toMatchObject({
    score: 6 / 9,
    extra: { by: 'judge', rating: '7' },
  })
})
