import { afterAll, beforeAll, expect, it } from 'vitest'
import {
  type SimulatedServers,
  startSimulatedServers,
} from '../../testkit/processes/simulated-rm.ts'
import type { CallError } from '../../testkit/processes/trpc-call.ts'
import { expectExactlyOnce, followBatch } from '../../testkit/service/follow-batch.ts'
import { FULL } from '../../testkit/service/full-run.ts'
import { hashScore, rollouts, type Sample } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'

/** Size of the batch. In the quick run, eight concurrent calls of 0.4 s each score it in 3.2 s. */
const SAMPLES = FULL ? 300 : 64

let service: Service
let rm: SimulatedServers

beforeAll(async () => {
  ;[service, rm] = await Promise.all([Service.start(), startSimulatedServers(['--latency', '400'])])
  await service.api.servers.register.mutate({ name: 'rm', url: rm.url, maxInFlight: 8 })
})

afterAll(async () => {
  const end = await service?.stop().finally(() => service.destroy())
  await rm?.stop()
  expect(end?.code).toBe(0)
})

const submit = (samples: Sample[]) =>
  service.api.batches.submit.mutate({
    run: 'outages',
    step: 1,
    samples,
    reward: { model: 'simulated-rm' },
  })

async function setReadOnly(isReadOnly: boolean): Promise<void> {
  await service.sql(
    isReadOnly
      ? 'alter system set default_transaction_read_only = on'
      : 'alter system reset default_transaction_read_only',
  )
  await service.sql('select pg_reload_conf()')
}

it('while the database is read-only, submits are refused, long polls wait and no result is lost', async () => {
  const samples = rollouts(SAMPLES, 4, 'read-only')
  const { batchId } = await submit(samples)
  const followed = followBatch(service, batchId)
  const ended = async () => (await service.api.batches.get.query({ batchId })).scored
  await waitFor('first scores', async () => (await ended()) > 16)
  await rm.control({ resetStats: true })
  const before = await ended()
  await setReadOnly(true)
  const sinceMs = performance.now()
  const readyz = async () => (await service.raw('/readyz')).status
  await waitFor('unready', async () => (await readyz()) === 503)
  expect((await service.raw('/livez')).status).toBe(200)
  const refused = await submit(rollouts(8, 4, 'refused')).then(
    () => null,
    (error: CallError) => error,
  )
  expect(refused?.data.reason).toBe('database_unavailable')
  expect(refused?.status).toBe(503)
  expect(Number(refused?.retryAfter)).toBeGreaterThan(0)
  const waiting = service.api.batches.next.query({
    batchId,
    after: null,
    samples: SAMPLES,
    waitMs: 60_000,
  })
  // Calls in flight end, and no new one is sent.
  await waitFor('an idle reward model', async () => (await rm.counters()).inFlight === 0)
  // The wait is longer than the time limits for reports of workers (5 s) and heartbeats of jobs (10 s).
  if (FULL) await waitFor('20 s', () => performance.now() > sinceMs + 20_000, 30_000)
  await setReadOnly(false)
  await waitFor('ready', async () => (await readyz()) === 200)
  await followed.done
  expect((await waiting).groups).toHaveLength(SAMPLES / 4)
  const results = await expectExactlyOnce(service, followed, SAMPLES, SAMPLES / 4)
  expect(results.map((r) => r.score)).toEqual(samples.map(hashScore))
  // No scored sample was requested again.
  expect((await rm.counters()).requests).toBeLessThanOrEqual(SAMPLES - before + 0.02 * SAMPLES)
  const [left] = await service.sql<{ n: number }>(
    "select count(*)::int as n from batch join run on run.id = run_id where run.name = 'outages'",
  )
  expect(left?.n).toBe(1)
}, 120_000)
