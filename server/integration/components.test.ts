import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rollouts } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { stopCleanly } from '../../testkit/service/service-with-model.ts'
import type { ComponentsDto } from '../contract/rewards.ts'
import type { ResultsColumns, SubmitResult } from '../contract/trainer.ts'

/** Components of composite rewards over the steps of a run. */

let service: Service
beforeAll(async () => {
  service = await Service.start()
})
afterAll(() => stopCleanly(service))

const combine = [
  { name: 'right', weight: 1 },
  { name: 'loose', weight: 0.5, reward: { kwargs: { method: 'flexible', format_score: 0.2 } } },
]
async function scored(run: string, step: number, reward: object, samples = rollouts(8)) {
  const { batchId } = await service.mutate<SubmitResult>('batches.submit', {
    run,
    step,
    samples,
    reward,
  })
  await service.query('batches.wait', { batchId, waitMs: 60_000 })
  return service.query<ResultsColumns>('batches.results', { batchId })
}
const components = (run?: string) =>
  service.query<ComponentsDto>('rewards.components', run === undefined ? {} : { run })
const meanOf = (values: unknown[]) =>
  values.reduce((sum: number, value) => sum + Number(value), 0) / values.length

describe('rewards.components', () => {
  it('has none without composite rewards', async () => {
    await scored('plain', 1, {})
    expect(await components()).toEqual({
      runs: [],
      run: null,
      components: [],
      running: 0,
      pending: 0,
      hasMore: false,
    })
  })

  it('adds up each part over the scored samples of a step, and the reward itself', async () => {
    await scored('summed', 1, { combine })
    const odd = rollouts(8)
    // A failed sample does not count as 0.
    odd[0] = { ...odd[0]!, groundTruth: { not: 'text' } as unknown as string }
    const results = await scored('summed', 3, { combine }, odd)
    const found = await components('summed')
    expect(found).toMatchObject({ runs: ['summed'], run: 'summed', pending: 0, hasMore: false })
    expect(found.components.map(({ name, weight }) => [name, weight])).toEqual([
      ['', null],
      ['right', 1],
      ['loose', 0.5],
    ])
    for (const { name, points } of found.components) {
      expect(points.map(({ step }) => step)).toEqual([1, 3])
      const values = (name === '' ? results.score : results.rewardExtraInfo[name])!
      const there = values.filter((value) => value !== null)
      expect(there).toHaveLength(7)
      expect(points[1]?.mean).toBeCloseTo(meanOf(there), 9)
      expect(points[1]?.n).toBe(7)
    }
    expect(await components()).toEqual(found)
  })

  it('adds up the dimensions of gdpo, true as 1', async () => {
    await scored('dimensions', 1, {
      manager: 'gdpo',
      function: { name: 'math_verify' },
      kwargs: { gdpo_reward_keys: ['score', 'acc'], gdpo_reward_weights: [1, 0.5] },
    })
    const found = await components()
    expect(found.runs).toEqual(['dimensions', 'summed'])
    const [, score, acc] = found.components
    expect(score?.points[0]?.n).toBe(8)
    expect(acc?.points[0]?.mean).toBe(score?.points[0]?.mean)
  })

  it('leaves out an extra info that cannot be decoded, and n tells', async () => {
    await scored('later', 1, { combine })
    await service.sql(
      `update sample set reward_extra = '{"right": 1, "loose": 1, "text": "\\u0000"}'
       where idx = 1 and batch_id = (select max(b.id) from batch b join run r on r.id = b.run_id where r.name = 'later')`,
    )
    const found = await components('later')
    expect(found.components.find(({ name }) => name === 'right')?.points[0]?.n).toBe(7)
  })
})
