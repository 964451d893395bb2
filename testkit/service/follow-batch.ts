import { expect } from 'vitest'
import type { GroupResult, NextResult, Result } from '../../server/contract/trainer.ts'
import { CallError } from '../processes/trpc-call.ts'
import type { Service } from './service.ts'

/** State of a trainer that reads a batch group by group through outages. */
export interface FollowedBatch {
  batchId: string
  groups: GroupResult[]
  /** Resolves when the batch is done; failed calls are repeated with the same cursor. */
  done: Promise<void>
  repeated: number
  stop(): void
}

const AGAIN_MS = 50

export function followBatch(service: Service, batchId: string): FollowedBatch {
  let stopped = false
  const followed: FollowedBatch = {
    batchId,
    groups: [],
    done: Promise.resolve(),
    repeated: 0,
    stop: () => {
      stopped = true
    },
  }
  const read = async () => {
    let cursor: string | null = null
    for (let done = false; !done && !stopped; ) {
      try {
        const input = { batchId, after: cursor, samples: 64, waitMs: 5_000 }
        const answer: NextResult = await service.api.batches.next.query(input)
        followed.groups.push(...answer.groups)
        ;({ cursor, done } = answer)
      } catch (error) {
        // Broken connections and 503 are retried. Any other refusal is a failure.
        if (error instanceof CallError && error.status !== 503) throw error
        followed.repeated++
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS))
      }
    }
  }
  followed.done = read()
  followed.done.catch(() => {})
  return followed
}

/** Compares, for a finished batch, the groups delivered to the trainer, the API's results and the stored rows. */
export async function expectExactlyOnce(
  service: Service,
  followed: FollowedBatch,
  samples: number,
  groups: number,
): Promise<Result[]> {
  const { batchId } = followed
  expect(followed.groups.map((g) => g.seq)).toEqual(Array.from({ length: groups }, (_, i) => i + 1))
  expect(new Set(followed.groups.map((g) => g.uid)).size).toBe(groups)
  const delivered = followed.groups.flatMap((g) => g.samples).sort((a, b) => a.index - b.index)
  expect(delivered.map((s) => s.index)).toEqual(Array.from({ length: samples }, (_, i) => i))
  expect(
    new Set(delivered.map((s) => s.status).filter((s) => s === 'queued' || s === 'running')),
  ).toEqual(new Set())

  const end = await service.api.batches.get.query({ batchId })
  const scored = delivered.filter((s) => s.status === 'scored').length
  expect(end).toMatchObject({
    status: 'completed',
    samples,
    scored,
    failed: samples - scored,
    groups,
    groupsCompleted: groups,
  })
  // Delivered results are final, so a second read returns the same groups.
  const again = await service.api.batches.next.query({ batchId, samples: 1_000_000 })
  expect(again.groups).toEqual(followed.groups)

  const id = Number(batchId.slice(1))
  const [stored] = await service.sql<Record<string, number>>(
    `select count(*)::int as rows, (count(*) filter (where status = 2))::int as scored,
       (count(*) filter (where status = 3))::int as failed, count(distinct idx)::int as indexes
     from sample where batch_id = $1`,
    [id],
  )
  expect(stored).toEqual({ rows: samples, scored, failed: samples - scored, indexes: samples })
  const wrongGroups = await service.sql(
    `select g.no, g.received, g.ended, s.n, s.ended as members_ended from sample_group g
     join (select group_no, count(*)::int as n, (count(*) filter (where status >= 2))::int as ended
           from sample where batch_id = $1 group by 1) s on s.group_no = g.no
     where g.batch_id = $1 and (g.received <> s.n or g.ended <> s.ended or g.seq is null)`,
    [id],
  )
  expect(wrongGroups).toEqual([])
  return delivered
}
