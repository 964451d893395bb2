import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  gradedProblems,
  hasGradedProblems,
  type Sample,
  type Submit,
  sample,
  shuffled,
} from '../../testkit/service/rollouts.ts'
import type { Service } from '../../testkit/service/service.ts'
import { leaveShared, sharedService } from '../../testkit/service/service-with-model.ts'
import { runningEmbeddedUrl } from '../store/postgres/embedded.ts'

let service: Service

beforeAll(async () => {
  ;({ service } = await sharedService())
})

afterAll(() => leaveShared(service))

function submit(samples: Sample[], fields: Partial<Submit> = {}) {
  return service.api.batches.submit.mutate({ run: 'groups', step: 1, samples, ...fields })
}
const wait = (batchId: string) => service.api.batches.wait.query({ batchId, waitMs: 60_000 })
const results = (batchId: string, page: { offset?: number; limit?: number } = {}) =>
  service.api.batches.results.query({ batchId, ...page })
const delivered = async (batchId: string) =>
  (await service.api.batches.next.query({ batchId, after: null, samples: 100_000 })).groups
const given = (uid: string, score: number) => sample({ uid, score })
/** A sample that fails: the rule cannot read its ground truth. */
const broken = (uid: string) => sample({ uid, groundTruth: { not: 'text' } })

interface StoredGroup {
  uid: string
  scored: number
  substituted: number
  mean: number | null
  std: number | null
  min: number | null
  max: number | null
  signal: string
  advantages: (number | null)[]
}

async function stored(batchId: string): Promise<StoredGroup[]> {
  const id = Number(batchId.slice(1))
  await expect
    .poll(async () => (await service.sql('select group_signals from batch where id = $1', [id]))[0])
    .toMatchObject({ group_signals: expect.anything() })
  return service.sql<StoredGroup>(
    `select uid, scored, substituted, mean, std, min, max, signal, advantages from sample_group
     where batch_id = $1 order by no`,
    [id],
  )
}

function expectClose(got: readonly (number | null)[], wanted: readonly (number | null)[]): void {
  expect(got.map((a) => a === null)).toEqual(wanted.map((a) => a === null))
  const off = got.map((a, at) => Math.abs((a ?? 0) - (wanted[at] ?? 0)))
  expect(Math.max(0, ...off)).toBeLessThanOrEqual(1e-6)
}

describe('advantages', () => {
  it('leave a failed member out: in batches.next, batches.results, samples.get and in the stored rows', async () => {
    const { batchId } = await submit([given('a', 1), given('a', 3), given('a', 2), broken('a')])
    await wait(batchId)
    const wanted = [-1, 1, 0, null]
    expectClose((await results(batchId)).advantage, wanted)
    const [group] = await delivered(batchId)
    expect(group).toMatchObject({ mean: 2, std: 1, signal: 'varied' })
    expectClose(
      group!.samples.map((s) => s.advantage),
      wanted,
    )
    const [row] = await stored(batchId)
    expect(row).toMatchObject({ scored: 3, substituted: 0, min: 1, max: 3, signal: 'varied' })
    expectClose(row!.advantages, wanted)
    expectClose((await results(batchId)).advantage, wanted)
    const detail = await service.api.samples.get.query({ id: `${batchId}-0` })
    expect(detail.groupSignal).toBe('varied')
    expectClose([detail.advantage], [-1])
  })

  it.each([
    ['group_mean', { policy: 'group_mean' }, [-1, 1, 0, 0]],
    ['constant', { policy: 'constant', value: -5 }, [-1, 1, 0, null]],
    ['drop_group', { policy: 'drop_group' }, [null, null, null, null]],
  ] as const)('follow the failure policy %s', async (_, onFailure, wanted) => {
    const { batchId } = await submit([given('a', 1), given('a', 3), given('a', 2), broken('a')], {
      reward: { onFailure },
    })
    await wait(batchId)
    expectClose((await results(batchId)).advantage, wanted)
    expectClose((await stored(batchId))[0]!.advantages, wanted)
  })

  it('are not divided by the standard deviation if normByStd is false', async () => {
    const { batchId } = await submit([given('a', 4), given('a', 8), given('b', 0.5)], {
      reward: { advantages: { normByStd: false } },
    })
    await wait(batchId)
    expect((await results(batchId)).advantage).toEqual([-2, 2, 0.5])
  })

  it('match their samples across pages, and are null before a group is complete', async () => {
    const scores = Array.from({ length: 40 }, (_, i) => (i * 7) % 11)
    const order = shuffled([...scores.keys()], 7)
    const samples = order.map((i) => given(`g${i % 5}`, scores[i] as number))
    const { batchId } = await submit(samples.slice(0, 25), { open: true })
    await service.api.batches.append.mutate({ batchId, startIndex: 25, samples: samples.slice(25) })
    expect((await results(batchId)).advantage).toEqual(samples.map(() => null))
    await service.api.batches.close.mutate({ batchId })
    await wait(batchId)
    const wanted = advantagesOf(samples.map((s) => ({ uid: s.uid, score: s.score as number })))
    const paged = async () => {
      const pages = await Promise.all(
        [0, 7, 14, 21, 28, 35].map((offset) => results(batchId, { offset, limit: 7 })),
      )
      return pages.flatMap((page) => page.advantage)
    }
    expectClose(await paged(), wanted)
    await stored(batchId)
    expectClose(await paged(), wanted)
  })
})

describe('training signal of groups', () => {
  it('is counted in the summary and reported for every group', async () => {
    const { batchId } = await submit([
      ...[1, 0].map((s) => given('varied', s)),
      ...[1, 1].map((s) => given('right', s)),
      ...[-1, -1].map((s) => given('wrong', s)),
      ...[0.5, 0.5].map((s) => given('equal', s)),
      given('one', 1),
      given('left', 1),
      broken('left'),
      broken('failed'),
      broken('failed'),
    ])
    const wanted = {
      varied: 1,
      all_correct: 1,
      all_incorrect: 1,
      all_equal: 1,
      single_sample: 2,
      all_failed: 1,
      empty: 0,
    }
    expect((await wait(batchId)).groupSignals).toEqual(wanted)
    const signals = Object.fromEntries((await delivered(batchId)).map((g) => [g.uid, g.signal]))
    expect(signals).toEqual({
      varied: 'varied',
      right: 'all_correct',
      wrong: 'all_incorrect',
      equal: 'all_equal',
      one: 'single_sample',
      left: 'single_sample',
      failed: 'all_failed',
    })
    const rows = await stored(batchId)
    expect(Object.fromEntries(rows.map((row) => [row.uid, row.signal]))).toEqual(signals)
    expect((await wait(batchId)).groupSignals).toEqual(wanted)
    const view = await service.api.batches.view.query({ batchId })
    expect(view.groupSignals).toEqual(wanted)
    const table = await service.api.batches.groups.query({ batchId })
    expect(Object.fromEntries(table.items.map((g) => [g.uid, g.signal]))).toEqual(signals)
    const { advantage, uid } = await results(batchId)
    expect(advantage[uid.indexOf('one')]).toBeCloseTo(1, 5)
    expect(advantage[uid.indexOf('left')]).toBe(0)
  })

  it('is not in the summary while the batch runs; a cancelled batch’s groups are counted too', async () => {
    const { batchId } = await submit([given('a', 1), given('a', 0), given('b', 1)], {
      open: true,
      groupSize: 2,
    })
    const running = await service.api.batches.get.query({ batchId })
    expect(running).toMatchObject({ groupsCompleted: 1, groupSignals: null })
    const view = await service.api.batches.view.query({ batchId })
    expect(view.groupSignals).toMatchObject({ varied: 1, single_sample: 0 })
    await service.api.batches.cancel.mutate({ batchId })
    expect((await wait(batchId)).groupSignals).toMatchObject({ varied: 1, single_sample: 1 })
    expect((await stored(batchId)).map((g) => g.signal)).toEqual(['varied', 'single_sample'])
  })
})

describe('1,600 GSM8K responses in groups of 8', () => {
  it.skipIf(!hasGradedProblems)('have the recomputed advantages and signals', async () => {
    const samples = gradedProblems().flatMap(({ question, ground_truth, responses }, at) =>
      responses.map(({ response }) =>
        sample({ uid: `q${at}`, prompt: question, response, groundTruth: ground_truth }),
      ),
    )
    const { batchId } = await submit(samples, {
      groupSize: 8,
      reward: { function: { name: 'math_verify' } },
    })
    const summary = await wait(batchId)
    const columns = await results(batchId)
    const byUid = Map.groupBy(
      columns.score.map((score, i) => ({ uid: columns.uid[i] as string, score: score as number })),
      (m) => m.uid,
    )
    expect(byUid.size).toBe(200)
    const wanted = advantagesOf(
      columns.score.map((score, i) => ({ uid: columns.uid[i] as string, score: score as number })),
    )
    expectClose(columns.advantage, wanted)
    const groups = await stored(batchId)
    expectClose((await results(batchId)).advantage, wanted)
    const signals: Record<string, number> = {}
    for (const group of groups) {
      const scores = byUid.get(group.uid)!.map((m) => m.score)
      const right = scores.filter((s) => s === 1).length
      const signal = right === 8 ? 'all_correct' : right === 0 ? 'all_incorrect' : 'varied'
      signals[signal] = (signals[signal] ?? 0) + 1
      expect(group.signal).toBe(signal)
      const p = right / 8
      expectClose(
        [group.mean, group.std, group.min, group.max],
        [p, Math.sqrt((8 * p * (1 - p)) / 7), Math.min(...scores), Math.max(...scores)],
      )
    }
    expect(summary.groupSignals).toMatchObject(signals)
    expect(Object.keys(signals).sort()).toEqual(['all_correct', 'all_incorrect', 'varied'])
    for (const group of await delivered(batchId)) {
      const row = groups.find((g) => g.uid === group.uid)!
      expect([group.mean, group.std, group.signal]).toEqual([row.mean, row.std, row.signal])
      expect(group.samples.map((s) => s.advantage)).toEqual(row.advantages)
    }
  })
})

/** verl's `compute_grpo_outcome_advantage` in the order of `rows`, computed from sums without the tested functions. */
function advantagesOf(rows: readonly { uid: string; score: number }[]): number[] {
  const byUid = Map.groupBy(rows, (row) => row.uid)
  return rows.map(({ uid, score }) => {
    const scores = byUid.get(uid)!.map((row) => row.score)
    const n = scores.length
    if (n === 1) return score / (1 + 1e-6)
    const sum = scores.reduce((a, b) => a + b)
    const squares = scores.reduce((a, b) => a + b * b, 0)
    const std = Math.sqrt(Math.max(0, (squares - (sum * sum) / n) / (n - 1)))
    return (score - sum / n) / (std + 1e-6)
  })
}

describe('a failed sample, by reward.onFailure', () => {
  const right = (uid: string) => sample({ uid })
  const wrong = (uid: string) => sample({ uid, response: 'About 70, I think.\n#### 70' })
  const byPolicy = (samples: Sample[], policy: string, fields: Partial<Submit> = {}) =>
    submit(samples, {
      run: 'policies',
      reward: { onFailure: { policy } } as Submit['reward'],
      ...fields,
    })

  describe('group_mean', () => {
    it('gives a failed member its group’s mean, marked as substituted; statistics do not include it', async () => {
      const { batchId } = await byPolicy(
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
      const [a] = (await delivered(batchId)).filter(({ uid }) => uid === 'a')
      expect(a).toMatchObject({ mean: 0.5 })
      expect(a?.samples[2]).toMatchObject({ score: 0.5, substituted: true, status: 'failed' })
    })

    it('applies to groups that arrive by append, one sample at a time', async () => {
      const { batchId } = await byPolicy([], 'group_mean', { open: true, groupSize: 2 })
      const append = (startIndex: number, s: Sample) =>
        service.api.batches.append.mutate({ batchId, startIndex, samples: [s] })
      await append(0, broken('a'))
      await append(1, right('a'))
      await service.api.batches.close.mutate({ batchId })
      expect(await wait(batchId)).toMatchObject({ status: 'completed', scored: 1, failed: 1 })
      expect((await results(batchId)).score).toEqual([1, 1])
    })
  })

  describe('drop_group', () => {
    it('removes all scores of a group with a failed member, and still delivers the group', async () => {
      const { batchId } = await byPolicy(
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
      const [a] = (await delivered(batchId)).filter(({ uid }) => uid === 'a')
      expect(a).toMatchObject({ mean: null, std: null })
      expect(a?.samples).toHaveLength(3)
    })
  })

  describe('fail_batch', () => {
    it('ends the batch as failed with its first failed sample; every sample ends, every group is delivered', async () => {
      const samples = Array.from({ length: 400 }, (_, i) => right(`g${i >> 3}`))
      samples[0] = broken('g0')
      const { batchId } = await byPolicy(samples, 'fail_batch', { open: true })
      await expect
        .poll(async () => (await service.api.batches.get.query({ batchId })).status)
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
      const more = service.api.batches.append.mutate({
        batchId,
        startIndex: 400,
        samples: [right('x')],
      })
      await expect(more).rejects.toMatchObject({ data: { reason: 'batch_closed' } })
    })

    it('refuses an append while a failed sample closes the batch', async () => {
      const { batchId } = await byPolicy([right('a')], 'fail_batch', { open: true })
      const client = new pg.Client({
        connectionString: runningEmbeddedUrl(service.dataDir) as string,
      })
      await client.connect()
      try {
        // Closes the batch as settle_groups does. The transaction ends after the append has begun.
        await client.query('begin')
        await client.query("update batch set closed = true, status = 'failed' where id = $1", [
          Number(batchId.slice(1)),
        ])
        const more = service.api.batches.append
          .mutate({ batchId, startIndex: 1, samples: [right('b')] })
          .catch((error: Error) => error)
        await expect
          .poll(() =>
            service.sql(
              // The append may wait for a flush of the first sample, which waits for this transaction. The query
              // therefore accepts any blocker.
              `select 1 from pg_stat_activity
               where cardinality(pg_blocking_pids(pid)) > 0 and query ~ 'update batch set samples = samples \\+'`,
            ),
          )
          .toHaveLength(1)
        await client.query('commit')
        expect(await more).toMatchObject({ data: { reason: 'batch_closed' } })
      } finally {
        await client.end()
      }
      expect(await wait(batchId)).toMatchObject({ status: 'failed', samples: 1, groups: 1 })
    })

    it('does not affect a batch without failures', async () => {
      const { batchId } = await byPolicy([right('a'), wrong('a')], 'fail_batch')
      expect(await wait(batchId)).toMatchObject({ status: 'completed', scored: 2 })
    })
  })
})
