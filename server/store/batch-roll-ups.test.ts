import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLogger } from '../log.ts'
import { Database } from './database.ts'
import { testDatabaseForFile } from './postgres/test-database.ts'
import { BINS, storeBatchRollUps } from './sql/batch-roll-ups.ts'
import { rollUpEnded } from './sql/batches.ts'

const database = testDatabaseForFile()
let db: Database

beforeAll(() => {
  // `keyed` is set as in the service, where every statement is a lookup by key.
  db = new Database(database.url, createLogger('error', 'test'), {
    max: 2,
    name: 'test',
    keyed: true,
  })
})
afterAll(() => db.close())

interface Made {
  source: string
  /** Null if the sample failed. */
  score: number | null
  substituted?: boolean
  queueMs?: number
}

async function batchOf(samples: readonly Made[]): Promise<number> {
  await db.adhoc("insert into run (id, name) values (1, 'r') on conflict do nothing")
  const [row] = await db.adhoc<{ id: number }>(
    `insert into batch (run_id, step, split, status, closed, reward, reward_name, samples, text_bucket, completed_at)
     values (1, 1, 'train', 'completed', true, '{}', 'test', $1, current_date, now()) returning id`,
    [samples.length],
  )
  const { id } = row!
  await db.adhoc(
    `insert into sample (batch_id, idx, group_no, data_source, status, score, reason, substituted, queue_ms)
     select $1, ord - 1, 0, s ->> 'source', case when s ->> 'failed' = 'true' then 3 else 2 end, (s ->> 'score')::float8,
       case when s ->> 'failed' = 'true' then 'timeout' end, coalesce((s ->> 'substituted')::boolean, false), (s ->> 'queueMs')::real
     from jsonb_array_elements($2::jsonb) with ordinality as t(s, ord)`,
    [
      id,
      JSON.stringify(
        samples.map((s) => ({ ...s, failed: s.score === null || s.substituted === true })),
      ),
    ],
  )
  return id
}

async function rollUpsOf(id: number) {
  await storeBatchRollUps(db, id)
  const rows = await db.adhoc<Record<string, unknown> & { data_source: string }>(
    'select * from batch_roll_up where batch_id = $1 order by data_source',
    [id],
  )
  return new Map(rows.map(({ batch_id: _, data_source, ...rest }) => [data_source, rest]))
}

/** The quantile as numpy computes it by default, with linear interpolation between neighbors. */
function quantile(sorted: readonly number[], q: number): number {
  const at = q * (sorted.length - 1)
  const low = sorted[Math.floor(at)] as number
  return low + (at % 1) * ((sorted[Math.ceil(at)] as number) - low)
}

describe('the roll-up of a batch', () => {
  it('counts each distinct score, by data source and in total, if there are few', async () => {
    const id = await batchOf([
      { source: 'a', score: 1, queueMs: 10 },
      { source: 'a', score: 0, queueMs: 30 },
      { source: 'a', score: 1 },
      { source: 'b', score: 0.5 },
      { source: 'b', score: null },
      { source: 'b', score: 9, substituted: true },
    ])
    const rollUps = await rollUpsOf(id)
    expect([...rollUps.keys()]).toEqual(['', 'a', 'b'])
    expect(rollUps.get('')).toMatchObject({
      ...{ samples: 6, scored: 4, failed: 2, substituted: 1, mean: 0.625, min: 0, max: 1 },
      bin_values: [0, 0.5, 1],
      bin_counts: [1, 1, 2],
      queue_ms: [20, 29],
      score_ms: [],
      reasons: { timeout: 2 },
    })
    expect(rollUps.get('b')).toMatchObject({
      ...{ samples: 3, scored: 1, failed: 2, mean: 0.5, std: null },
      quantiles: [0.5, 0.5, 0.5, 0.5, 0.5],
      bin_values: [0.5],
      reasons: { timeout: 2 },
    })
    // Pages read the batch's own statistics beside its roll-up, so both are stored at the same time.
    const [batch] = await db.adhoc(
      'select rolled_up, mean, std, min, max from batch where id = $1',
      [id],
    )
    expect(batch).toEqual({
      rolled_up: true,
      mean: 0.625,
      std: expect.closeTo(0.479, 3),
      min: 0,
      max: 1,
    })
    expect(await rollUpsOf(id)).toEqual(rollUps)
  })

  it('has the quantiles, deviation and bins of many scores', async () => {
    const scores = Array.from(
      { length: 3_000 },
      (_, i) => Math.sin(i) * 3 + ((i * 7919) % 101) / 50,
    )
    const rollUp = (
      await rollUpsOf(await batchOf(scores.map((score) => ({ source: 'a', score }))))
    ).get('')!
    const sorted = scores.toSorted((a, b) => a - b)
    const mean = scores.reduce((a, b) => a + b) / scores.length
    const squares = scores.reduce((sum, score) => sum + (score - mean) ** 2, 0)
    expect(rollUp.mean).toBeCloseTo(mean, 10)
    expect(rollUp.std).toBeCloseTo(Math.sqrt(squares / (scores.length - 1)), 10)
    for (const [i, q] of [0.05, 0.25, 0.5, 0.75, 0.95].entries()) {
      expect((rollUp.quantiles as number[])[i]).toBeCloseTo(quantile(sorted, q), 10)
    }
    expect(rollUp.bin_values).toEqual([])
    const counts = new Array<number>(BINS).fill(0)
    const [low, high] = [sorted[0] as number, sorted.at(-1) as number]
    for (const score of scores) {
      counts[Math.min(BINS - 1, Math.floor(((score - low) / (high - low)) * BINS))]!++
    }
    expect(rollUp.bin_counts).toEqual(counts)
  })

  it('exists for a batch without counted samples and for extreme scores', async () => {
    const failed = await rollUpsOf(await batchOf([{ source: 'a', score: null }]))
    expect(failed.get('')).toMatchObject({
      ...{
        samples: 1,
        scored: 0,
        failed: 1,
        mean: null,
        quantiles: [],
        bin_values: [],
        bin_counts: [],
      },
    })
    expect(await rollUpsOf(await batchOf([]))).toEqual(new Map())
    const far = Array.from(
      { length: 200 },
      (_, i) => (i % 2 === 0 ? 1 : -1) * 1.7e308 * (1 - i / 1e6),
    )
    const huge = await rollUpsOf(await batchOf(far.map((score) => ({ source: 'a', score }))))
    expect(huge.get('')).toMatchObject({
      ...{ samples: 200, scored: 200, mean: null, std: null, quantiles: [], max: 1.7e308 },
    })
    // The mean and max in the row of the batch must match its roll-up.
    await db.adhoc('update batch set scored = samples where samples = 200')
    await rollUpEnded(db)
    const [batch] = await db.adhoc('select mean, max from batch where samples = 200')
    expect(batch).toEqual({ mean: null, max: 1.7e308 })
  })
})
