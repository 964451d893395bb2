import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rollouts, type Sample, type Submit } from '../testing/rollouts.ts'
import { Service } from '../testing/service.ts'
import type { SampleDetailDto } from '../wire/pages.ts'
import type { BatchSummary, ResultsColumns, SubmitResult } from '../wire/trainer.ts'

/** Reward functions of one's own, over a real service: its workers, their child processes, its tables. */

const folder = mkdtempSync(join(tmpdir(), 'rewardops-own-'))
let service: Service

beforeAll(async () => {
  service = await Service.start({
    env: { REWARDOPS_FUNCTIONS_DIR: folder, REWARDOPS_FUNCTION_MEMORY_MB: '256' },
  })
})

afterAll(async () => {
  const problems = service?.log.problems()
  await service?.stop().finally(() => service.destroy())
  rmSync(folder, { recursive: true, force: true })
  expect(problems).toEqual([])
})

function file(path: string, text: string): string {
  mkdirSync(dirname(join(folder, path)), { recursive: true })
  writeFileSync(join(folder, path), text)
  return path
}

const submit = (reward: Submit['reward'], samples: Sample[] = rollouts(16)) =>
  service.mutate<SubmitResult>('batches.submit', { run: 'own', step: 1, samples, reward })
const wait = (batchId: string) =>
  service.query<BatchSummary>('batches.wait', { batchId, waitMs: 60_000 })
const results = (batchId: string) => service.query<ResultsColumns>('batches.results', { batchId })
const detail = (id: string) => service.query<SampleDetailDto>('samples.get', { id })

describe('a reward function', () => {
  it('scores a batch, by its path, name and kwargs', async () => {
    const path = file(
      'lengths.ts',
      `import { countOf } from './lib/count.ts'
       export async function byLength({ solutionStr, per, data_source }: Record<string, any>) {
         return { score: countOf(solutionStr) / per, data_source }
       }`,
    )
    file('lib/count.ts', 'export const countOf = (text: string): number => text.length')
    const samples = rollouts(16)
    const { batchId } = await submit(
      { function: { path, name: 'byLength', kwargs: { per: 10 } } },
      samples,
    )
    expect(await wait(batchId)).toMatchObject({ status: 'completed', scored: 16 })
    const { score, rewardExtraInfo } = await results(batchId)
    expect(score).toEqual(samples.map(({ response }) => response.length / 10))
    expect(rewardExtraInfo.data_source).toEqual(samples.map(() => 'openai/gsm8k'))
    expect(await detail(`${batchId}-3`)).toMatchObject({ rewardName: 'lengths.ts:byLength' })
  })
})
