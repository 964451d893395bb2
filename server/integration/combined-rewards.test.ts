import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { batchCalls } from '../../testkit/service/batch-calls.ts'
import { itInFullRun } from '../../testkit/service/full-run.ts'
import { expectRefusal } from '../../testkit/service/refusals.ts'
import { rollouts, type Sample, type Submit, sample } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { stopCleanly } from '../../testkit/service/service-with-model.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { SimulatedServer } from '../../testkit/simulated-rm/server.ts'
import type { ErrorReason } from '../contract/error-reasons.ts'

const RM = 'skywork'
const JUDGE = 'judge'

const folder = mkdtempSync(join(tmpdir(), 'rewardops-parts-'))
let service: Service
let rm: SimulatedServer
let judge: SimulatedServer

beforeAll(async () => {
  // The tests check the list of all runs with composite rewards, so they do not use the shared service.
  service = await Service.start({
    env: { REWARDOPS_WORKERS: '1', REWARDOPS_FUNCTIONS_DIR: folder },
  })
  rm = await SimulatedServer.start({ model: RM, maxModelLen: 8_192 })
  judge = await SimulatedServer.start({ dialect: 'chat', model: JUDGE })
  await service.api.servers.register.mutate({ name: 'rm-0', url: rm.url, maxInFlight: 16 })
  await service.api.servers.register.mutate({
    name: 'judge-0',
    url: judge.url,
    engine: 'openai',
    kind: 'generative',
  })
})
afterEach(() => {
  rm.control({ latency: 'constant:0', faults: { html: 0 } })
})
afterAll(() =>
  stopCleanly(service, async () => {
    await rm?.close()
    await judge?.close()
    rmSync(folder, { recursive: true, force: true })
  }),
)

const correct = { name: 'correct', reward: { function: { name: 'gsm8k' } } }
const preference = { name: 'rm', weight: 0.1, reward: { model: RM } }

const calls = batchCalls(() => service, { run: 'sums' })
const { ended: wait, results } = calls
const submit = (samples: Sample[], reward: Submit['reward'], fields: Partial<Submit> = {}) =>
  calls.submit(samples, { reward, ...fields })
const numbers = (column: unknown[] | undefined) => (column ?? []) as number[]

// These tests run first, because they expect that no composite rewards exist yet.
describe('rewards.components', () => {
  const combine = [
    { name: 'right', weight: 1 },
    { name: 'loose', weight: 0.5, reward: { kwargs: { method: 'flexible', format_score: 0.2 } } },
  ]
  async function scored(
    run: string,
    step: number,
    reward: Submit['reward'],
    samples = rollouts(8),
  ) {
    const { batchId } = await service.api.batches.submit.mutate({ run, step, samples, reward })
    await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
    return service.api.batches.results.query({ batchId })
  }
  const components = (run?: string) =>
    service.api.rewards.components.query(run === undefined ? {} : { run })
  const meanOf = (values: unknown[]) =>
    values.reduce((sum: number, value) => sum + Number(value), 0) / values.length

  it('lists no components without composite rewards', async () => {
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

  it('aggregates each component and the reward itself over the scored samples of a step', async () => {
    await scored('summed', 1, { combine })
    const odd = rollouts(8)
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
    const part = await service.api.rewards.components.query({ run: 'summed', from: 2, until: 3 })
    expect(part.components.map(({ points }) => points.map(({ step }) => step))).toEqual([
      ...[[3], [3], [3]],
    ])
  })

  it('aggregates the dimensions of gdpo and counts true as 1', async () => {
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

  it('leaves out extra info that cannot be decoded, and does not count it', async () => {
    await scored('later', 1, { combine })
    // The batch may have been rolled up already, with the extra info as it was.
    await service.sql(
      `with broken as (
         update sample set reward_extra = '{"right": 1, "loose": 1, "text": "\\u0000"}'
         where idx = 1 and batch_id = (select max(b.id) from batch b join run r on r.id = b.run_id where r.name = 'later')
         returning batch_id)
       update batch set rolled_up = false where id in (select batch_id from broken)`,
    )
    const found = await components('later')
    expect(found.components.find(({ name }) => name === 'right')?.points[0]?.n).toBe(7)
  })
})

describe('a composite reward', () => {
  it('returns the weighted sum and each component', async () => {
    const samples = rollouts(37, 5)
    const { batchId } = await submit(samples, { combine: [correct, preference] })
    expect(await wait(batchId)).toMatchObject({
      status: 'completed',
      scored: 37,
      failed: 0,
      rewardName: 'correct + rm',
    })
    const { score, rawScore, rewardExtraKeys, rewardExtraInfo } = await results(batchId)
    expect(rewardExtraKeys).toEqual(['correct', 'correct/acc', 'rm'])
    const alone = await submit(samples, { model: RM })
    await wait(alone.batchId)
    const byModel = await results(alone.batchId)
    const ruled = samples.map((_, i) => (i % 2 === 0 ? 1 : 0))
    expect(rewardExtraInfo.correct).toEqual(ruled)
    expect(rewardExtraInfo.rm).toEqual(byModel.score)
    expect(rawScore).toEqual(score)
    for (const [i, value] of score.entries()) {
      expect(value).toBeCloseTo((ruled[i] as number) + 0.1 * (byModel.score[i] as number), 12)
    }
  })

  it('can include a judge with its own keys; keys that some samples lack are null', async () => {
    const judged = { name: 'taste', weight: 0.05, reward: { model: JUDGE, judge: 'rating-1-10' } }
    const bySource = { name: 'correct' }
    const samples = [sample(), sample({ dataSource: 'math_dapo', response: 'Answer: 72' })]
    const { batchId } = await submit(samples, { combine: [bySource, judged, preference] })
    expect(await wait(batchId)).toMatchObject({ scored: 2 })
    const { rewardExtraKeys, rewardExtraInfo, score } = await results(batchId)
    expect(rewardExtraKeys).toEqual(
      expect.arrayContaining(['correct', 'correct/pred', 'taste', 'taste/judge', 'rm']),
    )
    expect(rewardExtraInfo['correct/pred']).toEqual([null, '72'])
    expect(rewardExtraInfo['correct/acc']).toEqual([1, true])
    const tastes = numbers(rewardExtraInfo.taste)
    const scores = numbers(rewardExtraInfo.rm)
    for (const at of [0, 1]) {
      const sum = 1 + 0.05 * (tastes[at] as number) + 0.1 * (scores[at] as number)
      expect(score[at]).toBeCloseTo(sum, 12)
    }
  })

  it('scores 1,023 of 1,024 samples when one fails', async () => {
    const samples = rollouts(1_024, 8)
    samples[517] = { ...(samples[517] as Sample), groundTruth: null }
    const { batchId } = await submit(samples, { combine: [correct, preference] })
    expect(await wait(batchId)).toMatchObject({ status: 'completed', scored: 1_023, failed: 1 })
    const { score, reason } = await results(batchId)
    expect(score.flatMap((value, i) => (value === null ? [i] : []))).toEqual([517])
    expect(reason[517]).toBe('function_error')
    const detail = await service.api.samples.get.query({ id: `${batchId}-517` })
    expect(detail.attemptLog[0]?.detail).toMatch(/^component "correct": groundTruth is missing/)
    const { groups } = await service.api.batches.next.query({ batchId, samples: 1_000_000 })
    expect(groups).toHaveLength(128)
  })

  it('accepts single samples, and an empty open batch ends', async () => {
    const reward = { combine: [correct, preference] }
    const one = await service.api.samples.score.mutate({
      run: 'sums',
      step: 2,
      sample: sample(),
      reward,
    })
    expect(one).toMatchObject({ status: 'scored', rewardExtraInfo: { correct: 1 } })
    expect(one.score).toBeCloseTo(1 + 0.1 * (one.rewardExtraInfo.rm as number), 12)
    const { batchId } = await submit([], reward, { open: true })
    await service.api.batches.close.mutate({ batchId })
    expect(await wait(batchId)).toMatchObject({ status: 'completed', samples: 0 })
  })

  it('is reduced by the overlong penalty of dapo', async () => {
    const buffer = { enable: true, len: 40, penalty_factor: 1 }
    const kwargs = { max_resp_len: 100, overlong_buffer_cfg: buffer }
    const reward = { manager: 'dapo', kwargs, combine: [correct, preference] }
    const { batchId } = await submit([sample({ responseLength: 80 })], reward)
    expect(await wait(batchId)).toMatchObject({ scored: 1 })
    const { score, rawScore } = await results(batchId)
    expect(score[0]).toBeCloseTo((rawScore[0] as number) - 0.5, 12)
  })

  it('can include a custom function, whose failure names the component', async () => {
    writeFileSync(
      join(folder, 'shape.js'),
      `export function shape({ solution_str, most }) {
         if (solution_str.includes('poison')) throw new Error('no shape')
         return { score: Math.min(solution_str.length, most) / most, chars: solution_str.length }
       }`,
    )
    const own = {
      name: 'shape',
      weight: 2,
      reward: { function: { path: 'shape.js', name: 'shape', kwargs: { most: 10 } } },
    }
    const samples = [sample(), sample({ response: '#### 72' }), sample({ response: 'poison' })]
    const { batchId } = await submit(samples, { combine: [correct, preference, own] })
    expect(await wait(batchId)).toMatchObject({ scored: 2, failed: 1 })
    const { score, reason, rewardExtraInfo } = await results(batchId)
    expect(rewardExtraInfo.shape).toEqual([1, 0.7, null])
    expect(rewardExtraInfo['shape/chars']?.[1]).toBe(7)
    const scores = numbers(rewardExtraInfo.rm)
    expect(score[1]).toBeCloseTo(1 + 0.1 * (scores[1] as number) + 1.4, 12)
    expect(reason[2]).toBe('function_error')
    const detail = await service.api.samples.get.query({ id: `${batchId}-2` })
    expect(JSON.stringify(detail.attemptLog)).toContain('no shape')
    const alone = await submit(samples.slice(0, 2), { combine: [correct, own] })
    expect(await wait(alone.batchId)).toMatchObject({ scored: 2 })
    expect((await results(alone.batchId)).score).toEqual([3, 2.4])
  })

  it('may consist of rules only', async () => {
    const flexible = {
      name: 'somewhere',
      weight: 0.25,
      reward: { function: { name: 'gsm8k' }, kwargs: { method: 'flexible' } },
    }
    const samples = [sample(), sample({ response: 'It is 72' }), sample({ response: 'No idea' })]
    const { batchId } = await submit(samples, { combine: [correct, flexible] })
    expect(await wait(batchId)).toMatchObject({ scored: 3 })
    expect((await results(batchId)).score).toEqual([1.25, 0.25, 0])
  })
})

describe('a component that fails', () => {
  it('fails its sample with its reason and its name', async () => {
    const judged = { name: 'taste', reward: { model: JUDGE, judge: 'rating-1-10' } }
    const reward = { combine: [judged, { ...preference, reward: { model: RM, maxAttempts: 1 } }] }
    const long = sample({ response: 'word '.repeat(20_000) })
    const { batchId } = await submit([long, long], reward)
    expect(await wait(batchId)).toMatchObject({ scored: 0, failed: 2 })
    expect((await results(batchId)).reason).toEqual(['context_exceeded', 'context_exceeded'])
    const { attemptLog } = await service.api.samples.get.query({ id: `${batchId}-0` })
    const why = attemptLog.find(({ reason }) => reason === 'context_exceeded')
    expect(why).toMatchObject({
      serverName: 'rm-0',
      detail: expect.stringMatching(/^component "rm": /),
    })
  })

  it('follows the failure policy of its group', async () => {
    const samples = rollouts(8, 4)
    samples[1] = { ...(samples[1] as Sample), groundTruth: null }
    const onFailure = { policy: 'group_mean' } as const
    const { batchId } = await submit(samples, { combine: [correct], onFailure })
    expect(await wait(batchId)).toMatchObject({ scored: 7, failed: 1 })
    const { score, substituted } = await results(batchId)
    expect(substituted.indexOf(true)).toBe(1)
    expect(score[1]).toBeCloseTo(2 / 3, 12)
  })

  it('has its own time limit', async () => {
    rm.control({ latency: 'constant:2000' })
    const late = { name: 'rm', reward: { model: RM, timeoutMs: 200, maxAttempts: 1 } }
    const { batchId } = await submit([sample()], { combine: [correct, late] })
    expect(await wait(batchId)).toMatchObject({ failed: 1 })
    expect(await results(batchId)).toMatchObject({ score: [null], reason: ['timeout'] })
  })
})

itInFullRun(
  'sleepAfter wakes the servers of every component’s model and puts them back to sleep',
  async () => {
    const names = ['sleepy-a', 'sleepy-b']
    const servers = await Promise.all(
      names.map((model) => SimulatedServer.start({ model, wakeMs: 50 })),
    )
    for (const [at, name] of names.entries()) {
      await service.api.servers.register.mutate({ name, url: servers[at]!.url })
      await service.api.servers.sleep.mutate({ name })
    }
    const combine = [correct, ...names.map((model) => ({ name: model, reward: { model } }))]
    const { batchId } = await submit(rollouts(16), { combine, sleepAfter: true })
    expect(await wait(batchId)).toMatchObject({ scored: 16, failed: 0 })
    for (const name of names) {
      await waitFor(`${name} to sleep`, async () => {
        return (await service.api.servers.get.query({ name })).state === 'sleeping'
      })
    }
    for (const server of servers) {
      const routes = server.stats().lifecycle.map(({ route }) => route.replace(/\?.*/, ''))
      expect(routes).toEqual(['POST /sleep', 'POST /wake_up', 'POST /sleep'])
    }
    for (const name of names) await service.api.servers.remove.mutate({ name })
    await Promise.all(servers.map((server) => server.close()))
  },
)

it('an invalid composite reward is refused at the submit', async () => {
  const refuse = async (reward: object, message: RegExp, reason: ErrorReason = 'invalid_input') => {
    const body = JSON.stringify({ run: 'sums', step: 1, samples: [sample()], reward })
    const answer = await service.post('batches.submit', body)
    expectRefusal(answer, { status: 400, reason, message })
  }
  await refuse({ combine: [] }, /combine/)
  await refuse({ combine: [correct, correct] }, /"correct" is the name of an earlier component/)
  await refuse(
    { combine: [{ name: 'x', reward: { model: 'skywrok' } }] },
    /mean "skywork"/,
    'unknown_model',
  )
  await refuse({ combine: [{ name: 'x', weight: 'a' }] }, /combine\[0\]\.weight/)
  await refuse({ combine: [{ name: 'x', reward: { combine: [] } }] }, /unknown field "combine"/)
  await refuse({ combine: [correct], model: RM }, /reward\.combine and reward\.model/)
})
