import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { rollouts } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { stopCleanly } from '../../testkit/service/service-with-model.ts'
import type { BatchSummary } from '../contract/trainer.ts'

const folder = mkdtempSync(join(tmpdir(), 'rewardops-waiting-'))
const SAMPLES = 5_000
const WAIT_MS = 40_000
let service: Service

beforeAll(async () => {
  service = await Service.start({ env: { REWARDOPS_FUNCTIONS_DIR: folder } })
})

afterAll(() => stopCleanly(service, () => rmSync(folder, { recursive: true, force: true })))

it('5,000 rewards of 40 s wait concurrently', async () => {
  writeFileSync(
    join(folder, 'waiting.ts'),
    `export default async () => {
       const begun = Date.now()
       await new Promise((done) => setTimeout(done, ${WAIT_MS}))
       return { score: 1, begun, ended: Date.now() }
     }`,
  )
  const { batchId } = await service.api.batches.submit.mutate({
    run: 'waiting',
    step: 1,
    samples: rollouts(SAMPLES),
    reward: { function: { path: 'waiting.ts' } },
  })
  let summary: BatchSummary
  do {
    summary = await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
  } while (summary.status === 'running')
  expect(summary).toMatchObject({ status: 'completed', scored: SAMPLES, failed: 0 })
  const { rewardExtraInfo } = await service.api.batches.results.query({ batchId })
  const lastBegun = Math.max(...(rewardExtraInfo.begun as number[]))
  const firstEnded = Math.min(...(rewardExtraInfo.ended as number[]))
  expect(lastBegun).toBeLessThan(firstEnded)
}, 300_000)
