import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import {
  type SimulatedServers,
  startSimulatedServers,
} from '../../testkit/processes/simulated-rm.ts'
import { expectExactlyOnce, followBatch } from '../../testkit/service/follow-batch.ts'
import { rollouts, type Sample, type Submit, shuffled } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'

/** Concurrent locks of groups and batches: flushes of two workers, appends, closes, cancels, deadlines. */

let service: Service
let rm: SimulatedServers

beforeAll(async () => {
  ;[service, rm] = await Promise.all([
    Service.start(),
    startSimulatedServers(['--latency', 'uniform:0,12']),
  ])
  await service.api.servers.register.mutate({ name: 'rm', url: rm.url })
})

afterAll(async () => {
  const problems = service?.log.problems()
  const log = readFileSync(join(service.dataDir, 'postgres.log'), 'utf8')
  await Promise.all([service?.stop().finally(() => service.destroy()), rm?.stop()])
  expect(log).not.toContain('deadlock detected')
  expect(problems).toEqual([])
})

const open = async (fields: Partial<Submit>): Promise<string> => {
  const batch = { run: 'no-deadlock', step: 1, samples: [], open: true, ...fields }
  return (await service.api.batches.submit.mutate(batch)).batchId
}

async function appendAll(batchId: string, samples: Sample[]): Promise<void> {
  for (let startIndex = 0; startIndex < samples.length; startIndex += 30) {
    const part = samples.slice(startIndex, startIndex + 30)
    await service.api.batches.append.mutate({ batchId, startIndex, samples: part })
  }
}

it('groups that appends spread over many jobs in random order complete once each', async () => {
  const kinds = [
    { reward: { model: 'simulated-rm' }, groupSize: 8 },
    { reward: { model: 'simulated-rm' }, groupSize: null },
    { reward: {}, groupSize: 8 },
    { reward: {}, groupSize: null },
  ]
  await Promise.all(
    kinds.map(async (kind, k) => {
      const samples = shuffled(rollouts(720, 8, `k${k}`), k + 1).map((s, i) =>
        i % 9 === 0 ? { ...s, score: i } : s,
      )
      const batchId = await open(kind)
      const followed = followBatch(service, batchId)
      await appendAll(batchId, samples)
      await service.api.batches.close.mutate({ batchId })
      await followed.done
      const results = await expectExactlyOnce(service, followed, samples.length, 90)
      expect(results.filter((r) => r.status !== 'scored')).toEqual([])
      results.forEach((r, i) => {
        if (i % 9 === 0) expect(r.score).toBe(i)
      })
    }),
  )
})

it('batches that are cancelled or run out of time while they are scored all end', async () => {
  const ends = await Promise.all(
    Array.from({ length: 16 }, async (_, i) => {
      const rule = i % 2 === 0
      const { batchId } = await service.api.batches.submit.mutate({
        run: `no-deadlock-${i % 4}`,
        step: 2,
        samples: shuffled(rollouts(512, 8, `c${i}`), i),
        reward: rule ? {} : { model: 'simulated-rm' },
        ...(i % 4 === 3 ? { deadlineMs: 150 } : {}),
      })
      if (i % 4 !== 3) {
        await waitFor('a first flush', async () => {
          const batch = await service.api.batches.get.query({ batchId })
          return batch.scored > 0
        })
        await service.api.batches.cancel.mutate({ batchId })
      }
      return service.api.batches.wait.query({ batchId, waitMs: 60_000 })
    }),
  )
  for (const end of ends) {
    expect(end.completedAt, JSON.stringify(end)).not.toBeNull()
    expect(end.scored + end.failed).toBe(512)
    expect(end.groupsCompleted).toBe(64)
  }
  expect(ends.some((end) => end.status === 'cancelled' && end.failed > 0)).toBe(true)
  const [row] = await service.sql<{ deadlocks: number }>(
    `select deadlocks::int from pg_stat_database where datname = current_database()`,
  )
  expect(row?.deadlocks).toBe(0)
})
