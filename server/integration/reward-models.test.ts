import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import {
  type SimulatedServers,
  startSimulatedServers,
} from '../../testkit/processes/simulated-rm.ts'
import type { ApiInputs } from '../../testkit/processes/trpc-call.ts'
import { inFullRun, itInFullRun } from '../../testkit/service/full-run.ts'
import { rollouts, type Sample, type Submit, sample } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { stopCleanly } from '../../testkit/service/service-with-model.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import type { MemberResult, NextResult, Result } from '../contract/trainer.ts'

const MODEL = 'judge/pair'
const LIMITED = 'judge/limited'

let service: Service
let a: SimulatedServers
let b: SimulatedServers
let limited: SimulatedServers

beforeAll(async () => {
  const rm = (model: string) => startSimulatedServers(['--model', model])
  ;[service, a, b, limited] = await Promise.all([
    Service.start(),
    rm(MODEL),
    rm(MODEL),
    rm(LIMITED),
  ])
  // The limits are fixed, because adaptive limits grow at different times. With adaptive limits, the shares of 600
  // samples differed by up to 260; with fixed limits by up to 12, or 52 on a busy machine.
  await register('a', a, { maxInFlight: 16 })
  await register('b', b, { maxInFlight: 16 })
  await register('limited', limited, { maxInFlight: 6 })
})

afterEach(async () => {
  for (const rm of [a, b, limited]) await rm.control({ latency: 0, faults: null }).catch(() => {})
})

afterAll(() => stopCleanly(service, () => Promise.all([a, b, limited].map((rm) => rm?.stop()))))

const register = (
  name: string,
  rm: SimulatedServers,
  fields: Partial<ApiInputs['servers']['register']> = {},
) => service.api.servers.register.mutate({ name, url: rm.url, ...fields })

function submit(samples: Sample[], reward: Submit['reward'], fields: Partial<Submit> = {}) {
  const model = reward?.model === undefined ? { model: LIMITED } : {}
  return service.api.batches.submit.mutate({
    run: 'models',
    step: 1,
    samples,
    reward: { ...model, ...reward },
    ...fields,
  })
}

const wait = (batchId: string) => service.api.batches.wait.query({ batchId, waitMs: 60_000 })
const results = (batchId: string) => service.api.batches.results.query({ batchId })
const allGroups = (batchId: string) =>
  service.api.batches.next.query({ batchId, samples: 1_000_000, waitMs: 60_000 })
const workersOf = ({ groups }: NextResult) =>
  new Set(groups.flatMap((g) => g.samples.map((s) => s.workerId)))
const attempts = async (id: string) => (await service.api.samples.get.query({ id })).attemptLog

const idle = (rm: SimulatedServers) =>
  waitFor('an idle reward model', async () => (await rm.counters()).inFlight === 0)

describe('a score', () => {
  it('is the model’s raw score with its origin', async () => {
    const { batchId } = await submit([sample({ responseLength: 7 }), sample()], {})
    expect(await wait(batchId)).toMatchObject({ scored: 2, rewardName: LIMITED })
    const { groups } = await allGroups(batchId)
    const [first, second] = groups[0]!.samples as [MemberResult, MemberResult]
    expect(first).toMatchObject({
      status: 'scored',
      serverName: 'limited',
      attempts: 1,
      position: 6,
      rewardExtraInfo: {},
    })
    expect(first.score).toBe(first.rawScore)
    expect(second.score).toBe(first.score)
    const many = await submit(rollouts(64), {})
    const { min, max } = await wait(many.batchId)
    expect(min).toBeLessThan(-1)
    expect(max).toBeGreaterThan(1)
  })
})

it('a sample with an image that the engine does not accept is explained in the playground', async () => {
  const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } }
  const prompt = [{ role: 'user', content: [image] }]
  const { end, steps } = await service.api.rewards.try.mutate({
    sample: { dataSource: 'openai/gsm8k', prompt, response: '#### 72', groundTruth: '72' },
    reward: { model: LIMITED },
  })
  expect(steps).toMatchObject([{ kind: 'model', request: null, end }])
  expect(end).toMatchObject({ ok: false, reason: 'rejected' })
  expect(JSON.stringify(end)).toContain('gets text only')
})

describe('limits, as the server sees them', () => {
  it('keep calls in flight at maxInFlight, over both workers', async () => {
    await limited.control({ latency: 20, resetStats: true })
    const { batchId } = await submit(rollouts(240), {})
    const groups = await allGroups(batchId)
    expect(await wait(batchId)).toMatchObject({ scored: 240 })
    const { maxInFlight, requests } = await limited.counters()
    expect({ maxInFlight, requests }).toEqual({ maxInFlight: 6, requests: 240 })
    expect(workersOf(groups).size).toBe(2)
  })

  it('keep to a maxInFlight of 1 that is set while calls are in flight', async () => {
    await limited.control({ latency: 10, resetStats: true })
    const { batchId } = await submit(rollouts(160), {})
    await waitFor('the first half', async () => (await limited.counters()).answered > 60)
    await service.api.servers.update.mutate({ name: 'limited', maxInFlight: 1 })
    await waitFor('leases under the new limit', async () => {
      const [row] = await service.sql<{ slots: number }>(
        `select coalesce(sum(slots), 0)::int as slots from lease
         where expires_at > clock_timestamp()
           and resource = (select 'server:' || id from server where name = 'limited')`,
      )
      return row?.slots === 1
    })
    const before = await limited.counters()
    await waitFor('the end of earlier calls', async () => {
      return (await limited.counters()).answered > before.answered + 10
    })
    await limited.control({ resetStats: true })
    expect(await wait(batchId)).toMatchObject({ scored: 160, failed: 0 })
    const { maxInFlight, answered } = await limited.counters()
    expect(maxInFlight).toBe(1)
    expect(answered).toBeGreaterThan(20)
    await service.api.servers.update.mutate({ name: 'limited', maxInFlight: 6 })
  })

  it('keep a batch at its maxConcurrency, over both workers', async () => {
    await limited.control({ latency: 20, resetStats: true })
    const { batchId } = await submit(rollouts(100), { maxConcurrency: 3 })
    expect(await wait(batchId)).toMatchObject({ scored: 100 })
    expect((await limited.counters()).maxInFlight).toBe(3)
  })

  itInFullRun(
    'keep single samples from several callers at the maxConcurrency of their batch',
    async () => {
      await limited.control({ latency: 2, resetStats: true })
      const reward = { model: LIMITED, maxConcurrency: 2 }
      const call = (s: Sample) =>
        service.api.samples.score.mutate({ run: 'models', step: 2, reward, sample: s })
      const texts = rollouts(120)
      const answers: Result[] = []
      // Four callers make sequential calls, so that batches begin and end in the workers all the time.
      await Promise.all(
        [0, 1, 2, 3].map(async (caller) => {
          for (let i = caller; i < texts.length; i += 4)
            answers.push(await call(texts[i] as Sample))
        }),
      )
      expect(answers.every((answer) => answer.status === 'scored')).toBe(true)
      expect((await limited.counters()).maxInFlight).toBeLessThanOrEqual(2)
    },
  )
})

describe('two servers of a model', () => {
  it('share its samples about equally', async () => {
    // A server that answers more slowly gets fewer samples. 200 ms is long compared with the delays of a busy machine.
    await Promise.all([a, b].map((rm) => rm.control({ latency: 200, resetStats: true })))
    // The workers get their slots one after the other. The measured batch therefore follows a batch that uses all slots
    // of both servers, before any slot is returned.
    const warmUps: string[] = []
    await waitFor('all slots of both servers in use', async () => {
      const batchId = warmUps.at(-1)
      const warmUp = batchId && (await service.api.batches.wait.query({ batchId, waitMs: 0 }))
      if (!warmUp || warmUp.scored > 80) {
        warmUps.push((await submit(rollouts(160), { model: MODEL })).batchId)
      }
      const [leased] = await service.sql<{ servers: number }>(
        `select count(*)::int as servers from server where name in ('a', 'b') and
           16 = (select sum(slots) from lease where resource = 'server:' || server.id)`,
      )
      return leased?.servers === 2
    })
    const { batchId } = await submit(rollouts(160), { model: MODEL })
    const serversOf = async (id: string) =>
      (await allGroups(id)).groups.flatMap((g) => g.samples.map((s) => s.serverName))
    const named = await serversOf(batchId)
    const namedA = named.filter((name) => name === 'a').length
    expect(Math.abs(2 * namedA - 160), `${namedA} of 160`).toBeLessThan(48)

    const all = [named, ...(await Promise.all(warmUps.map(serversOf)))].flat()
    const [inA, inB] = [(await a.counters()).answered, (await b.counters()).answered]
    // On a busy machine a few samples are hedged, and then both servers answer.
    const hedged = inA + inB - all.length
    expect([hedged >= 0, hedged < all.length / 10], `${inA} and ${inB}`).toEqual([true, true])
    const sentToA = inA - all.filter((name) => name === 'a').length
    expect([sentToA >= 0, sentToA <= hedged], `${sentToA} of ${hedged}`).toEqual([true, true])
  })

  it('report their work and their share of the pool', async () => {
    const detail = await waitFor('the minutes of both', async () => {
      const now = await service.api.servers.get.query({ name: 'a' })
      return now.minutes.length > 0 && now.imbalance !== null && now
    })
    expect(detail.minutes.at(-1)).toMatchObject({
      minute: expect.stringMatching(/T\d\d:\d\d:00\.000Z$/),
      requests: expect.any(Number),
      errors: 0,
      client: 0,
      p50Ms: expect.any(Number),
    })
    expect(detail.pool.map((s) => s.name)).toEqual(['a', 'b'])
    const sum = (values: (number | null)[]) => values.reduce<number>((n, x) => n + (x ?? 0), 0)
    expect(sum(detail.pool.map((s) => s.capacityShare))).toBeCloseTo(1, 9)
    expect(sum(detail.pool.map((s) => s.requestShare))).toBeCloseTo(1, 9)
    expect(detail.imbalance).toBeGreaterThanOrEqual(1)
    expect(detail.workers.map((w) => w.workerId)).toEqual(
      expect.arrayContaining([expect.stringMatching(/^w\d+$/)]),
    )
    for (const worker of detail.workers) expect(worker.inFlight).toBeGreaterThanOrEqual(0)
    expect(detail.health.ejected).toBe(0)
  })

  it('replace each other: a drained one gets no new calls', async () => {
    expect(await service.api.servers.drain.mutate({ name: 'a' })).toMatchObject({
      state: 'draining',
    })
    await idle(a)
    await a.control({ resetStats: true })
    const { batchId } = await submit(rollouts(40), { model: MODEL })
    expect(await wait(batchId)).toMatchObject({ scored: 40 })
    // Calls that were assigned to the server before the drain may still be in flight.
    expect((await a.counters()).requests).toBeLessThan(40)
    await a.control({ resetStats: true })
    const second = await submit(rollouts(40), { model: MODEL })
    expect(await wait(second.batchId)).toMatchObject({ scored: 40, retries: 0 })
    expect((await a.counters()).requests).toBe(0)
    expect(await service.api.servers.resume.mutate({ name: 'a' })).toMatchObject({ state: 'ready' })
  })

  it('replace each other: one dies with samples in flight', async () => {
    await Promise.all([a, b].map((rm) => rm.control({ latency: 25, resetStats: true })))
    const { batchId } = await submit(rollouts(400), { model: MODEL })
    await waitFor('some answers', async () => (await a.counters()).answered >= 60)
    const { port } = new URL(a.url)
    a.process.kill('SIGKILL')
    await a.ended
    const end = await wait(batchId)
    expect(end).toMatchObject({ status: 'completed', scored: 400, failed: 0 })
    expect(end.retries).toBeGreaterThan(0)
    const { groups } = await allGroups(batchId)
    const twice = groups.flatMap((g) => g.samples).filter((s) => s.attempts > 1)
    expect(twice.length).toBeGreaterThan(0)
    for (const { index, serverName } of twice.slice(0, 5)) {
      expect(serverName).toBe('b')
      const log = await attempts(`${batchId}-${index}`)
      // A call that raced with the end of its connection is retried under the same attempt number.
      const numbers = log.map((entry) => entry.attempt)
      expect(numbers).toEqual([...numbers].sort((x, y) => x - y))
      const lost = log.find((entry) => entry.serverName === 'a')
      expect(lost).toMatchObject({
        outcome: expect.not.stringMatching('ok'),
        detail: expect.stringMatching(/\w/),
      })
      expect(log.at(-1)).toMatchObject({ serverName: 'b', outcome: 'ok', reason: null })
    }
    const stateOfA = (state: string) =>
      waitFor(`a ${state} server`, async () => {
        const servers = await service.api.servers.list.query()
        return servers.find((s) => s.name === 'a')?.state === state
      })
    const probed = await service.api.servers.probe.mutate({ name: 'a' })
    expect(probed).toMatchObject({ state: 'unreachable', stateCause: expect.stringMatching(/\w/) })
    a = await startSimulatedServers(['--model', MODEL, '--port', port])
    await stateOfA('ready')
    await waitFor('answers of the restarted server', async () => {
      const more = await submit(rollouts(40), { model: MODEL })
      await wait(more.batchId)
      return (await a.counters()).answered > 0
    })
  })
})

describe('failed samples', () => {
  it('have a reason and no raw score, and are substituted on request', async () => {
    await limited.control({ faults: { refused: 0.15 }, drawBy: 'text' })
    const samples = rollouts(64)
    const reward = { maxAttempts: 1, onFailure: { policy: 'constant', value: -7 } } as const
    const { batchId } = await submit(samples, reward)
    const end = await wait(batchId)
    expect(end.scored + end.failed).toBe(64)
    expect(Math.min(end.scored, end.failed)).toBeGreaterThan(0)
    const columns = await results(batchId)
    const kept: number[] = []
    for (let i = 0; i < 64; i++) {
      const failed = columns.status[i] === 'failed'
      expect(columns.substituted[i]).toBe(failed)
      expect(columns.reason[i]).toBe(failed ? 'rejected' : null)
      if (failed) expect([columns.score[i], columns.rawScore[i]]).toEqual([-7, null])
      else kept.push(columns.score[i] as number)
    }
    const mean = kept.reduce((sum, x) => sum + x, 0) / kept.length
    expect(end.mean).toBeCloseTo(mean, 9)
    expect(end.min).toBe(Math.min(...kept))
    for (const group of (await allGroups(batchId)).groups) {
      const own = group.samples.filter((s) => s.status === 'scored').map((s) => s.score as number)
      if (own.length === 0) expect(group.mean).toBeNull()
      else expect(group.mean).toBeCloseTo(own.reduce((s, x) => s + x, 0) / own.length, 9)
    }
  })

  it('end as timeout after timeoutMs, and their calls are cancelled', async () => {
    await limited.control({ latency: 600_000 })
    const { batchId } = await submit([sample(), sample()], { timeoutMs: 200 })
    expect(await wait(batchId)).toMatchObject({ scored: 0, failed: 2 })
    expect((await results(batchId)).reason).toEqual(['timeout', 'timeout'])
    await idle(limited)
  })

  it.each([
    ['a constant', { policy: 'constant', value: 0.25 }, 0.25],
    ...inFullRun(['null', { policy: 'null' }, null] as const),
  ] as const)(
    'end as deadline after deadlineMs, with %s as the score',
    async (_, onFailure, score) => {
      await limited.control({ latency: 600_000 })
      const { batchId } = await submit(rollouts(160), { onFailure }, { deadlineMs: 300 })
      expect(await wait(batchId)).toMatchObject({ status: 'completed', scored: 0, failed: 160 })
      const columns = await results(batchId)
      expect(new Set(columns.reason)).toEqual(new Set(['deadline']))
      expect(new Set(columns.score)).toEqual(new Set([score]))
      expect(new Set(columns.substituted)).toEqual(new Set([score !== null]))
      expect(new Set(columns.rawScore)).toEqual(new Set([null]))
      const { groups, done } = await allGroups(batchId)
      expect(groups.map((g) => g.seq)).toEqual(Array.from({ length: 20 }, (_, i) => i + 1))
      expect(done).toBe(true)
      await idle(limited)
    },
  )

  it('wait for a server of the model until their time limit', async () => {
    const { id } = await service.api.servers.drain.mutate({ name: 'limited' })
    try {
      // Workers learn of the drain after the call, and then return their slots.
      await waitFor('no leases', async () => {
        const [row] = await service.sql<{ n: number }>(
          `select count(*)::int as n from lease
           where resource = 'server:${id.slice(1)}' and slots > 0 and expires_at > clock_timestamp()`,
        )
        return row?.n === 0
      })
      const { batchId } = await submit([sample()], { timeoutMs: 300 }, { deadlineMs: 2_000 })
      expect(await wait(batchId)).toMatchObject({ scored: 0, failed: 1 })
      expect((await results(batchId)).reason[0]).toMatch(/^(no_server|deadline)$/)
    } finally {
      await service.api.servers.resume.mutate({ name: 'limited' })
    }
  })
})

describe('batches.cancel', () => {
  it('ends unscored samples, keeps scored ones, and completes every group', async () => {
    await limited.control({ latency: 20 })
    const { batchId } = await submit(rollouts(400), {})
    const before = await service.api.batches.next.query({ batchId, samples: 16, waitMs: 60_000 })
    const cancelled = await service.api.batches.cancel.mutate({ batchId })
    expect(cancelled.status).toBe('cancelled')
    expect(cancelled.scored + cancelled.failed).toBe(400)
    expect(cancelled.scored).toBeGreaterThanOrEqual(16)
    expect(cancelled.failed).toBeGreaterThan(0)
    expect(cancelled).toMatchObject({ groupsCompleted: 50, completedAt: expect.any(String) })
    expect(cancelled.mean).not.toBeNull()
    await idle(limited)
    const columns = await results(batchId)
    expect(columns.status.filter((s) => s === 'scored')).toHaveLength(cancelled.scored)
    columns.status.forEach((status, i) => {
      expect([columns.reason[i], columns.score[i] === null]).toEqual(
        status === 'scored' ? [null, false] : ['cancelled', true],
      )
    })
    const rest = await service.api.batches.next.query({
      batchId,
      after: before.cursor,
      samples: 1_000,
    })
    expect(rest).toMatchObject({ done: true, timedOut: false, remaining: 0 })
    const seqs = [...before.groups, ...rest.groups].map((g) => g.seq)
    expect(seqs).toEqual(Array.from({ length: 50 }, (_, i) => i + 1))
    expect(rest.groups.some((g) => g.samples.some((s) => s.reason === 'cancelled'))).toBe(true)
    const again = await service.api.batches.cancel.mutate({ batchId })
    expect(again).toEqual(cancelled)
  })

  it('ends an open batch', async () => {
    await limited.control({ latency: 600_000 })
    const { batchId } = await submit(rollouts(8), {}, { open: true })
    await waitFor('calls in flight', async () => (await limited.counters()).inFlight > 0)
    const end = await service.api.batches.cancel.mutate({ batchId })
    expect(end).toMatchObject({ status: 'cancelled', failed: 8, groupsCompleted: 1 })
    await idle(limited)
    const more = service.api.batches.append.mutate({ batchId, startIndex: 8, samples: [sample()] })
    await expect(more).rejects.toMatchObject({ data: { reason: 'batch_closed' } })
  })

  it('does not change an ended batch', async () => {
    const { batchId } = await submit([sample()], {})
    const end = await wait(batchId)
    expect(await service.api.batches.cancel.mutate({ batchId })).toEqual(end)
  })
})
