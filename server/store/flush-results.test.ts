import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { SampleInput } from '../contract/trainer.ts'
import { payloadOf } from './channels.ts'
import { testDatabaseForFile } from './postgres/test-database.ts'
import { appendStatement } from './sql/append.ts'
import { flushStatement } from './sql/flush.ts'
import { encodeTexts } from './stored-texts.ts'

const database = testDatabaseForFile()
let db: pg.Pool

beforeAll(() => {
  db = new pg.Pool({ connectionString: database.url, max: 8 })
})
afterAll(() => db.end())

/** Creates a batch whose sample `i` is in group `i % groups`, so that every chunk touches every group. */
async function makeBatch(options: {
  samples: number
  groups: number
  groupSize?: number
  closed?: boolean
}): Promise<number> {
  const { samples, groups } = options
  const { rows } = await db.query<{ id: number }>(
    `insert into batch (run_id, step, split, status, closed, group_size, reward, reward_name, samples, groups, text_bucket)
     values (1, 1, 'train', $1, $2, $3, '{}', 'test', $4, $5, current_date) returning id`,
    [
      options.closed === false ? 'open' : 'running',
      options.closed ?? true,
      options.groupSize ?? null,
      samples,
      groups,
    ],
  )
  const id = rows[0]!.id
  await db.query(
    `insert into sample_group (batch_id, no, uid, received)
     select $1, g, 'q' || g, (select count(*) from generate_series(0, $2::int - 1) i where i % $3 = g)
     from generate_series(0, $3::int - 1) g`,
    [id, samples, groups],
  )
  await db.query(
    `insert into sample (batch_id, idx, group_no, data_source)
     select $1, i, i % $3, 'test' from generate_series(0, $2::int - 1) i`,
    [id, samples, groups],
  )
  return id
}

async function flush(
  batch: number,
  indexes: number[],
  outcome: 'scored' | 'failed' = 'scored',
  worker = 1,
): Promise<number> {
  const all = <T>(value: T) => indexes.map(() => value)
  const scored = outcome === 'scored'
  const { rows } = await db.query<{ n: number }>(
    'select flush_results($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17) as n',
    [
      worker,
      all(batch),
      indexes,
      all(scored ? 2 : 3),
      all(1),
      scored ? indexes.map((i) => i / 10) : all(null),
      scored ? indexes.map((i) => i / 10) : all(null),
      all(scored ? null : 'timeout'),
      all(false),
      all(null),
      all(1),
      all(1),
      all(null),
      all(Date.now()),
      all('equal'),
      all(null),
      all(null),
    ],
  )
  return rows[0]!.n
}

async function batchRow(id: number) {
  return (await db.query('select * from batch where id = $1', [id])).rows[0] as {
    status: string
    scored: number
    failed: number
    groups_completed: number
    completed_at: Date | null
  }
}

async function seqs(id: number): Promise<(number | null)[]> {
  const { rows } = await db.query<{ seq: number | null }>(
    'select seq from sample_group where batch_id = $1 order by seq nulls last',
    [id],
  )
  return rows.map((row) => row.seq)
}

describe('flush_results', () => {
  it('counts each sample once, regardless of how often and by which worker it is flushed', async () => {
    const id = await makeBatch({ samples: 12, groups: 3 })
    expect(await flush(id, [0, 1, 2, 3])).toBe(4)
    expect(await flush(id, [0, 1, 2, 3], 'failed', 2)).toBe(0)
    expect(await flush(id, [3, 4])).toBe(1)
    const row = await batchRow(id)
    expect([row.scored, row.failed]).toEqual([5, 0])
    const { rows } = await db.query(
      'select worker_id, score from sample where batch_id = $1 and idx = 0',
      [id],
    )
    expect(rows[0]).toEqual({ worker_id: 1, score: 0 })
  })

  it('starts each batch of a flush with its own first dispatch', async () => {
    const [one, other] = [
      await makeBatch({ samples: 1, groups: 1 }),
      await makeBatch({ samples: 2, groups: 1 }),
    ]
    const [earlier, later] = [Date.UTC(2026, 0, 1), Date.UTC(2026, 0, 2)]
    const samples = [
      [one, 0, earlier],
      [other, 0, later + 1_000],
      [other, 1, later],
    ] as const
    const { text, values } = flushStatement(
      1,
      samples.map(([batchId, index, dispatchedAtMs]) => ({
        ...{ batchId, index, score: 1, rawScore: 1, reason: null, substituted: false, extra: null },
        ...{ verdict: null, extracted: null, rewards: null, attempts: 1, queueMs: 1, scoreMs: 1 },
        ...{ serverId: null, serverName: null, dispatchedAtMs, attemptLog: null },
      })),
    )
    expect((await db.query(text, values)).rows).toEqual([{ n: 3 }])
    const { rows } = await db.query('select started_at from batch where id = any($1) order by id', [
      [one, other],
    ])
    expect(rows.map((row) => row.started_at.getTime())).toEqual([earlier, later])
  })

  it.each([
    ['large', [2 ** 1023, 2 ** 1022], 3 * 2 ** 1021],
    ['opposite', [1e200, -1e200], 0],
    ['tiny', [5e-324, 1], 0.5],
  ])(
    'gives a failed member the mean of its group even if the scores are %s',
    async (_, scores, mean) => {
      const id = await makeBatch({ samples: 3, groups: 1 })
      await db.query(
        `update batch set reward = '{"onFailure": {"policy": "group_mean"}}' where id = $1`,
        [id],
      )
      const { text, values } = flushStatement(
        1,
        [...scores, null].map((score, index) => ({
          ...{
            batchId: id,
            index,
            score,
            rawScore: score,
            reason: score === null ? 'timeout' : null,
          },
          ...{ substituted: false, extra: null, verdict: null, extracted: null, rewards: null },
          ...{ attempts: 1, queueMs: 1, scoreMs: 1, serverId: null, serverName: null },
          ...{ dispatchedAtMs: Date.now(), attemptLog: null },
        })),
      )
      expect((await db.query(text, values)).rows).toEqual([{ n: 3 }])
      const { rows } = await db.query('select score from sample where batch_id = $1 and idx = 2', [
        id,
      ])
      expect(rows).toEqual([{ score: mean }])
      expect(await batchRow(id)).toMatchObject({ status: 'completed', scored: 2, failed: 1 })
    },
  )

  it('completes a group with its last sample and the batch with its last group', async () => {
    const id = await makeBatch({ samples: 6, groups: 3 })
    await flush(id, [0, 1, 2])
    expect(await seqs(id)).toEqual([null, null, null])
    await flush(id, [4])
    expect(await seqs(id)).toEqual([1, null, null])
    expect((await batchRow(id)).status).toBe('running')
    await flush(id, [3], 'failed')
    await flush(id, [5])
    expect(await seqs(id)).toEqual([1, 2, 3])
    const row = await batchRow(id)
    expect([row.status, row.scored, row.failed, row.groups_completed]).toEqual([
      'completed',
      5,
      1,
      3,
    ])
    expect(row.completed_at).not.toBeNull()
  })

  it('completes a full group of an open batch, and other groups once the batch is closed', async () => {
    const id = await makeBatch({ samples: 6, groups: 3, groupSize: 2, closed: false })
    await flush(id, [0, 3, 1])
    expect(await seqs(id)).toEqual([1, null, null])
    const open = await makeBatch({ samples: 6, groups: 3, closed: false })
    await flush(open, [0, 1, 2, 3, 4, 5])
    expect(await seqs(open)).toEqual([null, null, null])
    await db.query("update batch set closed = true, status = 'running' where id = $1", [open])
    await db.query('select settle_batch($1)', [open])
    expect(await seqs(open)).toEqual([1, 2, 3])
    expect((await batchRow(open)).status).toBe('completed')
    await db.query('select settle_batch($1)', [open])
    expect((await batchRow(open)).groups_completed).toBe(3)
  })

  it('ends a batch only once every group that completed while the batch was open has its number', async () => {
    for (const [status, end] of [
      ['running', 'completed'],
      ['cancelled', 'cancelled'],
    ]) {
      const id = await makeBatch({ samples: 6, groups: 3, closed: false })
      await flush(id, [0, 3, 1, 4])
      await db.query('update batch set closed = true, status = $2 where id = $1', [id, status])
      // The last flush runs between the two steps of closing or cancelling.
      await flush(id, [2, 5])
      expect(await seqs(id)).toEqual([1, null, null])
      expect((await batchRow(id)).completed_at).toBeNull()
      await db.query('select settle_batch($1)', [id])
      expect(await seqs(id)).toEqual([1, 2, 3])
      const row = await batchRow(id)
      expect([row.status, row.groups_completed]).toEqual([end, 3])
      expect(row.completed_at).not.toBeNull()
    }
  })

  it('numbers groups densely and never deadlocks when eight writers flush chunks that touch every group', async () => {
    const samples = 2_048
    const id = await makeBatch({ samples, groups: 64 })
    const order = Array.from({ length: samples }, (_, i) => (i * 797) % samples)
    const chunks: number[][] = []
    for (let at = 0; at < samples; at += 32) chunks.push(order.slice(at, at + 32))
    const before = await deadlocks()
    await Promise.all(
      chunks.map((chunk, i) => flush(id, chunk, i % 9 === 0 ? 'failed' : 'scored', i % 8)),
    )
    const row = await batchRow(id)
    expect(row.scored + row.failed).toBe(samples)
    expect(row.status).toBe('completed')
    expect(await seqs(id)).toEqual(Array.from({ length: 64 }, (_, i) => i + 1))
    expect(await deadlocks()).toBe(before)
  })

  it('ends pending samples with a reason during concurrent flushes of the same samples', async () => {
    const id = await makeBatch({ samples: 256, groups: 32 })
    const chunks = Array.from({ length: 8 }, (_, c) =>
      Array.from({ length: 32 }, (_, i) => c * 32 + i),
    )
    await Promise.all([
      ...chunks.slice(0, 4).map((chunk) => flush(id, chunk)),
      db.query("select end_pending($1, 'cancelled')", [id]),
      ...chunks.slice(4).map((chunk) => flush(id, chunk)),
    ])
    const row = await batchRow(id)
    expect(row.scored + row.failed).toBe(256)
    expect(row.groups_completed).toBe(32)
    const { rows } = await db.query(
      'select count(*)::int as n from sample where batch_id = $1 and ((status = 2 and score is null) or (status = 3 and reason is null))',
      [id],
    )
    expect(rows[0].n).toBe(0)
  })

  it('refuses a failed sample with a score', async () => {
    const id = await makeBatch({ samples: 2, groups: 1 })
    await expect(
      db.query('update sample set status = 3, score = 0 where batch_id = $1 and idx = 0', [id]),
    ).rejects.toThrow(/sample_outcome_check/)
  })
})

async function deadlocks(): Promise<number> {
  const { rows } = await db.query<{ n: string }>(
    'select deadlocks as n from pg_stat_database where datname = current_database()',
  )
  return Number(rows[0]!.n)
}

describe('a single sample', () => {
  beforeAll(() =>
    db.query('create table if not exists texts_of_test partition of sample_text default'),
  )

  const appendOf = (batchId: number, uid: string, score?: number) => {
    const sample = SampleInput.parse({ uid, dataSource: 'd', prompt: 'p', response: 'r', score })
    const texts = [encodeTexts(sample)]
    return appendStatement(
      batchId,
      0,
      [sample],
      { sent: texts, stored: texts },
      payloadOf('serversChanged'),
    )
  }

  it('is refused while a failed sample closes the batch, so that it does not stay pending', async () => {
    const id = await makeBatch({ samples: 0, groups: 0, closed: false })
    const [failing, appending] = await Promise.all([db.connect(), db.connect()])
    try {
      const pid = (await appending.query('select pg_backend_pid() as pid')).rows[0].pid
      await failing.query('begin')
      await failing.query("update batch set closed = true, status = 'failed' where id = $1", [id])
      const { text, values } = appendOf(id, 'u')
      const appended = appending.query(text, values).catch((error: Error) => error)
      await expect
        .poll(async () => {
          const { rows } = await db.query('select pg_blocking_pids($1) as pids', [pid])
          return rows[0].pids
        })
        .toHaveLength(1)
      await failing.query('commit')
      expect(await appended).toMatchObject({ code: 'RW003' })
    } finally {
      failing.release()
      appending.release()
    }
  })

  it.each([
    ['without a score', undefined],
    ['with a score', 0.5],
  ])('%s waits for the disk, so that no other sample gets its index', async (_, score) => {
    const id = await makeBatch({ samples: 0, groups: 0, closed: false })
    const { text, values } = appendOf(id, 'u', score)
    const client = await db.connect()
    try {
      await client.query('begin')
      await client.query("select set_config('synchronous_commit', 'on', true)")
      await client.query(text, values)
      const { rows } = await client.query('show synchronous_commit')
      expect(rows[0].synchronous_commit).toBe('on')
    } finally {
      await client.query('rollback')
      client.release()
    }
  })
})
