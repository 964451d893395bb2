import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Sample, type Submit, sample } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { stopCleanly } from '../../testkit/service/service-with-model.ts'
import type { BatchSummary, NextResult, ResultsColumns, SubmitResult } from '../contract/trainer.ts'

/** The effect of a failed sample on its score, group and batch by `reward.onFailure`. */

let service: Service

beforeAll(async () => {
  service = await Service.start()
})

afterAll(() => stopCleanly(service))

const right = (uid: string) => sample({ uid })
const wrong = (uid: string) => sample({ uid, response: 'About 70, I think.\n#### 70' })
/** A sample whose ground truth the rule cannot read. */
const broken = (uid: string) => sample({ uid, groundTruth: { not: 'text' } })

function submit(samples: Sample[], policy: string, fields: Partial<Submit> = {}) {
  return service.mutate<SubmitResult>('batches.submit', {
    run: 'policies',
    step: 1,
    samples,
    reward: { onFailure: { policy } },
    ...fields,
  })
}
const wait = (batchId: string) =>
  service.query<BatchSummary>('batches.wait', { batchId, waitMs: 60_000 })
const results = (batchId: string) => service.query<ResultsColumns>('batches.results', { batchId })
const groups = async (batchId: string) =>
  (await service.query<NextResult>('batches.next', { batchId, after: null, samples: 1_000 })).groups

describe('group_mean', () => {
  it('gives a failed member its group’s mean, marked; statistics and other groups know nothing of it', async () => {
    const { batchId } = await submit(
      [right('a'), wrong('a'), broken('a'), right('b'), right('b'), broken('c')],
      'group_mean',
    )
    expect(await wait(batchId)).toMatchObject({
      status: 'completed',
      scored: 4,
      failed: 2,
      mean: 0.75,
    })
    const { score, rawScore, substituted, reason, status } = await results(batchId)
    expect(score).toEqual([1, 0, 0.5, 1, 1, null])
    expect(rawScore).toEqual([1, 0, null, 1, 1, null])
    expect(substituted).toEqual([false, false, true, false, false, false])
    expect(status.map((s) => s === 'failed')).toEqual([false, false, true, false, false, true])
    expect(reason[2]).toBe('function_error')
    const [a] = (await groups(batchId)).filter(({ uid }) => uid === 'a')
    expect(a).toMatchObject({ mean: 0.5 })
    expect(a?.samples[2]).toMatchObject({ score: 0.5, substituted: true, status: 'failed' })
  })

  it('for groups that arrive by append, one sample at a time', async () => {
    const { batchId } = await submit([], 'group_mean', { open: true, groupSize: 2 })
    const append = (startIndex: number, s: Sample) =>
      service.mutate('batches.append', { batchId, startIndex, samples: [s] })
    await append(0, broken('a'))
    await append(1, right('a'))
    await service.mutate('batches.close', { batchId })
    expect(await wait(batchId)).toMatchObject({ status: 'completed', scored: 1, failed: 1 })
    expect((await results(batchId)).score).toEqual([1, 1])
  })
})

describe('drop_group', () => {
  it('removes all scores of a group with a failed member, and still delivers it, marked', async () => {
    const { batchId } = await submit(
      [right('a'), wrong('a'), broken('a'), right('b'), wrong('b')],
      'drop_group',
    )
    expect(await wait(batchId)).toMatchObject({
      status: 'completed',
      mean: 0.5,
      groupsCompleted: 2,
    })
    const { score, rawScore, substituted } = await results(batchId)
    expect(score).toEqual([null, null, null, 1, 0])
    expect(rawScore).toEqual([1, 0, null, 1, 0])
    expect(substituted).toEqual([true, true, false, false, false])
    const [a] = (await groups(batchId)).filter(({ uid }) => uid === 'a')
    expect(a).toMatchObject({ mean: null, std: null })
    expect(a?.samples).toHaveLength(3)
  })
})

describe('fail_batch', () => {
  it('ends the batch as failed with its first failed sample; every sample ends, every group is delivered', async () => {
    const samples = Array.from({ length: 400 }, (_, i) => right(`g${i >> 3}`))
    samples[0] = broken('g0')
    const { batchId } = await submit(samples, 'fail_batch', { open: true })
    await expect
      .poll(async () => (await service.query<BatchSummary>('batches.get', { batchId })).status)
      .toBe('failed')
    const end = await wait(batchId)
    expect(end.scored + end.failed).toBe(400)
    expect(end).toMatchObject({
      status: 'failed',
      groupsCompleted: 50,
      completedAt: expect.any(String),
    })
    const { reason } = await results(batchId)
    expect(reason[0]).toBe('function_error')
    expect(new Set(reason.slice(1))).toEqual(
      new Set(end.failed > 1 ? (end.scored > 0 ? [null, 'cancelled'] : ['cancelled']) : [null]),
    )
    const more = service.mutate('batches.append', {
      batchId,
      startIndex: 400,
      samples: [right('x')],
    })
    await expect(more).rejects.toMatchObject({ data: { reason: 'batch_closed' } })
  })

  it('is nothing to a batch without a failure', async () => {
    const { batchId } = await submit([right('a'), wrong('a')], 'fail_batch')
    expect(await wait(batchId)).toMatchObject({ status: 'completed', scored: 2 })
  })
})
