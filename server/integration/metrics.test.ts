import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type SimulatedServers,
  startSimulatedServers,
} from '../../testkit/processes/simulated-rm.ts'
import { parsePrometheusText, seriesValue } from '../../testkit/service/prometheus-text.ts'
import { expectRefusal } from '../../testkit/service/refusals.ts'
import { rollouts } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { stopCleanly } from '../../testkit/service/service-with-model.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'

const KEY = 'pT4wZ81mQx7RkV0s9LcB'

let service: Service
let rm: SimulatedServers

beforeAll(async () => {
  ;[service, rm] = await Promise.all([
    Service.start({
      // Without micro-batching every sample is one call.
      env: { REWARDOPS_API_KEYS: KEY, REWARDOPS_SAMPLES_PER_CALL: '1' },
      headers: { authorization: `Bearer ${KEY}` },
    }),
    startSimulatedServers(),
  ])
  await service.api.servers.register.mutate({ name: 'rm', url: rm.url, maxInFlight: 16 })
})
afterAll(() => stopCleanly(service, () => rm?.stop()))

const scrape = async () => parsePrometheusText((await service.raw('/metrics')).text)

describe('GET /metrics', () => {
  it('agrees with the API about a batch and its server', async () => {
    const { batchId } = await service.api.batches.submit.mutate({
      run: 'metrics',
      step: 1,
      samples: rollouts(160),
      reward: { model: rm.model },
    })
    const batch = await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
    expect(batch).toMatchObject({ scored: 160, failed: 0 })
    const m = await waitFor('the calls in the metrics', async () => {
      const families = await scrape()
      const scored = seriesValue(families, 'rewardops_server_request_duration_seconds_count')
      return scored >= 160 && families
    })
    const [server] = await service.api.servers.list.query()
    const label = { server: 'rm', model: rm.model, engine: 'vllm' }
    const of = (name: string, more = {}) =>
      seriesValue(m, `rewardops_server_${name}`, { ...label, ...more })
    expect(of('requests_total')).toBe(server!.requests)
    expect(of('retries_total')).toBe(server!.retries)
    const errors = ['client', 'busy', 'corrupt', 'fault'].map((name) =>
      of('errors_total', { class: name }),
    )
    expect(errors.reduce((sum, n) => sum + n, 0)).toBe(server!.errors)
    expect([of('up'), of('limit'), of('state', { state: 'ready' })]).toEqual([1, 16, 1])
    expect(of('tokens_total')).toBeGreaterThan(160)
    expect(seriesValue(m, 'rewardops_samples_scored_total')).toBe(160)
    expect(seriesValue(m, 'rewardops_groups_completed_total')).toBe(20)
    expect(seriesValue(m, 'rewardops_batches', { status: 'completed' })).toBe(1)
    expect(seriesValue(m, 'rewardops_samples_pending')).toBe(0)
    expect(seriesValue(m, 'rewardops_workers')).toBe(2)
    expect(seriesValue(m, 'rewardops_database_up')).toBe(1)
    await waitFor('no calls in flight', async () => {
      return seriesValue(await scrape(), 'rewardops_server_in_flight') === 0
    })
  })

  it('requires a key if keys are set, is read-only, and answers HEAD', async () => {
    const refused = await service.raw('/metrics', { headers: { authorization: 'Bearer another' } })
    expectRefusal(refused, { status: 401, reason: 'unauthorized', message: 'key' })
    expect(refused.text).not.toContain('rewardops_server')
    const posted = await service.raw('/metrics', { method: 'POST', body: '' })
    expectRefusal(posted, { status: 405, reason: 'method_not_allowed', message: 'GET' })
    const head = await service.raw('/metrics', { method: 'HEAD' })
    expect([head.status, head.text]).toEqual([200, ''])
  })

  it('refuses requests from pages of another site', async () => {
    const headers = { origin: 'https://evil.example' }
    const refused = await service.raw('/metrics', { headers })
    expectRefusal(refused, { status: 403, reason: 'forbidden_origin', message: 'evil.example' })
  })
})
