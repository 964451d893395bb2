import { afterAll, beforeAll, expect, it } from 'vitest'
import {
  type SimulatedServers,
  startSimulatedServers,
} from '../../testkit/processes/simulated-rm.ts'
import { rollouts } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { stopCleanly } from '../../testkit/service/service-with-model.ts'

/**
 * Estimates how much a slow server held up a batch, and compares the estimate with a second run of the same batch
 * without that server. A judge computes the scores, because requests to judges are not hedged. Hedged requests would
 * hide a slow server.
 */

let service: Service
let sims: SimulatedServers[] = []

const SERVERS = [
  { name: 'usual-1', args: ['--latency', 'uniform:400,600'] },
  { name: 'usual-2', args: ['--latency', 'uniform:400,600'] },
  { name: 'slow', args: ['--latency', 'uniform:2000,3000'] },
  {
    name: 'failing',
    args: ['--latency', 'uniform:400,600', '--faults', '{"limited429":0.1,"error500":0.05}'],
  },
]

beforeAll(async () => {
  ;[service, ...sims] = await Promise.all([
    Service.start({ env: { REWARDOPS_WORKERS: '1' } }),
    ...SERVERS.map(({ args }) =>
      startSimulatedServers(['--dialect', 'chat', '--model', 'rm', ...args]),
    ),
  ])
  for (const [at, { name }] of SERVERS.entries()) {
    const { url } = sims[at] as SimulatedServers
    await service.api.servers.register.mutate({
      ...{ name, url, engine: 'openai', kind: 'generative', maxInFlight: name === 'slow' ? 4 : 16 },
    })
  }
  await service.api.pools.update.mutate({ model: 'rm', policy: 'round_robin' })
}, 60_000)
afterAll(() => stopCleanly(service, () => Promise.all(sims.map((sim) => sim.stop()))))

async function runBatch(step: number): Promise<{ batchId: string; ms: number }> {
  const { batchId } = await service.api.batches.submit.mutate({
    ...{ run: 'held-up', step, reward: { model: 'rm', judge: 'rating-1-10', maxAttempts: 8 } },
    samples: rollouts(40),
  })
  await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
  const { submittedAt, completedAt, failed } = await service.api.batches.get.query({ batchId })
  expect(failed).toBe(0)
  return { batchId, ms: Date.parse(completedAt as string) - Date.parse(submittedAt) }
}

it('names the slow server, and estimates its cost to within 20 %', async () => {
  const all = await runBatch(1)
  const found = await service.api.batches.bottleneck.query({ batchId: all.batchId })
  await service.api.servers.remove.mutate({ name: 'slow' })
  const without = await runBatch(2)
  expect(found?.server?.name).toBe('slow')
  expect(found?.server?.ratio).toBeGreaterThan(4)
  const estimated = all.ms - (found?.server?.withoutMs ?? 0)
  expect(Math.abs(estimated / (all.ms - without.ms) - 1)).toBeLessThan(0.2)
}, 120_000)
