import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import {
  type SimulatedServers,
  startSimulatedServers,
} from '../../testkit/processes/simulated-rm.ts'
import type { CallError } from '../../testkit/processes/trpc-call.ts'
import { expectExactlyOnce, followBatch } from '../../testkit/service/follow-batch.ts'
import { FULL, inFullRun, itInFullRun } from '../../testkit/service/full-run.ts'
import {
  hashScore,
  rollouts,
  type Sample,
  type Submit,
  sample,
} from '../../testkit/service/rollouts.ts'
import { type Part, Service, STOP_MS } from '../../testkit/service/service.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { inspectProcess } from '../store/postgres/processes.ts'

const SAMPLES = FULL ? 2_000 : 240
/**
 * The quick run has fewer samples but a higher latency. Its batch takes almost as long as the batch of the full run, so
 * faults occur in the middle of both batches.
 */
const LATENCY_MS = FULL ? 50 : 300
const GROUPS = SAMPLES / 8
const RM_OPTIONS = ['--latency', String(LATENCY_MS)]
/** Log lines caused by the injected faults; every other warning is a problem. */
const EXPECTED = ['Postgres died; starting it again']
/** Maximum time of a batch without faults, many times the usual 2 s. */
const UNDISTURBED_MS = 15_000
const LOST_WORKER_MS = 15_000

let service: Service
let rm: SimulatedServers

beforeAll(async () => {
  ;[service, rm] = await Promise.all([Service.start(), startSimulatedServers(RM_OPTIONS)])
  await service.api.servers.register.mutate({ name: 'rm', url: rm.url })
})

afterEach(() => {
  expect(service.log.problems(EXPECTED)).toEqual([])
  const log = readFileSync(join(service.dataDir, 'postgres.log'), 'utf8')
  expect(log).not.toContain('deadlock detected')
})

afterAll(async () => {
  const end = await service?.stop().finally(() => service.destroy())
  await rm?.stop()
  expect(end?.code).toBe(0)
})

const get = (batchId: string) => service.api.batches.get.query({ batchId })

async function submit(samples: Sample[], fields: Partial<Submit> = {}): Promise<string> {
  const { batchId } = await service.api.batches.submit.mutate({
    run: 'exactly-once',
    step: 1,
    samples,
    reward: { model: 'simulated-rm' },
    ...fields,
  })
  return batchId
}

async function middleOf(batchId: string): Promise<void> {
  const { scored } = await waitFor('the middle of the batch', async () => {
    const batch = await get(batchId)
    return batch.scored >= SAMPLES / 5 && batch
  })
  expect(scored).toBeLessThan(SAMPLES)
}

async function expectAllScored(
  followed: ReturnType<typeof followBatch>,
  samples: Sample[],
  groups: number,
): Promise<void> {
  const results = await expectExactlyOnce(service, followed, samples.length, groups)
  expect(results.filter((r) => r.status !== 'scored')).toEqual([])
  expect(results.map((r) => r.score)).toEqual(samples.map(hashScore))
  await waitFor('an idle reward model', async () => (await rm.counters()).inFlight === 0)
}

describe('a batch', () => {
  itInFullRun('is scored without faults', async () => {
    const samples = rollouts(SAMPLES, 8, 'undisturbed')
    const followed = followBatch(service, await submit(samples))
    await followed.done
    await expectAllScored(followed, samples, GROUPS)
    expect((await get(followed.batchId)).retries).toBe(0)
  })

  itInFullRun(
    'survives a killed worker: the service stays up, and a new worker replaces it',
    async () => {
      const samples = rollouts(SAMPLES, 8, 'worker')
      const followed = followBatch(service, await submit(samples))
      await middleOf(followed.batchId)
      const { workers: before } = await service.kill9('worker')
      expect((await service.raw('/healthz')).status).toBe(200)
      await waitFor(
        'the end of the batch',
        async () => (await get(followed.batchId)).completedAt !== null,
        UNDISTURBED_MS + LOST_WORKER_MS,
      )
      await followed.done
      expect(followed.repeated).toBe(0)
      await expectAllScored(followed, samples, GROUPS)
      const { workers } = await service.healthy()
      expect(workers).toHaveLength(2)
      expect(workers).not.toContain(before[0])
      expect(workers).toContain(before[1])
    },
  )

  itInFullRun('survives a paused worker: its late results are not counted twice', async () => {
    const samples = rollouts(SAMPLES, 8, 'still')
    const followed = followBatch(service, await submit(samples))
    await middleOf(followed.batchId)
    const { workers } = await service.pids()
    const still = workers[0] as number
    process.kill(still, 'SIGSTOP')
    try {
      // After 5 s without a report, other workers score the paused worker's samples.
      await followed.done
    } finally {
      process.kill(still, 'SIGCONT')
    }
    await waitFor('the resumed worker', async () => {
      const [row] = await service.sql<{ state: string; in_use: number }>(
        `select state, (stats ->> 'inUse')::int as in_use from process where pid = $1
         and last_seen_at > now() - interval '1 second'`,
        [still],
      )
      return row?.state === 'alive' && row.in_use === 0
    })
    await expectAllScored(followed, samples, GROUPS)
    expect((await service.healthy()).workers).toEqual(workers)
  })

  it.each<[Part, restart: boolean]>([
    // The case 'all' also kills the server and Postgres, so the separate cases for them run only in the full run.
    ...inFullRun<[Part, boolean]>(['server', true], ['postgres', false]),
    ['all', true],
  ])('survives kill -9 of %s', async (part, restart) => {
    const samples = rollouts(SAMPLES, 8, part)
    const idempotencyKey = `killed ${part}`
    const batchId = await submit(samples, { idempotencyKey })
    const followed = followBatch(service, batchId)
    await middleOf(batchId)
    const before = await service.kill9(part)
    if (restart) await service.restart()
    const after = await service.healthy()
    expect(after.postgres).not.toBe(before.postgres)
    await followed.done
    if (restart) expect(followed.repeated).toBeGreaterThan(0)
    await expectAllScored(followed, samples, GROUPS)
    expect(await submit(samples, { idempotencyKey })).toBe(batchId)
  })

  itInFullRun('is requeued at the start of a restarted container', async () => {
    const samples = rollouts(SAMPLES, 8, 'restarted container')
    const batchId = await submit(samples)
    const followed = followBatch(service, batchId)
    await middleOf(batchId)
    // Simulates a restarted container, which has another pid namespace and often another host name.
    await service.sql("update process set host = 'earlier#00000000.00000000' where state <> 'dead'")
    await service.kill9('all')
    await service.restart()
    // Postgres may have lost the last claims, whose jobs are then still queued.
    const [earlier] = await service.sql<{ alive: number; claims: number }>(
      `select count(*) filter (where state <> 'dead')::int as alive,
         count(*) filter (where exists (select from claim where worker_id = process.id))::int as claims
       from process where host like 'earlier#%'`,
    )
    expect(earlier).toEqual({ alive: 0, claims: 0 })
    await followed.done
    await expectAllScored(followed, samples, GROUPS)
  })

  itInFullRun(
    'survives a server that recovers after its workers gave up on the database',
    async () => {
      await rm.control({ latency: 1_500 })
      const samples = rollouts(192, 8, 'late server')
      const followed = followBatch(service, await submit(samples))
      await waitFor('first scores', async () => (await get(followed.batchId)).scored > 0)
      await waitFor('further calls', async () => (await rm.counters()).inFlight > 0)
      // The calls in flight return after the kill, when the database is already down. The next calls of the same jobs hang.
      await rm.control({ latency: 600_000 })
      const { workers } = await service.kill9('server')
      const killedAtMs = performance.now()
      const left = () => workers.filter((pid) => inspectProcess(pid)?.running === true)
      // Workers end within 10 s; the test continues after 13 s if one does not.
      await waitFor(
        'workers that gave up',
        () => left().length === 0 || performance.now() > killedAtMs + 13_000,
      )
      const outlived = left()
      await rm.control({ latency: LATENCY_MS })
      await service.restart()
      await followed.done
      await expectAllScored(followed, samples, 24)
      expect(outlived).toEqual([])
    },
    120_000,
  )

  itInFullRun('requeues, counts and logs samples that no job holds', async () => {
    await rm.control({ latency: 600_000 })
    const samples = rollouts(64, 8, 'orphans')
    const followed = followBatch(service, await submit(samples))
    await waitFor('calls that hang', async () => (await rm.counters()).inFlight > 0)
    const { workers } = await service.pids()
    await service.sql(`delete from claim; delete from pgboss.job where name like 'rm-%'`)
    for (const pid of workers) process.kill(pid, 'SIGKILL')
    await rm.control({ latency: LATENCY_MS })
    await followed.done
    await expectAllScored(followed, samples, 8)
    const metrics = (await service.raw('/metrics')).text
    expect(metrics).toContain('rewardops_orphaned_samples_total 64')
    expect(service.log.problems([...EXPECTED, 'worker died'])).toEqual([
      expect.stringContaining('orphaned samples returned to the queue'),
    ])
    service.log.lines.length = 0
  })

  itInFullRun(
    'survives SIGTERM: unfinished samples are requeued, and none is lost',
    async () => {
      const samples = rollouts(SAMPLES, 8, 'sigterm')
      const followed = followBatch(service, await submit(samples))
      await middleOf(followed.batchId)
      await rm.control({ latency: 600_000 })
      await waitFor('calls that hang', async () => (await rm.counters()).inFlight > 0)
      const long = service.api.batches.next.query({
        batchId: followed.batchId,
        samples: SAMPLES,
        waitMs: 60_000,
      })
      const single = service.api.samples.score
        .mutate({
          run: 'exactly-once',
          step: 2,
          reward: { model: 'simulated-rm' },
          sample: sample(),
        })
        .catch((error: CallError) => error.data.reason)
      await waitFor('a pending single sample', async () => {
        const [row] = await service.sql<{ n: number }>(
          'select count(*)::int as n from batch where step = 2',
        )
        return row?.n === 1
      })
      const { code, signal, tookMs } = await service.stop()
      expect({ code, signal }).toEqual({ code: 0, signal: null })
      expect(tookMs).toBeLessThan(STOP_MS)
      expect(await long).toMatchObject({ groups: [], timedOut: true })
      expect(await single).toBe('shutting_down')
      await service.restart()
      await waitFor('calls that hang again', async () => (await rm.counters()).inFlight > 0)
      const jobs = await service.sql<{ losses: number }>(
        `select coalesce((data ->> 'l')::int, 0) + retry_count as losses from pgboss.job
       where name like 'rm-%' and state < 'completed'`,
      )
      expect(jobs.length).toBeGreaterThan(0)
      expect(Math.max(...jobs.map((job) => job.losses))).toBe(0)
      rm.process.kill('SIGKILL')
      await rm.ended
      rm = await startSimulatedServers([...RM_OPTIONS, '--port', new URL(rm.url).port])
      await followed.done
      await expectAllScored(followed, samples, GROUPS)
    },
    120_000,
  )
})
