import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import {
  type SimulatedServers,
  startSimulatedServers,
} from '../../testkit/processes/simulated-rm.ts'
import { expectExactlyOnce, followBatch } from '../../testkit/service/follow-batch.ts'
import { hashScore, rollouts } from '../../testkit/service/rollouts.ts'
import { environment, Service } from '../../testkit/service/service.ts'
import { ServiceLog } from '../../testkit/service/service-log.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { python } from '../sandbox/testing/programs.ts'
import { runningEmbeddedUrl } from '../store/postgres/embedded.ts'

/** Tests workers without a parent server, as on another machine. Only missing reports show that such a worker died. */

const WORKER = fileURLToPath(new URL('../worker/start.ts', import.meta.url))
const SAMPLES = 1_000
const LOST_WORKER_MS = 15_000

let service: Service
let rm: SimulatedServers
const log = new ServiceLog()
const workers: ChildProcess[] = []

beforeAll(async () => {
  ;[service, rm] = await Promise.all([
    Service.start({ env: { REWARDOPS_WORKERS: '0' } }),
    startSimulatedServers(['--latency', '50']),
  ])
  await service.api.servers.register.mutate({ name: 'rm', url: rm.url })
  await Promise.all([startWorker(), startWorker(), startWorker()])
})

afterAll(async () => {
  for (const worker of workers) if (worker.exitCode === null) worker.kill('SIGKILL')
  const problems = [...service.log.problems(), ...log.problems()]
  await Promise.all([service?.stop().finally(() => service.destroy()), rm?.stop()])
  expect(problems).toEqual([])
})

async function startWorker(env: Record<string, string> = {}): Promise<ChildProcess> {
  const worker = spawn(process.execPath, [WORKER], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: environment({
      DATABASE_URL: runningEmbeddedUrl(service.dataDir) as string,
      REWARDOPS_SECRETS_KEY_FILE: `${service.dataDir}/secrets.key`,
      ...env,
    }),
  })
  workers.push(worker)
  log.read(worker.stderr)
  await waitFor('a worker', async () => (await alive()).includes(worker.pid as number))
  return worker
}

const alive = async () =>
  (
    await service.sql<{ pid: number }>(
      "select pid from process where role = 'worker' and state = 'alive'",
    )
  ).map((row) => row.pid)

async function follow(label: string) {
  const samples = rollouts(SAMPLES, 8, label)
  const { batchId } = await service.api.batches.submit.mutate({
    run: 'elsewhere',
    step: 1,
    samples,
    reward: { model: 'simulated-rm' },
  })
  const scored = async () => (await service.api.batches.get.query({ batchId })).scored
  const followed = followBatch(service, batchId)
  return {
    followed,
    middle: () => waitFor('the middle', async () => (await scored()) > SAMPLES / 5),
    async allScored() {
      const results = await expectExactlyOnce(service, followed, SAMPLES, SAMPLES / 8)
      expect(results.map((r) => r.score)).toEqual(samples.map(hashScore))
      return new Set(results.map((r) => r.workerId))
    },
  }
}

it('remote workers score together, and a stopped one gives back its unfinished samples', async () => {
  const batch = await follow('stop')
  await batch.middle()
  const [worker] = workers as [ChildProcess]
  worker.kill('SIGTERM')
  const [code] = (await once(worker, 'exit')) as [number | null]
  expect(code).toBe(0)
  await batch.followed.done
  expect((await batch.allScored()).size).toBe(3)
  const [row] = await service.sql<{ requeued: number }>(
    'select coalesce(sum(requeued), 0)::int as requeued from process',
  )
  expect(row?.requeued).toBe(0)
})

it('remote workers lose nothing when one is killed: the others score its samples', async () => {
  const undisturbed = await follow('undisturbed')
  const begun = performance.now()
  await undisturbed.followed.done
  const undisturbedMs = performance.now() - begun
  const batch = await follow('killed')
  await batch.middle()
  const worker = workers[1] as ChildProcess
  worker.kill('SIGKILL')
  const ended = batch.followed.done.then(() => true)
  await waitFor('the end', () => Promise.race([ended, null]), undisturbedMs + LOST_WORKER_MS)
  await batch.allScored()
  await waitFor('the detected death', async () => !(await alive()).includes(worker.pid as number))
})

it.skipIf(!python.ok)('a worker without a sandbox leaves programs to the others', async () => {
  const without = await startWorker({ REWARDOPS_SANDBOX_PYTHON: '/no/python' })
  await waitFor('its report', () => log.find('takes no samples of the rule code').length > 0)
  for (const worker of workers) if (worker !== without) worker.kill('SIGKILL')
  const { batchId } = await service.api.batches.submit.mutate({
    run: 'programs',
    step: 1,
    samples: Array.from({ length: 20 }, (_, i) => ({
      uid: `${i}`,
      dataSource: 'taco',
      prompt: 'Double it.',
      response: 'print(2 * int(input()))',
      groundTruth: { inputs: [`${i}`], outputs: [`${2 * i}`] },
    })),
    reward: {},
  })
  await startWorker()
  const ended = async () => await service.api.batches.get.query({ batchId })
  await expect.poll(ended).toMatchObject({ status: 'completed', scored: 20, mean: 1 })
})
