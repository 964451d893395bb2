import { beforeAll, describe, expect, it } from 'vitest'
import { PlannerInput } from '../contract/planner.ts'
import { createLogger } from '../log.ts'
import { Database } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { inPortions } from './in-portions.ts'
import { PlannerView } from './planner-view.ts'

const database = testDatabaseForFile()
let db: Database
let view: PlannerView

beforeAll(async () => {
  db = new Database(database.url, createLogger('silent', 'test'), { max: 3, name: 'test' })
  view = new PlannerView(db)
  await db.adhoc(`insert into run (id, name) values (1, 'recorded'), (2, 'empty')`)
  const batch = (id: number, step: number, status: string, samples: number, at: string) =>
    db.adhoc(
      `insert into batch (id, run_id, step, split, status, reward, reward_name, samples, submitted_at, completed_at, text_bucket)
       values ($1, 1, $2, 'train', $3, '{}', 'naive', $4, $5,
         case $3 when 'completed' then $5::timestamptz + $2::int * interval '10 s' end, '2026-01-01')`,
      [id, step, status, samples, at],
    )
  await batch(1, 1, 'completed', 40, '2026-01-01T00:00:00Z')
  await batch(2, 2, 'completed', 40, '2026-01-01T00:05:00Z')
  await batch(3, 3, 'completed', 40, '2026-01-01T00:09:00Z')
  await batch(4, 4, 'running', 8, '2026-01-01T00:14:00Z')
  await batch(5, 5, 'running', 4, '2026-01-01T00:18:00Z')
  // Members of a group are not adjacent. The reward of sample i of batch b takes b × 100 + i ms.
  await db.adhoc(
    `insert into sample (batch_id, idx, group_no, status, data_source, score, reason, score_ms)
     select b, i, i % 10, status, 'd', case status when 2 then 1 end, case status when 3 then 'timeout' end,
       case when i <> 9 then b * 100 + i end
     from generate_series(1, 4) b, generate_series(0, 39) i,
       lateral (select case when b = 4 and i >= 5 then 0 when i = 7 then 3 else 2 end as status) s
     where b < 4 or i < 8`,
  )
  await db.adhoc(
    `insert into sample (batch_id, idx, group_no, status, data_source)
     select 5, i, i, 0, 'd' from generate_series(0, 3) i`,
  )
  // The samples of batch 6 were accepted one after the other, with `samples.score`.
  await db.adhoc(`insert into run (id, name) values (3, 'single samples')`)
  await db.adhoc(
    `insert into batch (id, run_id, step, split, status, reward, reward_name, samples, submitted_at, text_bucket)
     values (6, 3, 1, 'train', 'open', '{}', 'naive', 4, '2026-01-01', '2026-01-01')`,
  )
  await db.adhoc(
    `insert into sample (batch_id, idx, group_no, status, data_source, score, queue_ms, score_ms, dispatched_at)
     select 6, i, i, 2, 'd', 1, 1, 1000, '2026-01-01'::timestamptz + i * interval '2 s' from generate_series(0, 3) i`,
  )
  return () => db.close()
})

const plan = (source: object, over: object = {}) =>
  view.plan(
    PlannerInput.parse({
      source,
      phases: { rolloutMs: 100, logProbMs: 50, updateMs: 200 },
      limits: [null],
      ...over,
    }),
  )

describe('a recorded batch', () => {
  it('has its exact latencies and groups', async () => {
    const { rewards, columns } = await plan({ kind: 'batch', batchId: 'b2' })
    expect(rewards).toMatchObject({
      samples: 40,
      groups: 10,
      maxMs: 239,
      p50Ms: 219,
      batches: [{ batchId: 'b2', step: 2 }],
      pending: 0,
      withoutCall: 1,
      recordedConcurrency: 39,
      recordedStepMs: 240_000,
      recordedWaitMs: 20_000,
    })
    expect(columns[0]?.strategies[0]?.stepMs).toBeCloseTo(350 + 239)
  })

  it('provides the omitted trainer times and limits', async () => {
    const { phasesFrom, limitsFrom, columns } = await plan(
      { kind: 'batch', batchId: 'b2' },
      { phases: {}, limits: undefined },
    )
    expect([phasesFrom, limitsFrom]).toEqual(['record', 'record'])
    expect(columns.map(({ limit }) => limit)).toEqual([39, null])
  })

  it('of samples that were accepted at different times has the concurrency that they had', async () => {
    const { rewards } = await plan({ kind: 'batch', batchId: 'b6' })
    expect(rewards.recordedConcurrency).toBe(1)
  })

  it('that is still running counts its ended samples only', async () => {
    const { rewards } = await plan({ kind: 'batch', batchId: 'b4' })
    expect(rewards).toMatchObject({ samples: 5, groups: 5, pending: 3, maxMs: 404 })
  })

  it('is refused when it is missing or has no ended sample', async () => {
    for (const [batchId, reason] of [
      ['b99', 'batch_not_found'],
      ['b999999999999', 'batch_not_found'],
      ['b5', 'nothing_recorded'],
    ]) {
      await expect(plan({ kind: 'batch', batchId })).rejects.toMatchObject({ reason })
    }
  })
})

describe('a recorded run', () => {
  it('provides a batch for each step, oldest first, and starts over after the last', async () => {
    const { rewards, columns } = await plan({ kind: 'run', run: 'recorded' }, { steps: 6 })
    expect(rewards.batches.map(({ step }) => step)).toEqual([1, 2, 3])
    expect(rewards).toMatchObject({ samples: 40, recordedStepMs: 240_000, withoutCall: 3 })
    expect(columns[0]?.strategies[0]?.stepMs).toBeCloseTo(350 + (139 + 239 + 339) / 3)
  })

  it('provides omitted trainer times', async () => {
    const { rewards, phases, phasesFrom } = await plan(
      { kind: 'run', run: 'recorded' },
      { phases: { rolloutMs: 57_000 } },
    )
    expect(rewards).toMatchObject({ recordedStepMs: 240_000, recordedWaitMs: 20_000 })
    expect(phases).toEqual({ rolloutMs: 57_000, logProbMs: 43_000, updateMs: 120_000 })
    expect(phasesFrom).toBe('record')
  })

  it('provides its newest batches when it has more batches than the plan has steps', async () => {
    const { rewards } = await plan({ kind: 'run', run: 'recorded' }, { steps: 2 })
    expect(rewards.batches.map(({ step }) => step)).toEqual([2, 3])
  })

  it('is refused when it is missing or has no ended batch', async () => {
    for (const [run, reason] of [
      ['empty', 'nothing_recorded'],
      ['unknown', 'run_not_found'],
    ] as const) {
      await expect(plan({ kind: 'run', run })).rejects.toMatchObject({
        reason,
        message: expect.stringContaining(run),
      })
    }
  })
})

it('refuses plans that would take too long', async () => {
  const source = {
    kind: 'typed',
    prompts: 65_536,
    groupSize: 8,
    reward: { kind: 'constant', ms: 1 },
  }
  await expect(plan(source)).rejects.toMatchObject({
    reason: 'plan_too_large',
    message: expect.stringContaining('524,288'),
  })
})

it('refuses a plan while eight others are queued', async () => {
  const source = { kind: 'batch', batchId: 'b1' }
  const all = await Promise.allSettled(Array.from({ length: 12 }, () => plan(source)))
  const made = all.filter(({ status }) => status === 'fulfilled')
  expect(made).toHaveLength(8)
  for (const one of all) {
    if (one.status === 'rejected') {
      expect(one.reason).toMatchObject({ reason: 'busy', retryAfterMs: 1_000 })
    }
  }
  await expect(plan(source)).resolves.toBeDefined()
})

it('stops computing when its signal aborts', async () => {
  const gone = new AbortController()
  function* work() {
    gone.abort(new Error('gone'))
    for (const untilMs = performance.now() + 100; performance.now() < untilMs; ) yield
  }
  await expect(inPortions(work(), gone.signal)).rejects.toThrow('gone')
})
