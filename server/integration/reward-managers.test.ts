import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type SimulatedServers,
  startSimulatedServers,
} from '../../testkit/processes/simulated-rm.ts'
import { FULL, itInFullRun } from '../../testkit/service/full-run.ts'
import { rollouts, type Sample, type Submit, sample } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { stopCleanly } from '../../testkit/service/service-with-model.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { textId } from '../../testkit/simulated-rm/text.ts'

const WORKERS = FULL ? 4 : 2

let service: Service
let servers: SimulatedServers

beforeAll(async () => {
  ;[service, servers] = await Promise.all([
    Service.start({ env: { REWARDOPS_WORKERS: String(WORKERS) } }),
    startSimulatedServers(['--latency', '20']),
  ])
  await service.api.servers.register.mutate({ name: 'rm', url: servers.urls[0]!, maxInFlight: 64 })
})
afterAll(() => stopCleanly(service, () => servers?.stop()))

type Reward = NonNullable<Submit['reward']>
const submit = (samples: Sample[], reward: Submit['reward'], fields: Partial<Submit> = {}) =>
  service.api.batches.submit.mutate({ run: 'managers', step: 1, samples, reward, ...fields })
const limited = (kwargs: Reward['kwargs'], reward: Reward = { model: servers.model }): Reward => ({
  manager: 'rate_limited',
  kwargs,
  ...reward,
})
const wait = (batchId: string) => service.api.batches.wait.query({ batchId, waitMs: 60_000 })
const results = (batchId: string) => service.api.batches.results.query({ batchId })
const statsOf = async () => (await servers.stats())[0]!

async function arrivals(samples: readonly Sample[]): Promise<number[]> {
  const ids = new Set(samples.map((s) => textId(s.prompt as string, s.response)))
  const { texts } = await statsOf()
  return texts
    .filter(({ id }) => ids.has(id))
    .map(({ atMs }) => atMs)
    .sort((a, b) => a - b)
}

function mostWithin(sorted: readonly number[], forMs: number): number {
  let from = 0
  return sorted.reduce((most, atMs, i) => {
    while ((sorted[from] as number) <= atMs - forMs) from++
    return Math.max(most, i - from + 1)
  }, 0)
}

describe('rate_limited', () => {
  itInFullRun(
    'keeps to the requests per minute over all workers, also when one of them is killed',
    async () => {
      const rpm = 1_200
      const samples = rollouts(140, 4, 'rpm')
      await servers.control({ resetStats: true })
      const { batchId } = await submit(samples, limited({ max_rpm: rpm, max_concurrent: 64 }))
      await waitFor('a third of the calls', async () => (await arrivals(samples)).length > 50)
      await service.kill9('worker')
      expect(await wait(batchId)).toMatchObject({ status: 'completed', scored: 140, failed: 0 })
      const all = await arrivals(samples)
      expect(all.length).toBeGreaterThanOrEqual(140)
      for (const forMs of [500, 1_000, 3_000]) {
        // The burst (1 s of the rate), the calls of `forMs`, 0.5 s of the rate for late calls, and one call per worker.
        const allowed = (rpm / 60) * (1 + forMs / 1_000 + 0.5) + WORKERS
        expect(mostWithin(all, forMs), `${forMs} ms`).toBeLessThanOrEqual(allowed)
      }
      // 120 calls beyond the burst take 6 s, minus the delay of the first call. If each worker had its own limit, they
      // would take 1 s.
      expect(all.at(-1)! - all[0]!).toBeGreaterThan(5_000)
      const scored = await service.sql<{ worker_id: number; n: number }>(
        'select worker_id, count(*)::int as n from sample where batch_id = $1 group by 1',
        [Number(batchId.slice(1))],
      )
      expect(scored.length).toBeGreaterThan(1)
      await service.healthy()
    },
  )

  it('limits concurrent calls over all workers', async () => {
    await servers.control({ resetStats: true })
    const samples = rollouts(80, 4, 'at-once')
    const kwargs = { max_concurrent: 3, limiter: 'three at once' }
    const { batchId } = await submit(samples, limited(kwargs))
    expect(await wait(batchId)).toMatchObject({ scored: 80 })
    expect((await statsOf()).maxInFlight).toBeLessThanOrEqual(3)
  })

  it('is one limit for all batches that name the same limiter', async () => {
    const kwargs = { max_rpm: 1_200, max_concurrent: 32, limiter: 'together' }
    const [one, other] = [rollouts(20, 4, 'one'), rollouts(20, 4, 'other')]
    await servers.control({ resetStats: true })
    const batches = await Promise.all([
      submit(one, limited(kwargs), { run: 'a' }),
      submit(other, limited(kwargs), { run: 'b' }),
    ])
    for (const { batchId } of batches) expect(await wait(batchId)).toMatchObject({ scored: 20 })
    const all = await arrivals([...one, ...other])
    // 20 calls after the burst of 20 take 1 s, minus the delay of the first call.
    expect(all.at(-1)! - all[0]!).toBeGreaterThan(700)
  })

  it('limits rules too, and reports the wait as queue time', async () => {
    const samples = rollouts(12, 4, 'rules')
    const kwargs = { max_rpm: 600, max_concurrent: 8, burst_seconds: 0.2, method: 'flexible' }
    const { batchId } = await submit(samples, limited(kwargs, {}))
    expect(await wait(batchId)).toMatchObject({ scored: 12, rewardName: 'gsm8k' })
    const { rewardExtraInfo, score } = await results(batchId)
    expect(score).toEqual(samples.map((_, i) => (i % 2 === 0 ? 1 : 0)))
    const waits = rewardExtraInfo.rate_limit as { slotMs: number; rpmMs: number; tpmMs: number }[]
    const [longest] = waits.map((each, i) => ({ ...each, i })).sort((a, b) => b.rpmMs - a.rpmMs)
    // Ten calls after the burst of two take 1 s, spread over all workers.
    expect(longest!.rpmMs + longest!.slotMs).toBeGreaterThan(200)
    const detail = await service.api.samples.get.query({ id: `${batchId}-${longest!.i}` })
    expect(detail.queueMs).toBeGreaterThanOrEqual(longest!.rpmMs + longest!.slotMs - 1)
    const totalMs = Date.parse(detail.endedAt!) - Date.parse(detail.submittedAt)
    expect(detail.queueMs! + detail.scoreMs!).toBeLessThan(totalMs + 2)
  })

  it('counts a composite reward as one call', async () => {
    const combine = [
      { name: 'correct' },
      { name: 'rm', weight: 0.1, reward: { model: servers.model } },
    ]
    const samples = rollouts(12, 4, 'sum')
    await servers.control({ resetStats: true })
    const kwargs = { max_rpm: 600, burst_seconds: 0.1, max_concurrent: 8, limiter: 'sums' }
    const { batchId } = await submit(samples, limited(kwargs, { combine }))
    expect(await wait(batchId)).toMatchObject({ scored: 12, rewardName: 'correct + rm' })
    const all = await arrivals(samples)
    // Eleven calls at ten per second take about 1 s.
    expect(all.at(-1)! - all[0]!).toBeGreaterThan(700)
    expect((await results(batchId)).rewardExtraKeys).toEqual(
      expect.arrayContaining(['correct', 'rm', 'rate_limit']),
    )
  })

  it('a call that times out and an error are failures with a reason, never 0, and the batch ends', async () => {
    await servers.control({ latency: 'constant:3000' })
    const late = await submit(
      [sample(), sample()],
      limited({ timeout: 0.3, max_concurrent: 2, limiter: 'late' }),
    )
    expect(await wait(late.batchId)).toMatchObject({ status: 'completed', scored: 0, failed: 2 })
    await servers.control({ latency: 'constant:20' })
    expect(await results(late.batchId)).toMatchObject({
      score: [null, null],
      reason: ['timeout', 'timeout'],
    })
    const samples = [sample(), sample({ groundTruth: null }), sample()]
    const broken = await submit(samples, limited({ max_concurrent: 8, limiter: 'broken' }, {}))
    expect(await wait(broken.batchId)).toMatchObject({ status: 'completed', scored: 2, failed: 1 })
    expect(await results(broken.batchId)).toMatchObject({
      score: [1, null, 1],
      reason: [null, 'function_error', null],
    })
  })

  it('stops waiting when its batch is cancelled, and accepts single samples', async () => {
    const kwargs = { max_rpm: 1, limiter: 'slow' }
    const { batchId } = await submit(rollouts(8, 4, 'cancelled'), limited(kwargs))
    await waitFor('the first score', async () => {
      return (await service.api.batches.get.query({ batchId })).scored === 1
    })
    const cancelled = await service.api.batches.cancel.mutate({ batchId })
    expect(cancelled).toMatchObject({ status: 'cancelled', scored: 1, failed: 7 })
    const one = await service.api.samples.score.mutate({
      run: 'managers',
      step: 2,
      sample: sample(),
      reward: limited({ max_rpm: 600, limiter: 'single' }, {}),
    })
    expect(one).toMatchObject({ status: 'scored', score: 1 })
    expect(one.rewardExtraInfo.rate_limit).toEqual({
      slotMs: expect.any(Number),
      rpmMs: 0,
      tpmMs: 0,
    })
  })
})

describe('gdpo', () => {
  it('keeps each dimension in the extra info, and names the one that a sample lacks', async () => {
    const samples = [
      sample({ dataSource: 'math_dapo', response: 'Answer: 72' }),
      sample(),
      sample({ dataSource: 'math_dapo', response: 'Answer: 7' }),
    ]
    const kwargs = { gdpo_reward_keys: ['acc', 'score'], gdpo_reward_weights: [1, 0.5] }
    const { batchId } = await submit(samples, { manager: 'gdpo', kwargs })
    expect(await wait(batchId)).toMatchObject({ scored: 2, failed: 1 })
    const { score, reason, rewardExtraInfo } = await results(batchId)
    expect(score).toEqual([1, null, -1])
    expect(reason[1]).toBe('function_error')
    expect(rewardExtraInfo).toMatchObject({ acc: [true, null, false], score: [1, null, -1] })
    const detail = await service.api.samples.get.query({ id: `${batchId}-1` })
    expect(detail.attemptLog[0]?.detail).toBe(
      'dimension "score" is missing: the extra info has acc',
    )
  })

  it('uses the components of a composite reward as dimensions', async () => {
    const combine = [
      { name: 'correct' },
      { name: 'rm', weight: 0, reward: { model: servers.model } },
    ]
    const kwargs = { gdpo_reward_keys: ['correct', 'rm'] }
    const { batchId } = await submit(rollouts(9, 4), { manager: 'gdpo', kwargs, combine })
    expect(await wait(batchId)).toMatchObject({ scored: 9 })
    const { rewardExtraInfo, score } = await results(batchId)
    expect(score).toEqual(rewardExtraInfo.correct)
    for (const value of rewardExtraInfo.rm ?? []) expect(value).toEqual(expect.any(Number))
  })
})
