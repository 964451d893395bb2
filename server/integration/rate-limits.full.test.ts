import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import {
  type SimulatedServers,
  startSimulatedServers,
} from '../../testkit/processes/simulated-rm.ts'
import { rollouts, type Sample } from '../../testkit/service/rollouts.ts'
import { environment, Service } from '../../testkit/service/service.ts'
import { ServiceLog } from '../../testkit/service/service-log.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { textId } from '../../testkit/simulated-rm/text.ts'
import { runningEmbeddedUrl } from '../store/postgres/embedded.ts'

const WORKER = fileURLToPath(new URL('../worker/start.ts', import.meta.url))
const RPM = 600
/** Size of the burst after a pause, in requests: 2 s of the rate. */
const BURST = RPM / 30
const MINUTE_MS = 60_000
const TAKEN_OVER_MS = 15_000

let service: Service
let servers: SimulatedServers
const log = new ServiceLog()
const workers: ChildProcess[] = []

beforeAll(async () => {
  ;[service, servers] = await Promise.all([
    Service.start({ env: { REWARDOPS_WORKERS: '0' } }),
    startSimulatedServers(['--latency', '20', '--tokens-per-second', '1000000']),
  ])
  await service.api.servers.register.mutate({ name: 'rm', url: servers.urls[0]!, rpm: RPM })
  await Promise.all([startWorker(), startWorker()])
})

afterAll(async () => {
  for (const worker of workers) if (worker.exitCode === null) worker.kill('SIGKILL')
  const problems = [...(service?.log.problems() ?? []), ...log.problems()]
  await Promise.all([service?.stop().finally(() => service.destroy()), servers?.stop()])
  expect(problems).toEqual([])
})

async function startWorker(): Promise<void> {
  const worker = spawn(process.execPath, [WORKER], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: environment({
      DATABASE_URL: runningEmbeddedUrl(service.dataDir) as string,
      REWARDOPS_SECRETS_KEY_FILE: `${service.dataDir}/secrets.key`,
    }),
  })
  workers.push(worker)
  log.read(worker.stderr)
  await waitFor('a worker', async () => {
    const alive = await service.sql<{ pid: number }>(
      "select pid from process where role = 'worker' and state = 'alive'",
    )
    return alive.some(({ pid }) => pid === worker.pid)
  })
}

const submit = (samples: Sample[]) =>
  service.api.batches.submit.mutate({
    run: 'limits',
    step: 1,
    samples,
    reward: { model: servers.model },
  })

const statsOf = async () => (await servers.stats())[0]!

/** The calls for these samples. The service's own self-tests do not count, because no limit applies to them. */
async function callsFor(samples: readonly Sample[]) {
  const ids = new Set(samples.map((s) => textId(s.prompt as string, s.response)))
  const { texts } = await statsOf()
  return texts.filter(({ id }) => ids.has(id))
}

/** Arrival times of the calls for these samples, in epoch ms. */
async function arrivals(samples: readonly Sample[]): Promise<number[]> {
  return (await callsFor(samples)).map(({ atMs }) => atMs)
}

function mostWithin(sorted: readonly number[], forMs: number): number {
  let most = 0
  let from = 0
  sorted.forEach((atMs, i) => {
    while ((sorted[from] as number) <= atMs - forMs) from++
    most = Math.max(most, i - from + 1)
  })
  return most
}

it('a limit of requests per minute applies across two workers, and passes to the other when one is killed', async () => {
  const samples = rollouts(2_000, 8, 'minute')
  await servers.control({ resetStats: true })
  const { batchId } = await submit(samples)
  await waitFor('both workers at work', async () => {
    const [row] = await service.sql<{ n: number }>(
      'select count(distinct worker_id)::int as n from sample where batch_id = $1 and status = 2',
      [Number(batchId.replace(/\D/g, ''))],
    )
    return row!.n === 2
  })
  const [first] = (await arrivals(samples)) as [number]
  await waitFor('20 s of requests', async () => Date.now() - first > 20_000)
  const [victim] = workers as [ChildProcess]
  victim.kill('SIGKILL')
  const killedAt = Date.now()
  const perSecond = RPM / 60
  await waitFor(
    'the whole rate again',
    async () => {
      const since = Math.max(killedAt, Date.now() - 5_000)
      const lately = (await arrivals(samples)).filter((atMs) => atMs > since)
      return lately.length > 0.9 * 5 * perSecond
    },
    TAKEN_OVER_MS,
  )
  await waitFor('more than a minute', async () => Date.now() - first > 1.1 * MINUTE_MS, 80_000)
  const cancelled = await service.api.batches.cancel.mutate({ batchId })
  expect(cancelled.status).toBe('cancelled')
  const all = (await arrivals(samples)).sort((a, b) => a - b)
  const most = mostWithin(all, MINUTE_MS)
  expect(most).toBeLessThanOrEqual(RPM + BURST)
  expect(most).toBeGreaterThan(0.9 * RPM)
  for (const forMs of [1_000, 5_000, 20_000]) {
    const allowed = (RPM * forMs) / MINUTE_MS + BURST
    expect(mostWithin(all, forMs), `${forMs} ms`).toBeLessThanOrEqual(allowed)
  }
  expect(cancelled.scored).toBeGreaterThan(0.9 * all.length)
}, 180_000)

it('a limit of one call in flight applies across four workers, also when its holder is killed', async () => {
  await service.api.servers.update.mutate({ name: 'rm', rpm: null, maxInFlight: 1 })
  await Promise.all([startWorker(), startWorker(), startWorker()])
  await waitFor('an idle server', async () => (await statsOf()).inFlight === 0)
  await servers.control({ resetStats: true })
  const samples = rollouts(400, 8, 'one')
  const { batchId } = await submit(samples)
  const scored = async () => (await service.api.batches.get.query({ batchId })).scored
  await waitFor('the first hundred', async () => (await scored()) > 100)
  const owner = await waitFor('an owner', async () => {
    const [row] = await service.sql<{ pid: number }>(
      `select pid from lease join process on process.id = worker_id and role = 'worker'
       where resource like 'server:%' and slots = 1 and expires_at > clock_timestamp()`,
    )
    return row
  })
  process.kill(owner.pid, 'SIGKILL')
  await waitFor('the end', async () => (await scored()) === 400, 120_000)
  const calls = (await callsFor(samples)).toSorted((x, y) => x.atMs - y.atMs)
  expect(calls.length).toBeGreaterThanOrEqual(400)
  const together = calls.flatMap((call, i) => {
    const before = calls[i - 1]
    return before !== undefined && (before.endedAtMs ?? Infinity) > call.atMs
      ? [[before, call]]
      : []
  })
  expect(together).toEqual([])
}, 180_000)
