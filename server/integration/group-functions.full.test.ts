import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { batchCalls } from '../../testkit/service/batch-calls.ts'
import { expectExactlyOnce, followBatch } from '../../testkit/service/follow-batch.ts'
import { type Sample, type Submit, sample } from '../../testkit/service/rollouts.ts'
import { type Part, Service } from '../../testkit/service/service.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'

const folder = mkdtempSync(join(tmpdir(), 'rewardops-groups-'))
let service: Service

beforeAll(async () => {
  service = await Service.start({ env: { REWARDOPS_FUNCTIONS_DIR: folder } })
})

afterAll(async () => {
  await service?.stop().finally(() => service.destroy())
  rmSync(folder, { recursive: true, force: true })
})

function file(path: string, text: string): string {
  writeFileSync(join(folder, path), text)
  return path
}

const calls = batchCalls(() => service, { run: 'groups' })
const { ended: wait, get, results } = calls
const submit = (reward: Submit['reward'], samples: Sample[], fields: Partial<Submit> = {}) =>
  calls.submit(samples, { reward, ...fields })
/** Kills `part` in the middle of a batch of 400 samples in 100 groups; returns the results. */
async function killedInItsMiddle(batchId: string, part: Part, restart: boolean) {
  const followed = followBatch(service, batchId)
  await waitFor('some groups', async () => (await get(batchId)).groupsCompleted >= 10)
  expect((await get(batchId)).groupsCompleted).toBeLessThan(100)
  await service.kill9(part)
  if (restart) await service.restart()
  await followed.done
  return expectExactlyOnce(service, followed, 400, 100)
}
const next = (batchId: string, samples: number, waitMs = 20_000) =>
  service.api.batches.next.query({ batchId, after: null, samples, waitMs })
const of = (uid: string, score: number | string): Sample => sample({ uid, response: `${score}` })

/** An agent like verl's, which scores each sample and centers the scores of a group. */
const AGENT = `export default class {
  constructor({ delayMs = 0 } = {}) { this.delayMs = delayMs }
  compute_score({ solution_str }) {
    if (solution_str === 'bad') throw new Error('cannot read it')
    return { score: Number(solution_str), length: solution_str.length }
  }
  async post_process_scores(scores, { uid, members }) {
    if (uid === 'stuck') await new Promise(() => {})
    if (uid === 'throws') throw new Error('no such group')
    if (uid === 'short') return scores.slice(1)
    if (uid === 'text') return scores.map(String)
    if (uid === 'endless') return scores.map(() => Infinity)
    await new Promise((done) => setTimeout(done, this.delayMs))
    const mean = scores.reduce((a, b) => a + b, 0) / scores.length
    return scores.map((score, at) => score - mean + (members[at].rewardExtraInfo.length > 9 ? 1 : 0))
  }
}`

describe('post_process_scores', () => {
  it('changes the scores of a group before it is complete: the unmodified group is never visible', async () => {
    const path = file('agent.ts', AGENT)
    const { batchId } = await submit({ function: { path } }, [
      of('a', 1),
      of('b', 10),
      of('a', 3),
      of('b', 20),
      of('a', 2),
    ])
    expect(await wait(batchId)).toMatchObject({
      status: 'completed',
      scored: 5,
      failed: 0,
      groupsCompleted: 2,
      mean: 0,
    })
    const { score, rawScore, rewardExtraInfo, advantage } = await results(batchId)
    expect(score).toEqual([-1, -5, 1, 5, 0])
    expect(rawScore).toEqual([1, 10, 3, 20, 2])
    expect(rewardExtraInfo.length).toEqual([1, 2, 1, 2, 1])
    expect(advantage.map((a) => Math.round(a as number))).toEqual([-1, -1, 1, 1, 0])
    const { groups } = await next(batchId, 5)
    const [a] = groups.filter(({ uid }) => uid === 'a')
    expect(a).toMatchObject({ mean: 0, std: 1, signal: 'varied' })
    expect(a?.samples.map((s) => s.score)).toEqual([-1, 1, 0])
  })

  it('may also be exported beside a function', async () => {
    const path = file(
      'function.ts',
      `export const compute_score = ({ solutionStr }) => Number(solutionStr)
       export function postProcessScores(scores) { return scores.map((score) => score * 10) }`,
    )
    const { batchId } = await submit({ function: { path } }, [of('a', 1), of('a', 2)])
    await wait(batchId)
    expect((await results(batchId)).score).toEqual([10, 20])
  })

  it('receives the scored members only; failed members and given scores stay unchanged', async () => {
    const path = file('agent.ts', AGENT)
    const { batchId } = await submit({ function: { path } }, [
      of('a', 1),
      of('a', 'bad'),
      of('a', 5),
      sample({ uid: 'a', score: 100 }),
    ])
    expect(await wait(batchId)).toMatchObject({ scored: 3, failed: 1, groupsCompleted: 1 })
    const { score, reason } = await results(batchId)
    expect(score).toEqual([-2, null, 2, 100])
    expect(reason).toEqual([null, 'function_error', null, null])
  })

  it('fails only its own group, with the reason, if it throws or returns invalid scores', async () => {
    const path = file('agent.ts', AGENT)
    const uids = ['throws', 'short', 'text', 'endless', 'fine']
    const { batchId } = await submit(
      { function: { path } },
      uids.flatMap((uid) => [of(uid, 1), of(uid, 3)]),
    )
    expect(await wait(batchId)).toMatchObject({ scored: 2, failed: 8, groupsCompleted: 5 })
    const { score, rawScore, reason } = await results(batchId)
    expect(score).toEqual([...Array(8).fill(null), -1, 1])
    expect(rawScore).toEqual([1, 3, 1, 3, 1, 3, 1, 3, 1, 3])
    expect(reason).toEqual([
      ...Array(6).fill('function_error'),
      'non_finite',
      'non_finite',
      null,
      null,
    ])
    const detail = await service.api.samples.get.query({ id: `${batchId}-2` })
    expect(detail.attemptLog.at(-1)?.detail).toContain('1 scores for a group of 2')
  })

  it('is called when a group of an open batch is full, and for partial groups at the close', async () => {
    const path = file('agent.ts', AGENT)
    const { batchId } = await submit({ function: { path } }, [of('a', 1), of('a', 3), of('b', 7)], {
      open: true,
      groupSize: 2,
    })
    const first = await next(batchId, 2)
    expect(first.groups.map(({ uid }) => uid)).toEqual(['a'])
    expect(first.groups[0]?.samples.map((s) => s.score)).toEqual([-1, 1])
    await waitFor('the sample of the partial group', async () => {
      const { status } = await results(batchId)
      return status[2] === 'running'
    })
    expect((await results(batchId)).score[2]).toBeNull()
    await service.api.batches.close.mutate({ batchId })
    expect(await wait(batchId)).toMatchObject({ status: 'completed', groupsCompleted: 2 })
    expect((await results(batchId)).score).toEqual([-1, 1, 0])
  })

  it('ends with its batch or at its time limit if it hangs', async () => {
    const path = file('agent.ts', AGENT)
    const samples = [of('stuck', 1), of('stuck', 3), of('a', 1), of('a', 3)]
    const { batchId } = await submit({ function: { path } }, samples)
    await waitFor('the other group', async () => (await get(batchId)).groupsCompleted === 1)
    await service.api.batches.cancel.mutate({ batchId })
    expect(await wait(batchId)).toMatchObject({
      status: 'cancelled',
      scored: 2,
      failed: 2,
      groupsCompleted: 2,
    })
    const { score, reason } = await results(batchId)
    expect(score).toEqual([null, null, -1, 1])
    expect(reason.slice(0, 2)).toEqual(['cancelled', 'cancelled'])
    const late = await submit({ function: { path }, timeoutMs: 400 }, [of('stuck', 1)])
    expect(await wait(late.batchId)).toMatchObject({ failed: 1 })
    expect((await results(late.batchId)).reason).toEqual(['timeout'])
  })

  it.each<[Part, boolean]>([
    ['worker', false],
    ['all', true],
  ])(
    'survives kill -9 of %s: every group is post-processed and delivered once',
    async (part, restart) => {
      const path = file('agent.ts', AGENT)
      const samples = Array.from({ length: 400 }, (_, i) => of(`g${i >> 2}`, (i * 7) % 13))
      const { batchId } = await submit(
        { function: { path, kwargs: { delayMs: 400 } }, maxConcurrency: 40 },
        samples,
      )
      const delivered = await killedInItsMiddle(batchId, part, restart)
      const wanted = samples.map(({ response }, i) => {
        const group = samples.slice(i - (i % 4), i - (i % 4) + 4).map((s) => Number(s.response))
        return Number(response) - group.reduce((a, b) => a + b) / 4
      })
      expect(delivered.map((s) => s.score)).toEqual(wanted)
      expect(delivered.map((s) => s.rawScore)).toEqual(samples.map((s) => Number(s.response)))
    },
  )

  it('is refused for single samples and in components of a composite reward', async () => {
    const path = file('agent.ts', AGENT)
    const fn = { function: { path } }
    await expect(
      service.api.samples.score.mutate({ run: 'r', step: 1, reward: fn, sample: of('a', 1) }),
    ).rejects.toMatchObject({ data: { reason: 'unsupported_setting' } })
    await expect(
      submit({ combine: [{ name: 'own', reward: fn }] }, [of('a', 1)]),
    ).rejects.toMatchObject({ data: { reason: 'unsupported_setting' } })
    const { batchId } = await submit(fn, [], { open: true })
    await expect(
      service.api.samples.score.mutate({ run: 'groups', step: 1, batchId, sample: of('a', 1) }),
    ).rejects.toMatchObject({ data: { reason: 'unsupported_setting' } })
    await service.api.batches.cancel.mutate({ batchId })
  })
})

const RANKS = `let calls = 0
export async function compute_score({ data_sources, solution_strs, ground_truths, extra_infos, prompts, delayMs = 0, wrong }) {
  calls++
  await new Promise((done) => setTimeout(done, delayMs))
  if (solution_strs.includes('throws')) throw new Error('not this group')
  if (solution_strs.includes('short')) return [1]
  const sorted = [...solution_strs].sort((a, b) => Number(a) - Number(b))
  return solution_strs.map((text, at) =>
    text === 'bad'
      ? null
      : { score: sorted.indexOf(text), members: solution_strs.length, call: calls, given: [data_sources[at], ground_truths[at], extra_infos[at].no, typeof prompts[at]].join() },
  )
}`

describe('the manager batch', () => {
  const batch = (path: string, kwargs = {}): Submit['reward'] => ({
    manager: 'batch',
    function: { path, kwargs },
  })

  it('calls the function once per group, with lists of all members', async () => {
    const path = file('ranks.ts', RANKS)
    const samples = [3, 9, 1, 20, 5, 7].map((score, i) => ({
      ...of(i % 2 === 0 ? 'a' : 'b', score),
      extraInfo: { no: i },
    }))
    const { batchId } = await submit(batch(path), samples)
    expect(await wait(batchId)).toMatchObject({ status: 'completed', scored: 6 })
    const { score, rewardExtraInfo } = await results(batchId)
    // The scores in the responses are 3, 1, 5 in group a and 9, 20, 7 in group b; their ranks count from 0.
    expect(score).toEqual([1, 1, 0, 2, 2, 0])
    expect(rewardExtraInfo.members).toEqual(Array(6).fill(3))
    expect(rewardExtraInfo.given?.[3]).toBe('openai/gsm8k,72,3,string')
    const calls = rewardExtraInfo.call as number[]
    expect(new Set([calls[0], calls[2], calls[4]]).size).toBe(1)
    expect(new Set([calls[1], calls[3], calls[5]]).size).toBe(1)
  })

  it('accepts a promise per member, and a rejection fails only that member', async () => {
    const path = file(
      'promises.ts',
      `export const compute_score = ({ solution_strs }) => solution_strs.map(async (text) => {
        if (text === '9') throw new Error('not this one')
        return { score: Number(text), seen: new Set([text]) }
      })`,
    )
    const { batchId } = await submit(batch(path), [of('a', 3), of('a', 9), of('a', 1)])
    expect(await wait(batchId)).toMatchObject({ scored: 2, failed: 1 })
    const { score, reason, rewardExtraInfo } = await results(batchId)
    expect(score).toEqual([3, null, 1])
    expect(reason[1]).toBe('function_error')
    expect(rewardExtraInfo.seen?.[0]).toEqual(['3'])
    const failed = await service.api.samples.get.query({ id: `${batchId}-1` })
    expect(failed.attemptLog[0]?.detail).toContain('not this one')
  })

  it('never splits a group, and passes members with a given score too', async () => {
    const path = file('ranks.ts', RANKS)
    const samples = [
      ...Array.from({ length: 150 }, (_, i) => of('large', i)),
      of('small', 2),
      sample({ uid: 'small', response: '1', score: 0.5 }),
    ]
    const { batchId } = await submit(batch(path), samples)
    expect(await wait(batchId)).toMatchObject({ scored: 152, groupsCompleted: 2 })
    const { score, rewardExtraInfo } = await results(batchId)
    expect(score.slice(0, 150)).toEqual(Array.from({ length: 150 }, (_, i) => i))
    expect(new Set(rewardExtraInfo.members?.slice(0, 150))).toEqual(new Set([150]))
    expect(score.slice(150)).toEqual([1, 0.5])
    expect(rewardExtraInfo.members?.[150]).toBe(2)
  })

  it('waits until a group of an open batch is full, and scores partial groups at the close', async () => {
    const path = file('ranks.ts', RANKS)
    const { batchId } = await submit(batch(path), [of('a', 3), of('b', 5)], {
      open: true,
      groupSize: 3,
    })
    const append = (startIndex: number, samples: Sample[]) =>
      service.api.batches.append.mutate({ batchId, startIndex, samples })
    await append(2, [of('a', 1), of('b', 4)])
    await append(4, [of('a', 2), of('c', 8)])
    const { groups } = await next(batchId, 3)
    expect(groups.map(({ uid }) => uid)).toEqual(['a'])
    expect(groups[0]?.samples.map((s) => s.score)).toEqual([2, 0, 1])
    expect((await results(batchId)).status[1]).toBe('queued')
    await service.api.batches.close.mutate({ batchId })
    await service.api.batches.close.mutate({ batchId })
    expect(await wait(batchId)).toMatchObject({ status: 'completed', scored: 6 })
    const { score, rewardExtraInfo } = await results(batchId)
    expect(score).toEqual([2, 1, 0, 0, 1, 0])
    expect(rewardExtraInfo.members).toEqual([3, 2, 3, 2, 3, 1])
  })

  it('fails a group whose call fails, and a single member without a result', async () => {
    const path = file('ranks.ts', RANKS)
    const { batchId } = await submit(batch(path), [
      of('a', 1),
      of('a', 'throws'),
      of('b', 1),
      of('b', 'short'),
      of('c', 1),
      of('c', 'bad'),
    ])
    expect(await wait(batchId)).toMatchObject({ scored: 1, failed: 5, groupsCompleted: 3 })
    const { score, reason } = await results(batchId)
    expect(score).toEqual([null, null, null, null, 0, null])
    expect(new Set(reason.filter((r) => r !== null))).toEqual(new Set(['function_error']))
    expect(reason[4]).toBeNull()
  })

  it.each<[Part, boolean]>([
    ['worker', false],
    ['all', true],
  ])('survives kill -9 of %s: every group is scored as a whole, once', async (part, restart) => {
    const path = file('ranks.ts', RANKS)
    const samples = Array.from({ length: 400 }, (_, i) => of(`g${i >> 2}`, (i * 7) % 401))
    const { batchId } = await submit(
      { ...batch(path, { delayMs: 300 }), maxConcurrency: 10 } as Submit['reward'],
      samples,
    )
    const delivered = await killedInItsMiddle(batchId, part, restart)
    expect(delivered.every((s) => s.rewardExtraInfo.members === 4)).toBe(true)
    for (let g = 0; g < 100; g++) {
      expect(
        delivered
          .slice(4 * g, 4 * g + 4)
          .map((s) => s.score)
          .sort(),
      ).toEqual([0, 1, 2, 3])
    }
  })

  it('post-processes its scores if the function exports postProcessScores', async () => {
    const path = file(
      'both.ts',
      `export default {
         computeScore: ({ solutionStrs }) => solutionStrs.map(Number),
         postProcessScores: (scores) => scores.map((score) => score / Math.max(...scores)),
       }`,
    )
    const { batchId } = await submit(batch(path), [of('a', 1), of('a', 4)])
    await wait(batchId)
    expect((await results(batchId)).score).toEqual([0.25, 1])
  })

  it('needs a function', async () => {
    await expect(submit({ manager: 'batch' }, [of('a', 1)])).rejects.toMatchObject({
      data: { reason: 'invalid_input' },
    })
  })
})
