import { afterAll, beforeAll, expect, it } from 'vitest'
import {
  type SimulatedServers,
  startSimulatedServers,
} from '../../testkit/processes/simulated-rm.ts'
import { hashScore, rollouts, type Sample } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { stopCleanly } from '../../testkit/service/service-with-model.ts'

const SAMPLES = 8_192

let service: Service
let rm: SimulatedServers

beforeAll(async () => {
  ;[service, rm] = await Promise.all([
    Service.start(),
    startSimulatedServers(['--version', '0.11.2']),
  ])
  await service.api.servers.register.mutate({ name: 'rm', url: rm.url, maxInFlight: 128 })
})
afterAll(() => stopCleanly(service, () => rm?.stop()))

async function scored(step: number, samples: Sample[]) {
  const { batchId } = await service.api.batches.submit.mutate({
    run: 'several',
    step,
    groupSize: 8,
    reward: { model: rm.model },
    samples,
  })
  let done = false
  while (!done) {
    const { status } = await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
    done = status !== 'running'
  }
  return service.api.batches.results.query({ batchId, limit: 50_000 })
}

it('every sample has the score of its own text', async () => {
  for (const step of [1, 2, 3]) {
    await rm.control({ resetStats: true })
    const samples = rollouts(SAMPLES, 8, `s${step}`)
    const { status, score } = await scored(step, samples)
    expect(new Set(status)).toEqual(new Set(['scored']))
    expect(score).toEqual(samples.map(hashScore))
    const { textsTotal: texts, requests } = await rm.counters()
    // On a slow machine, a request that times out is split and its texts are sent again, so `texts` can exceed SAMPLES.
    expect(texts).toBeGreaterThanOrEqual(SAMPLES)
    expect(texts).toBeLessThan(1.05 * SAMPLES)
    expect(requests).toBeLessThanOrEqual(texts)
  }
})

it('only samples with texts that the model refuses fail', async () => {
  const long = 'far too long for this model '.repeat(6_000)
  const samples = rollouts(SAMPLES / 4, 8, 'mixed').map((sample, i) =>
    i % 100 === 7 ? { ...sample, response: `${long}${sample.response}` } : sample,
  )
  const { status, reason, score } = await scored(4, samples)
  samples.forEach((sample, i) => {
    if (i % 100 === 7) expect([status[i], reason[i]]).toEqual(['failed', 'context_exceeded'])
    else expect([status[i], score[i]]).toEqual(['scored', hashScore(sample)])
  })
})
