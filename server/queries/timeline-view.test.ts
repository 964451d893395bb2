import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { BatchReader } from '../batches/batch-reader.ts'
import { BatchSignals } from '../batches/signals.ts'
import { insertServer } from '../cluster/testing/servers.ts'
import {
  MAX_TIMELINE_GROUPS,
  MAX_TIMELINE_SAMPLES,
  type TimelineDto,
} from '../contract/timeline.ts'
import { createLogger } from '../log.ts'
import { Database } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { attemptsStatement, type FlushedSample, flushStatement } from '../store/sql/flush.ts'
import { TimelineView } from './timeline-view.ts'

const database = testDatabaseForFile()
const log = createLogger('silent', 'test')
let db: Database

beforeAll(async () => {
  // The same settings as the pages' connections: `keyed`, so that plans do not depend on statistics, and a time limit.
  db = new Database(database.url, log, {
    max: 2,
    name: 'test',
    keyed: true,
    statementTimeoutMs: 10_000,
  })
  await db.adhoc("insert into run (id, name) values (1, 'timeline')")
})
afterAll(() => db.close())

/** Makes a batch accepted a minute ago. Sample `i` is in group `i / size`; group `no` is named `q<no>`. */
async function makeBatch(
  groups: number,
  size: number,
  options: { open?: boolean; reward?: object } = {},
) {
  const [row] = await db.adhoc<{ id: number; submitted: number }>(
    `insert into batch (run_id, step, split, status, closed, group_size, reward, reward_name, samples, groups,
       text_bucket, submitted_at)
     values (1, 1, 'train', $4, $4 = 'running', $2, $3, 'test', $1::int * $2::int, $1, current_date,
       now() - interval '60 s')
     returning id, extract(epoch from submitted_at)::float8 * 1000 as submitted`,
    [groups, size, options.reward ?? {}, options.open ? 'open' : 'running'],
  )
  const { id, submitted } = row!
  await db.adhoc(
    `insert into sample_group (batch_id, no, uid, received) select $1, g, 'q' || g, $3 from generate_series(0, $2::int - 1) g`,
    [id, groups, size],
  )
  await db.adhoc(
    `insert into sample (batch_id, idx, group_no, data_source)
     select $1, i, i / $3::int, 'test' from generate_series(0, $2::int * $3::int - 1) i`,
    [id, groups, size],
  )
  return { id, batchId: `b${id}`, submitted }
}

type Batch = Awaited<ReturnType<typeof makeBatch>>

/** Ends samples, each dispatched 10 s after the batch's acceptance. */
async function end(batch: Batch, indexes: number[], fields: Partial<FlushedSample> = {}) {
  const samples = indexes.map(
    (index): FlushedSample => ({
      ...{ batchId: batch.id, index, score: 1, rawScore: 1, reason: null, substituted: false },
      ...{
        extra: null,
        verdict: null,
        extracted: null,
        rewards: null,
        attempts: 1,
        queueMs: 10_000,
        scoreMs: 500,
        serverId: null,
      },
      ...{ serverName: null, dispatchedAtMs: batch.submitted + 10_000, attemptLog: null },
      ...fields,
    }),
  )
  const attempts = attemptsStatement(1, samples)
  await db.atOnce([...(attempts ? [attempts] : []), flushStatement(1, samples)])
}

const view = () => new TimelineView(db, new BatchReader(db, new BatchSignals()))
const read = (batch: Batch, after: string | null = null, part = 0): Promise<TimelineDto> =>
  view().part({ batchId: batch.batchId, after, part })

describe('a batch’s timeline', () => {
  it('has every ended sample with its times, server and outcome', async () => {
    const serverId = await insertServer(db, { name: 'rm-1' })
    const batch = await makeBatch(3, 2)
    await end(batch, [2, 3], { serverId })
    await end(batch, [0], { score: null, rawScore: null, reason: 'timeout' })
    const t = await read(batch)
    expect(t).toMatchObject({
      ...{ full: true, ended: false, part: 0, parts: 1, groupsInPart: 3, samplesLeftOut: 0 },
      totals: { groups: 3, groupsCompleted: 1, samples: 6 },
      servers: ['rm-1'],
      groups: { no: [1, 0, 2], uid: ['q1', 'q0', 'q2'], size: [2, 2, 2], seq: [1, 0, 0] },
      samples: { index: [0, 2, 3], group: [0, 1, 1], server: [null, 0, 0] },
      failed: { index: [0], reason: ['timeout'] },
    })
    expect(t.samples.dispatchedMs).toEqual([10_000, 10_000, 10_000])
    for (const ms of [...t.samples.endedMs, t.groups.completedMs[0]!, t.atMs]) {
      expect(ms).toBeGreaterThanOrEqual(60_000)
      expect(ms).toBeLessThan(120_000)
    }
    expect(t.groups.completedMs.slice(1)).toEqual([null, null])
  })

  it('has the calls of each group’s last sample only', async () => {
    const batch = await makeBatch(2, 2)
    const call = (attempt: number, at: number, outcome: string) => ({
      ...{ attempt, serverId: null as unknown as number, startedAtMs: batch.submitted + at },
      ...{ queueMs: 40, backoffMs: attempt > 1 ? 100 : 0, serviceMs: 900, outcome },
      ...{ reason: null, status: null, detail: null },
    })
    const attemptLog = [
      call(1, 10_000, 'busy'),
      call(2, 11_040, 'ok'),
      call(3, 11_050, 'superseded'),
    ]
    await end(batch, [0, 2], { attempts: 2, attemptLog })
    await end(batch, [1], { attempts: 2, attemptLog })
    const t = await read(batch)
    expect(t.retried).toEqual({ index: [0, 1, 2], attempts: [2, 2, 2] })
    expect(t.calls).toEqual({
      ...{ index: [1, 1], startedMs: [10_000, 11_040], queueMs: [40, 40] },
      ...{ backoffMs: [0, 100], serviceMs: [900, 900] },
    })
  })

  it('reports changes of a running batch and the groups claimed by workers', async () => {
    const batch = await makeBatch(4, 2)
    await end(batch, [0, 1, 2])
    await db.adhoc(
      `update sample set ended_at = ended_at - interval '20 s' where batch_id = $1 and ended_at is not null`,
      [batch.id],
    )
    await db.adhoc(
      `update sample_group set completed_at = completed_at - interval '20 s' where batch_id = $1 and seq is not null`,
      [batch.id],
    )
    await db.adhoc(
      `insert into claim (job_id, queue, worker_id, batch_id, first_idx, last_idx, samples, claimed_at)
       values (gen_random_uuid(), 'rules', 1, $1, 2, 5, 3, now() - interval '5 s')`,
      [batch.id],
    )
    const first = await read(batch)
    expect(first.claimed).toMatchObject({ group: [1, 2], samples: [1, 2] })
    expect(first.claimed.sinceMs[0]).toBeGreaterThan(50_000)
    await end(batch, [3, 4])
    const next = await read(batch, first.cursor)
    expect(next).toMatchObject({
      ...{ full: false, groupsInPart: 4 },
      groups: { no: [1], seq: [2] },
      samples: { index: [3, 4], group: [1, 2] },
      claimed: { group: [2], samples: [1] },
    })
    expect((await read(batch, 'nonsense')).full).toBe(true)
  })

  it('reports the new groups of an open batch', async () => {
    const batch = await makeBatch(1, 2, { open: true })
    const { cursor } = await read(batch)
    await db.adhoc(
      `insert into sample_group (batch_id, no, uid, received) values ($1, 1, 'late', 1)`,
      [batch.id],
    )
    expect((await read(batch, cursor)).groups.uid).toEqual(['q0', 'late'])
  })

  it('includes samples that wait for post-processing, with the time they were scored', async () => {
    const batch = await makeBatch(1, 2, { reward: { postProcess: 'shape' } })
    await db.adhoc(
      `update sample set status = 1, dispatched_at = to_timestamp($2::float8 / 1000), score_ms = 700
       where batch_id = $1 and idx = 0`,
      [batch.id, batch.submitted + 2_000],
    )
    expect((await read(batch)).samples).toMatchObject({ index: [0], endedMs: [2_700] })
  })

  it('orders groups by completion, then waiting ones, over several parts', async () => {
    const batch = await makeBatch(MAX_TIMELINE_GROUPS + 500, 1)
    const last = MAX_TIMELINE_GROUPS + 499
    await end(batch, [last])
    await end(batch, [7])
    const first = await read(batch)
    expect(first).toMatchObject({ parts: 2, groupsInPart: MAX_TIMELINE_GROUPS })
    expect(first.groups.no.slice(0, 4)).toEqual([last, 7, 0, 1])
    expect(first.groups.no.at(-1)).toBe(MAX_TIMELINE_GROUPS - 2)
    expect(first.samples.index).toEqual([7, last])
    const second = await read(batch, null, 1)
    // The second part gets other groups whenever a group completes, so the part has no cursor.
    expect(second).toMatchObject({ groupsInPart: 500, cursor: null })
    expect(second.groups.no[0]).toBe(MAX_TIMELINE_GROUPS - 1)
  })

  it('leaves out samples of a group larger than a part, and counts them', async () => {
    const batch = await makeBatch(1, MAX_TIMELINE_SAMPLES + 100)
    await end(
      batch,
      Array.from({ length: MAX_TIMELINE_SAMPLES + 100 }, (_, i) => i),
    )
    const t = await read(batch)
    expect(t).toMatchObject({ partGroups: 1, samplesLeftOut: 100, ended: true, cursor: null })
    expect(t.samples.index).toHaveLength(MAX_TIMELINE_SAMPLES)
  })

  it('reads 2,000 groups of 16 within the time limit, without statistics', async () => {
    const batch = await makeBatch(2_000, 16)
    await end(
      batch,
      Array.from({ length: 31_000 }, (_, i) => i),
    )
    const t = await read(batch)
    expect(t.samples.index).toHaveLength(31_000)
    expect(t.groups.no).toHaveLength(2_000)
  })

  it('is refused for an unknown batch', async () => {
    await expect(view().part({ batchId: 'b999', after: null, part: 0 })).rejects.toMatchObject({
      reason: 'batch_not_found',
    })
  })
})
