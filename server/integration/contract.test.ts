import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ApiInputs } from '../../testkit/processes/trpc-call.ts'
import { nothingStored } from '../../testkit/service/refusals.ts'
import { rollouts, type Sample, type Submit, sample } from '../../testkit/service/rollouts.ts'
import type { Service } from '../../testkit/service/service.ts'
import { leaveShared, sharedService } from '../../testkit/service/service-with-model.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import type { GroupResult, MemberResult, NextResult, ScoreResult } from '../contract/trainer.ts'

let service: Service
let functionsDir: string

beforeAll(async () => {
  ;({ service, functionsDir } = await sharedService())
})

afterAll(() => leaveShared(service))

const right = (uid: string) => sample({ uid })
const wrong = (uid: string) => sample({ uid, response: 'About 70, I think.\n#### 70' })

function submit(samples: Sample[], fields: Partial<Submit> = {}) {
  return service.api.batches.submit.mutate({ run: 'contract', step: 1, samples, ...fields })
}

const wait = (batchId: string) => service.api.batches.wait.query({ batchId, waitMs: 60_000 })
const get = (batchId: string) => service.api.batches.get.query({ batchId })
const results = (batchId: string) => service.api.batches.results.query({ batchId })
const next = (batchId: string, after: string | null, samples = 1, waitMs = 60_000) =>
  service.api.batches.next.query({ batchId, after, samples, waitMs })
const append = (batchId: string, startIndex: number, samples: Sample[]) =>
  service.api.batches.append.mutate({ batchId, startIndex, samples })
const scored = (batchId: string, count: number) =>
  waitFor(`${count} samples scored`, async () => (await get(batchId)).scored === count)

describe('a batch', () => {
  it('is acknowledged, scored and summarized', async () => {
    const samples = [right('a'), wrong('a'), right('b'), right('b'), right('c')]
    const answer = await submit(samples, { step: 120, split: 'val' })
    expect(answer).toEqual({
      batchId: expect.stringMatching(/^b\d+$/),
      accepted: 5,
      groups: 3,
      duplicate: false,
    })
    const end = await wait(answer.batchId)
    expect(end).toMatchObject({
      batchId: answer.batchId,
      run: 'contract',
      step: 120,
      split: 'val',
      status: 'completed',
      samples: 5,
      scored: 5,
      failed: 0,
      groups: 3,
      groupsCompleted: 3,
      mean: 0.8,
      min: 0,
      max: 1,
      retries: 0,
    })
    expect(end.std).toBeCloseTo(Math.sqrt(0.2), 12)
    for (const time of [end.submittedAt, end.startedAt, end.completedAt]) {
      expect(time).toBe(new Date(time as string).toISOString())
    }
    const [submitted, started, completed] = [end.submittedAt, end.startedAt!, end.completedAt!]
    expect(submitted <= started && started <= completed, JSON.stringify(end)).toBe(true)
    const list = await service.api.batches.list.query({ split: 'val' })
    expect(list.items[0]).toMatchObject({ batchId: answer.batchId, status: 'completed' })
  })

  it('accepts GET and POST, as sent by curl', async () => {
    const { batchId } = await submit([right('a')])
    const byGet = await wait(batchId)
    const byPost = await service.post('batches.get', JSON.stringify({ batchId }))
    expect(byPost.json).toEqual({ result: { data: byGet } })
    const plain = await service.raw(`/api/trpc/batches.get?input={"batchId":"${batchId}"}`)
    expect(plain.headers['content-type']).toMatch(/^application\/json/)
    expect(plain.json).toEqual({ result: { data: byGet } })
  })

  it('gives its results as columns in input order, with the union of the extra keys', async () => {
    const dapo = { dataSource: 'math_dapo', groundTruth: '72', response: 'So it is\nAnswer: 72' }
    const { batchId } = await submit([
      sample({ uid: 'a', responseLength: 211 }),
      sample({ uid: 'b', responseLength: 0, ...dapo }),
      sample({ uid: 'a', response: '', responseLength: null }),
      sample({ uid: 'b', responseLength: 1, ...dapo, response: 'Answer: 71' }),
    ])
    await wait(batchId)
    const columns = await results(batchId)
    expect(columns).toEqual({
      index: [0, 1, 2, 3],
      uid: ['a', 'b', 'a', 'b'],
      status: ['scored', 'scored', 'scored', 'scored'],
      reason: [null, null, null, null],
      score: [1, 1, 0, -1],
      rawScore: [1, 1, 0, -1],
      substituted: [false, false, false, false],
      rewardExtraKeys: ['acc', 'score', 'pred'],
      rewardExtraInfo: {
        acc: [1, true, 0, false],
        score: [null, 1, null, -1],
        pred: [null, '72', null, '71'],
      },
      verdict: ['equal', 'equal', 'no answer', 'different'],
      extracted: ['72', '72', null, '71'],
      rewards: [null, null, null, null],
      position: [210, null, null, 0],
      advantage: [1, 1, -1, -1].map((a) => expect.closeTo(a * Math.SQRT1_2, 4)),
    })
    const page = await service.api.batches.results.query({ batchId, offset: 1, limit: 2 })
    expect(page).toMatchObject({ index: [1, 2], uid: ['b', 'a'], position: [null, null] })
    expect(page.rewardExtraKeys).toEqual(['score', 'acc', 'pred'])
  })

  it('stores given scores unchanged, and scores the other samples', async () => {
    const given = [
      right('a'),
      sample({ uid: 'a', score: -3.25 }),
      sample({ uid: 'b', score: 1e-9 }),
    ]
    const { batchId } = await submit(given)
    expect(await wait(batchId)).toMatchObject({ scored: 3, failed: 0, min: -3.25, max: 1 })
    const columns = await results(batchId)
    expect(columns).toMatchObject({ score: [1, -3.25, 1e-9], rawScore: [1, -3.25, 1e-9] })
    expect(columns.rewardExtraInfo).toEqual({ acc: [1, null, null] })
  })

  it('needs no rule for samples with given scores', async () => {
    const { batchId } = await submit([
      sample({ uid: 'a', dataSource: 'my/own-env', score: 0.5 }),
      sample({ uid: 'b', dataSource: 'my/own-env', score: 2 }),
    ])
    const end = await get(batchId)
    expect(end).toMatchObject({ status: 'completed', scored: 2, groupsCompleted: 2, mean: 1.25 })
    const answer = await next(batchId, null, 2)
    expect(answer).toMatchObject({ delivered: 2, remaining: 0, done: true })
  })
})

describe('batches.next', () => {
  it('delivers whole groups in order of completion, each once, for any page size', async () => {
    const { batchId } = await submit(rollouts(240, 8))
    const seen: GroupResult[] = []
    let cursor: string | null = null
    for (let done = false; !done; ) {
      const answer: NextResult = await next(batchId, cursor, 20)
      const again = await next(batchId, cursor, 20)
      expect(again.groups.slice(0, answer.groups.length)).toEqual(answer.groups)
      expect(answer.delivered).toBe(answer.groups.reduce((n, g) => n + g.samples.length, 0))
      expect(answer.timedOut).toBe(false)
      if (!answer.done) expect(answer.delivered).toBeGreaterThanOrEqual(20)
      expect(answer.delivered).toBeLessThan(20 + 8)
      seen.push(...answer.groups)
      expect(answer.remaining).toBe(240 - 8 * seen.length)
      cursor = answer.cursor
      done = answer.done
    }
    expect(seen.map((g) => g.seq)).toEqual(Array.from({ length: 30 }, (_, i) => i + 1))
    expect(new Set(seen.map((g) => g.uid)).size).toBe(30)
    const times = seen.map((g) => g.completedAt)
    expect(times).toEqual([...times].sort())
    for (const group of seen) {
      expect(group).toMatchObject({ mean: 0.5, std: Math.sqrt(2 / 7) })
      expect(new Set(group.samples.map((s) => s.uid))).toEqual(new Set([group.uid]))
      const indexes = group.samples.map((s) => s.index)
      expect(indexes).toEqual([...indexes].sort((a, b) => a - b))
    }
    expect(seen.flatMap((g) => g.samples.map((s) => s.index)).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 240 }, (_, i) => i),
    )
    expect((await next(batchId, null, 16)).delivered).toBe(16)
    const atEnd = await next(batchId, cursor)
    expect(atEnd).toEqual({
      groups: [],
      cursor,
      delivered: 0,
      remaining: 0,
      done: true,
      timedOut: false,
    })
  })

  it('returns a sample with all fields of the contract', async () => {
    const { batchId } = await submit([sample({ responseLength: 12 })])
    const { groups } = await next(batchId, null)
    expect(groups[0]?.samples[0]).toEqual({
      index: 0,
      uid: 'q-1',
      status: 'scored',
      reason: null,
      score: 1,
      rawScore: 1,
      substituted: false,
      rewardExtraInfo: { acc: 1 },
      verdict: 'equal',
      extracted: expect.any(String),
      rewards: null,
      position: 11,
      queueMs: expect.any(Number),
      scoreMs: expect.any(Number),
      attempts: 1,
      serverName: null,
      workerId: expect.stringMatching(/^w\d+$/),
      advantage: expect.closeTo(1, 5),
    } satisfies MemberResult)
    expect(groups[0]).toMatchObject({ mean: 1, std: null, signal: 'single_sample' })
  })

  it('times out with the cursor unchanged, and accepts any waitMs', async () => {
    const { batchId } = await submit([right('a')], { open: true, groupSize: 2 })
    const first = await next(batchId, null, 1, 30)
    expect(first).toEqual({
      groups: [],
      cursor: expect.any(String),
      delivered: 0,
      remaining: 1,
      done: false,
      timedOut: true,
    })
    const second = await next(batchId, first.cursor, 1, 0)
    expect(second).toEqual(first)
    // A wait of an hour is limited to a minute. The completed group ends the wait earlier.
    const long = next(batchId, first.cursor, 1, 3_600_000)
    await append(batchId, 1, [right('a')])
    expect(await long).toMatchObject({ delivered: 2, timedOut: false, done: false })
    await service.api.batches.close.mutate({ batchId })
  })

  it('waits for the requested number of samples, or the end', async () => {
    const { batchId } = await submit([], { open: true, groupSize: 1 })
    const three = next(batchId, null, 3)
    await append(batchId, 0, [right('a'), right('b')])
    await scored(batchId, 2)
    expect(await next(batchId, null, 3, 0)).toMatchObject({ groups: [], timedOut: true })
    await append(batchId, 2, [right('c')])
    expect((await three).groups.map((g) => g.uid).sort()).toEqual(['a', 'b', 'c'])
    const five = next(batchId, (await three).cursor, 5)
    await append(batchId, 3, [right('d')])
    await service.api.batches.close.mutate({ batchId })
    expect(await five).toMatchObject({ delivered: 1, done: true, timedOut: false })
  })
})

describe('open batches', () => {
  it('accept samples until they are closed; a repeated append changes nothing', async () => {
    const { batchId, accepted } = await submit([], { open: true })
    expect(accepted).toBe(0)
    const first = [right('a'), wrong('b')]
    const second = [right('b')]
    expect(await append(batchId, 0, first)).toEqual({ batchId, accepted: 2, samples: 2 })
    expect(await append(batchId, 2, second)).toEqual({ batchId, accepted: 1, samples: 3 })
    await nothingStored(service, async () => {
      expect(await append(batchId, 0, first)).toEqual({ batchId, accepted: 0, samples: 3 })
      expect(await append(batchId, 2, second)).toEqual({ batchId, accepted: 0, samples: 3 })
      expect(await append(batchId, 1, [first[1] as Sample])).toMatchObject({ accepted: 0 })
    })
    await scored(batchId, 3)
    // Without groupSize a group may still grow, so none is delivered before the close.
    expect(await get(batchId)).toMatchObject({ status: 'open', groups: 2, groupsCompleted: 0 })
    const closed = await service.api.batches.close.mutate({ batchId })
    expect(closed).toMatchObject({ status: 'completed', scored: 3, groupsCompleted: 2 })
    expect(await append(batchId, 2, second)).toMatchObject({ accepted: 0, samples: 3 })
    expect(await service.api.batches.close.mutate({ batchId })).toEqual(closed)
  })

  it('deliver groups of groupSize while they are open', async () => {
    const { batchId } = await submit([right('a'), right('b')], { open: true, groupSize: 2 })
    await scored(batchId, 2)
    expect((await get(batchId)).groupsCompleted).toBe(0)
    await append(batchId, 2, [wrong('b')])
    const { groups, cursor } = await next(batchId, null)
    expect(groups.map((g) => [g.uid, g.seq, g.mean])).toEqual([['b', 1, 0.5]])
    await service.api.batches.close.mutate({ batchId })
    const rest = await next(batchId, cursor, 2)
    expect(rest.groups.map((g) => [g.uid, g.seq, g.samples.length])).toEqual([['a', 2, 1]])
    expect(rest.done).toBe(true)
  })

  it('end when they are closed empty', async () => {
    const { batchId } = await submit([], { open: true })
    const end = await service.api.batches.close.mutate({ batchId })
    expect(end).toMatchObject({ status: 'completed', samples: 0, mean: null })
    expect(await next(batchId, null)).toMatchObject({ groups: [], done: true, timedOut: false })
    expect((await results(batchId)).index).toEqual([])
  })

  it('accept the appends of many callers, one after the other', async () => {
    const { batchId } = await submit([], { open: true, groupSize: 4 })
    const parts = Array.from({ length: 12 }, (_, i) => rollouts(4, 4, `p${i}`))
    await Promise.all(
      parts.map((part, i) =>
        waitFor('its turn', () => append(batchId, i * 4, part).catch(gapOnly)),
      ),
    )
    await service.api.batches.close.mutate({ batchId })
    expect(await wait(batchId)).toMatchObject({ samples: 48, scored: 48, groupsCompleted: 12 })
  })
})

describe('idempotency keys', () => {
  it('create one batch from concurrent submits', async () => {
    const samples = rollouts(16)
    const answers = await Promise.all(
      Array.from({ length: 12 }, () => submit(samples, { idempotencyKey: 'many' })),
    )
    expect(new Set(answers.map((a) => a.batchId)).size).toBe(1)
    expect(answers.filter((a) => !a.duplicate)).toHaveLength(1)
    for (const answer of answers) expect(answer).toMatchObject({ accepted: 16, groups: 2 })
    const { batchId } = answers[0]!
    expect(await wait(batchId)).toMatchObject({ samples: 16, scored: 16 })
    expect(await submit(samples, { idempotencyKey: 'many' })).toMatchObject({
      batchId,
      duplicate: true,
    })
    const explicit = { idempotencyKey: 'many', split: 'train', priority: 0, reward: {} } as const
    expect(await submit(samples, explicit)).toMatchObject({ batchId, duplicate: true })
  })

  it('return the batch of a repeated submit whose reward function was removed meanwhile', async () => {
    const path = join(functionsDir, 'contract-removed.ts')
    writeFileSync(path, 'export default function score(): number {\n  return 1\n}\n')
    const fields = {
      idempotencyKey: 'removed',
      reward: { function: { path: 'contract-removed.ts' } },
    }
    const samples = rollouts(8)
    const { batchId } = await submit(samples, fields)
    rmSync(path)
    expect(await submit(samples, fields)).toMatchObject({ batchId, accepted: 8, duplicate: true })
  })

  it('create one sample from concurrent calls', async () => {
    const call = { run: 'contract', step: 9, sample: right('k'), idempotencyKey: 'one-sample' }
    const answers = await Promise.all(
      Array.from({ length: 12 }, () => service.api.samples.score.mutate(call)),
    )
    for (const answer of answers) expect(answer).toEqual(answers[0])
    const { items } = await service.api.batches.list.query({ run: 'contract' })
    expect(items.find((b) => b.step === 9)).toMatchObject({ samples: 1, scored: 1 })
    expect(await service.api.samples.score.mutate(call)).toEqual(answers[0])
  })

  it('create one sample from concurrent calls with different contents, and refuse the others', async () => {
    const call = { run: 'contract', step: 10, idempotencyKey: 'contested' }
    const calls = Array.from({ length: 12 }, (_, i) =>
      service.api.samples.score.mutate({ ...call, sample: right(`k${i}`) }),
    )
    const settled = await Promise.allSettled(calls)
    const refused = settled.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []))
    expect(refused).toHaveLength(11)
    for (const { data } of refused) expect(data).toMatchObject({ reason: 'idempotency_conflict' })
    const { items } = await service.api.batches.list.query({ run: 'contract' })
    expect(items.find((b) => b.step === 10)).toMatchObject({ samples: 1, scored: 1 })
  })
})

describe('samples.score', () => {
  const score = (step: number, fields: Partial<ApiInputs['samples']['score']> = {}) =>
    service.api.samples.score.mutate({ run: 'single', step, sample: right('a'), ...fields })
  const batchesOf = async (step: number) => {
    const { items } = await service.api.batches.list.query({ run: 'single' })
    return items.filter((b) => b.step === step)
  }

  it('returns one sample’s reward, with one implicit batch per step', async () => {
    const first = await score(1, { sample: sample({ responseLength: 3 }) })
    expect(first).toMatchObject({ index: 0, status: 'scored', score: 1, position: 2, attempts: 1 })
    const second = await score(1, { sample: wrong('a') })
    expect(second).toMatchObject({ index: 1, uid: 'a', score: 0 })
    expect(await batchesOf(1)).toMatchObject([{ status: 'open', samples: 2, scored: 2, groups: 2 }])
    await score(1, { split: 'val' })
    await score(1, { reward: { kwargs: { method: 'flexible' } } })
    expect(await batchesOf(1)).toHaveLength(3)
  })

  it('accepts kwargs of the sample’s rule, and refuses others', async () => {
    const math = sample({ dataSource: 'math_dapo', response: 'Answer: 72' })
    const flexible = { reward: { kwargs: { method: 'flexible' } } }
    expect(await score(5, flexible)).toMatchObject({ score: 1 })
    expect(await score(5, { ...flexible, sample: math })).toMatchObject({ score: 1 })
    await nothingStored(service, async () => {
      for (const [kwargs, dataSource] of [
        [{ method: 'flexible' }, 'searchR1_nq'],
        [{ method: 'loose' }, 'openai/gsm8k'],
        [{ methd: 'flexible' }, 'openai/gsm8k'],
      ] as const) {
        const call = score(6, { reward: { kwargs }, sample: sample({ dataSource }) })
        await expect(call).rejects.toMatchObject({ data: { reason: 'invalid_kwargs' } })
      }
    })
    const open = await submit([], { open: true, ...flexible })
    await append(open.batchId, 0, [right('a'), math])
    await nothingStored(service, async () => {
      const more = append(open.batchId, 2, [sample({ dataSource: 'searchR1_nq' })])
      await expect(more).rejects.toMatchObject({ data: { reason: 'invalid_kwargs' } })
    })
    await service.api.batches.close.mutate({ batchId: open.batchId })
  })

  it('stores texts exactly as they were sent', async () => {
    const odd = {
      prompt: 'NUL \u0000 and \ud83d',
      response: '\u0000\udc00\n#### 72',
      extraInfo: { a: '\u0000' },
    }
    const { index } = await score(7, { sample: sample(odd) })
    const [batch] = await batchesOf(7)
    const id = `${batch?.batchId}-${index}`
    expect(await service.api.samples.get.query({ id })).toMatchObject({ ...odd, score: 1 })
  })

  it('returns and stores the same fields for scored and failed samples of sequential calls', async () => {
    const answers: ScoreResult[] = []
    for (const s of rollouts(60, 4, 'inturn')) answers.push(await score(8, { sample: s }))
    expect(answers.map((a) => a.score)).toEqual(answers.map((_, i) => (i % 2 === 0 ? 1 : 0)))
    const [batch] = await batchesOf(8)
    expect(batch).toMatchObject({ samples: 60, scored: 60, failed: 0, groups: 15 })
    for (const i of [0, 59]) {
      const stored = await service.api.samples.get.query({ id: `${batch?.batchId}-${i}` })
      const { detail, ...kept } = answers[i] as ScoreResult
      expect(stored).toMatchObject(kept)
      expect(detail).toBeNull()
      expect(stored).toMatchObject({ attemptLog: [{ attempt: 1, outcome: 'ok' }] })
    }
    const failed = await score(8, { sample: sample({ groundTruth: { not: 'text' } }) })
    expect(failed).toMatchObject({ status: 'failed', reason: 'function_error', score: null })
    expect(failed.detail).toContain('groundTruth')
    const kept = await service.api.samples.get.query({ id: `${batch?.batchId}-60` })
    expect(kept).toMatchObject({ reason: 'function_error', attemptLog: [{ outcome: 'fault' }] })
    expect(await batchesOf(8)).toMatchObject([{ samples: 61, scored: 60, failed: 1 }])
    const keyed = { sample: right('k'), idempotencyKey: 'in-turn' }
    const once = await score(8, keyed)
    expect(await score(8, keyed)).toEqual(once)
    expect(await batchesOf(8)).toMatchObject([{ samples: 62 }])
  })

  it('completes the groups of an open batch in sequential calls', async () => {
    const { batchId } = await submit([], { open: true, groupSize: 2, step: 9 })
    for (let i = 0; i < 12; i++) await score(9, { batchId, sample: right(`g${i >> 1}`) })
    expect((await next(batchId, null, 12)).groups.map((g) => g.seq)).toEqual([1, 2, 3, 4, 5, 6])
    await service.api.batches.close.mutate({ batchId })
    expect(await wait(batchId)).toMatchObject({ status: 'completed', samples: 12, scored: 12 })
  })

  it('accepts 200 concurrent calls', async () => {
    const answers = await Promise.all(rollouts(200, 8, 'many').map((s) => score(2, { sample: s })))
    expect(answers.map((a) => a.score)).toEqual(answers.map((_, i) => (i % 2 === 0 ? 1 : 0)))
    expect(answers.map((a) => a.index).sort((a, b) => a - b)).toEqual(answers.map((_, i) => i))
    expect(await batchesOf(2)).toMatchObject([{ samples: 200, scored: 200, groups: 25 }])
  })

  it('joins an open batch', async () => {
    const { batchId } = await submit([right('a')], { open: true, groupSize: 2 })
    expect(await score(3, { batchId })).toMatchObject({ index: 1, uid: 'a', score: 1 })
    expect(await next(batchId, null)).toMatchObject({ delivered: 2 })
    expect(await batchesOf(3)).toEqual([])
    await service.api.batches.close.mutate({ batchId })
  })

  it('reports a failed sample, and refuses an invalid call without affecting the other calls', async () => {
    const failed = await score(4, { sample: sample({ groundTruth: { not: 'text' } }) })
    expect(failed).toMatchObject({ status: 'failed', reason: 'function_error', score: null })
    const calls = Array.from({ length: 20 }, (_, i) =>
      score(4, { sample: i === 7 ? sample({ dataSource: 'mine' }) : right('a') }),
    )
    const ends = await Promise.allSettled(calls)
    expect(ends.map((e) => e.status === 'fulfilled')).toEqual(ends.map((_, i) => i !== 7))
    expect((ends[7] as PromiseRejectedResult).reason.data.reason).toBe('unknown_data_source')
  })
})

function gapOnly(error: { data?: { reason?: string } }): null {
  if (error.data?.reason !== 'append_gap') throw error
  return null
}
