import { beforeAll, describe, expect, it, vi } from 'vitest'
import type { Database } from './database.ts'
import { FUNCTIONS_POOL, type JobQueue } from './job-queue.ts'
import { type FlushedSample, flushStatement, stageStatement } from './sql/flush.ts'
import { finishStaged, queuePostProcessing, stagedSamples } from './sql/post-process.ts'
import { testQueueForFile } from './testing/test-queue.ts'

const database = testQueueForFile({ max: 8 })
let db: Database
let queue: JobQueue

beforeAll(() => {
  ;({ db, queue } = database)
})

async function makeBatch(options: {
  samples: number
  groups: number
  groupSize?: number
  closed?: boolean
  reward?: object
}): Promise<number> {
  const { samples, groups, closed = true } = options
  await db.adhoc("insert into run (id, name) values (1, 'r') on conflict do nothing")
  const [row] = await db.adhoc<{ id: number }>(
    `insert into batch (run_id, step, split, status, closed, group_size, reward, reward_name, samples, groups, text_bucket)
     values (1, 1, 'train', $1, $2, $3, $4, 'test', $5, $6, current_date) returning id`,
    [
      closed ? 'running' : 'open',
      closed,
      options.groupSize ?? null,
      JSON.stringify({ postProcess: true, ...options.reward }),
      samples,
      groups,
    ],
  )
  const id = row!.id
  await db.adhoc(
    `insert into sample_group (batch_id, no, uid, received)
     select $1, g, 'q' || g, (select count(*) from generate_series(0, $2::int - 1) i where i % $3 = g)
     from generate_series(0, $3::int - 1) g`,
    [id, samples, groups],
  )
  await db.adhoc(
    `insert into sample (batch_id, idx, group_no, data_source)
     select $1, i, i % $3, 'test' from generate_series(0, $2::int - 1) i`,
    [id, samples, groups],
  )
  return id
}

const ended = (batchId: number, index: number, failed = false): FlushedSample => ({
  batchId,
  index,
  score: failed ? null : index,
  rawScore: failed ? null : index,
  reason: failed ? 'timeout' : null,
  substituted: false,
  extra: failed ? null : { acc: index },
  verdict: null,
  extracted: null,
  rewards: null,
  attempts: 2,
  queueMs: 1,
  scoreMs: 2,
  serverId: null,
  serverName: null,
  dispatchedAtMs: Date.now(),
  attemptLog: null,
})

async function stage(batchId: number, indexes: number[]): Promise<number> {
  const samples = indexes.map((i) => ended(batchId, i))
  return (await db.pool.query(stageStatement(1, samples))).rows[0].n
}
async function fail(batchId: number, indexes: number[]): Promise<number> {
  const samples = indexes.map((i) => ended(batchId, i, true))
  return (await db.pool.query(flushStatement(1, samples))).rows[0].n
}
const batchRow = async (id: number) =>
  (
    await db.adhoc<{ status: string; scored: number; failed: number; groups_completed: number }>(
      'select status, scored, failed, groups_completed, retries from batch where id = $1',
      [id],
    )
  )[0]
const samplesOf = (id: number) =>
  db.adhoc<{
    status: number
    score: number | null
    raw_score: number | null
    reason: string
    substituted: boolean
  }>(
    'select status, score, raw_score, reason, substituted from sample where batch_id = $1 order by idx',
    [id],
  )
async function jobs(batchId: number): Promise<number[][]> {
  const rows = await db.adhoc<{ data: { g: number[] } }>(
    "select data from pgboss.job where name = $1 and (data ->> 'b')::int = $2 order by id",
    [FUNCTIONS_POOL, batchId],
  )
  return rows.map((row) => row.data.g)
}
const CALL = { startedAtMs: Date.now(), serviceMs: 7 }
const finish = async (id: number, group: number, change: (score: number) => number) => {
  const staged = await stagedSamples(db, id, [group])
  await finishStaged(
    db,
    1,
    id,
    staged.map((s) => s.idx),
    { ok: true, scores: staged.map((s) => change(s.staged_score)) },
    CALL,
  )
}

describe('a staged sample', () => {
  it('counts as pending and is staged once', async () => {
    const id = await makeBatch({ samples: 2, groups: 1 })
    expect(await stage(id, [0, 1])).toBe(2)
    expect(await stage(id, [0, 1])).toBe(0)
    expect(await samplesOf(id)).toMatchObject([
      { status: 1, score: null, raw_score: 0 },
      { status: 1, score: null, raw_score: 1 },
    ])
    expect(await batchRow(id)).toMatchObject({ status: 'running', scored: 0, groups_completed: 0 })
  })

  it('keeps its score when a late failure of the same sample arrives', async () => {
    const id = await makeBatch({ samples: 2, groups: 1 })
    expect(await stage(id, [0])).toBe(1)
    expect(await fail(id, [0, 1])).toBe(1)
    expect((await samplesOf(id)).map(({ status, reason }) => [status, reason])).toEqual([
      [1, null],
      [3, 'timeout'],
    ])
  })

  it('ends when its batch is cancelled', async () => {
    const id = await makeBatch({ samples: 4, groups: 2 })
    await stage(id, [0, 1, 2])
    await queuePostProcessing(db, queue, id)
    await db.adhoc("update batch set status = 'cancelled' where id = $1", [id])
    await db.adhoc("select end_pending($1, 'cancelled')", [id])
    expect(await batchRow(id)).toMatchObject({ scored: 0, failed: 4, groups_completed: 2 })
    // The job comes too late and changes nothing.
    expect((await stagedSamples(db, id, [0])).length).toBe(0)
    await finishStaged(db, 1, id, [0, 2], { ok: true, scores: [5, 5] }, CALL)
    expect((await samplesOf(id)).map((s) => s.score)).toEqual([null, null, null, null])
    expect(await batchRow(id)).toMatchObject({ scored: 0, failed: 4, groups_completed: 2 })
  })
})

describe('pending samples of a batch that ends early', () => {
  it.each(['cancelled', 'deadline'])(
    'end as %s, with the score of the failure policy',
    async (reason) => {
      for (const [policy, score] of [
        [{ policy: 'constant', value: -1 }, -1],
        [{ policy: 'null' }, null],
      ] as const) {
        const id = await makeBatch({ samples: 3, groups: 1, reward: { onFailure: policy } })
        await stage(id, [0])
        await db.adhoc('select end_pending($1, $2)', [id, reason])
        const ended = { status: 3, score, reason, substituted: score !== null }
        expect(await samplesOf(id)).toMatchObject([ended, ended, ended])
      }
    },
  )
})

describe('a group to post-process', () => {
  it('is queued once, after its last sample ended, even by concurrent callers', async () => {
    const id = await makeBatch({ samples: 60, groups: 20 })
    await stage(id, [0, 20, 1, 21])
    expect(await queuePostProcessing(db, queue, id)).toBe(0)
    await stage(id, [40])
    await fail(id, [41])
    const counts = await Promise.all(
      Array.from({ length: 6 }, () => queuePostProcessing(db, queue, id)),
    )
    expect(counts.sort()).toEqual([0, 0, 0, 0, 0, 2])
    expect(await jobs(id)).toEqual([[0, 1]])
    await stage(
      id,
      Array.from({ length: 60 }, (_, i) => i),
    )
    await queuePostProcessing(db, queue, id)
    expect((await jobs(id)).map((g) => g.length).sort()).toEqual([16, 2, 2])
  })

  it('is queued with the time of the database’s clock', async () => {
    const id = await makeBatch({ samples: 1, groups: 1 })
    await stage(id, [0])
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() - 3_600_000 })
    try {
      await queuePostProcessing(db, queue, id)
    } finally {
      vi.useRealTimers()
    }
    const [row] = await db.adhoc<{ age: number }>(
      `select extract(epoch from clock_timestamp())::float8 * 1000 - (data ->> 't')::float8 as age from pgboss.job
       where name = $1 and (data ->> 'b')::int = $2`,
      [FUNCTIONS_POOL, id],
    )
    expect(row?.age).toBeLessThan(1_800_000)
  })

  it('of an open batch is ready when it is full; an incomplete one when the batch is closed', async () => {
    const id = await makeBatch({ samples: 5, groups: 2, groupSize: 3, closed: false })
    await stage(id, [0, 2, 4, 1, 3])
    expect(await queuePostProcessing(db, queue, id)).toBe(1)
    expect(await jobs(id)).toEqual([[0]])
    await db.adhoc("update batch set closed = true, status = 'running' where id = $1", [id])
    expect(await queuePostProcessing(db, queue, id)).toBe(1)
  })

  it('completes together with its scores; numbers are dense, and repetition changes nothing', async () => {
    const onFailure = { policy: 'constant', value: -1 }
    const id = await makeBatch({ samples: 6, groups: 2, reward: { onFailure } })
    await stage(id, [0, 1, 2, 3, 4, 5])
    await finish(id, 1, (score) => score * 10)
    expect(await batchRow(id)).toMatchObject({ status: 'running', scored: 3, groups_completed: 1 })
    await finish(id, 1, () => 99)
    await finish(id, 0, (score) => -score)
    expect((await samplesOf(id)).map((s) => s.score)).toEqual([0, 10, -2, 30, -4, 50])
    expect((await samplesOf(id)).map((s) => s.raw_score)).toEqual([0, 1, 2, 3, 4, 5])
    expect((await samplesOf(id)).map((s) => s.substituted)).toEqual(Array(6).fill(false))
    expect(await batchRow(id)).toMatchObject({
      status: 'completed',
      scored: 6,
      failed: 0,
      groups_completed: 2,
      retries: 6,
    })
  })

  it('whose post-processing failed ends with a reason in its attempts, and the failure policy applies', async () => {
    const id = await makeBatch({
      samples: 2,
      groups: 1,
      reward: { onFailure: { policy: 'constant', value: -1 } },
    })
    await stage(id, [0, 1])
    const outcome = { ok: false, reason: 'function_error', detail: 'it threw' } as const
    await finishStaged(db, 1, id, [0, 1], outcome, CALL)
    await finishStaged(db, 1, id, [0, 1], outcome, CALL)
    expect(await samplesOf(id)).toMatchObject(
      [0, 1].map((i) => ({
        status: 3,
        score: -1,
        raw_score: i,
        reason: 'function_error',
        substituted: true,
      })),
    )
    expect(await batchRow(id)).toMatchObject({ status: 'completed', failed: 2 })
    const attempts = await db.adhoc(
      'select idx, reason, detail, service_ms from attempt where batch_id = $1',
      [id],
    )
    expect(attempts).toEqual([
      { idx: 0, reason: 'function_error', detail: 'it threw', service_ms: 7 },
      { idx: 1, reason: 'function_error', detail: 'it threw', service_ms: 7 },
    ])
  })
})
