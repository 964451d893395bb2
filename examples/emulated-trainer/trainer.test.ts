import { expect, it } from 'vitest'
import { result, startStandIn } from '../../packages/client-typescript/tests/stand-in.ts'
import { readRun } from './options.ts'
import { emulate } from './trainer.ts'

it('the times of an emulated run are unscaled', async () => {
  const service = await startStandIn(({ path }, res) => {
    const page = { groups: [], delivered: 1, cursor: 'c', done: true }
    result(res, path.endsWith('submit') ? { batchId: 'b1' } : page)
  })
  try {
    const emulated = await emulate({
      ...{ url: service.url, model: 'rm', name: 'emulated', run: readRun('barrier@16') },
      ...{ scale: 20, rolloutsOf: () => [] },
      job: {
        ...{ prompts: 1, responses: 1, miniBatches: 1, steps: 1 },
        phases: { rolloutMs: 1_000, logProbMs: 2_000, updateMs: 3_000 },
        rewardMs: { fromMs: 1, toMs: 1 },
      },
    })
    // Timers may fire a millisecond early, which counts as 20.
    expect(emulated.totalMs).toBeGreaterThan(5_900)
    const update = emulated.spans.find(({ what }) => what === 'update')
    expect(update!.toMs - update!.fromMs).toBeGreaterThan(2_950)
  } finally {
    await service.close()
  }
})
