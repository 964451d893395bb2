import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { insertServer } from '../cluster/testing/servers.ts'
import type { StepDelta } from '../contract/compare.ts'
import { createLogger } from '../log.ts'
import { Database } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { CompareRunsView } from './compare-runs.ts'
import { RunView } from './run-view.ts'

const database = testDatabaseForFile()
let db: Database

beforeAll(async () => {
  db = new Database(database.url, createLogger('error', 'test'), {
    ...{ max: 2, name: 'test', keyed: true, statementTimeoutMs: 10_000 },
  })
  await db.adhoc("insert into run (id, name) values (1, 'r')")
  // One step per minute, the last one now; step 3 was rescored twice.
  await db.adhoc(
    `insert into batch (run_id, step, split, status, closed, reward, reward_name, samples, text_bucket, submitted_at)
     select 1, step, 'train', 'completed', true, '{"model": "m", "components": [{"reward": {"model": "inner"}}]}', 'test', 8,
       current_date, now() - (5 - step) * interval '1 minute' from generate_series(1, 5) step`,
  )
  await db.adhoc(
    `insert into batch (run_id, step, split, status, closed, reward, reward_name, samples, text_bucket, rescored_from)
     select 1, 3, 'train', 'completed', true, '{}', name, 8, current_date, 3
     from unnest(array['older', 'newer']) with ordinality rescore(name, at) order by at`,
  )
  const servers = [
    { name: 'early', model: 'm', minutesAgo: 90 },
    { name: 'new', model: 'inner', minutesAgo: 2.5 },
    { name: 'of-another-model', model: 'x', minutesAgo: 2.5 },
  ]
  for (const { name, model, minutesAgo } of servers) {
    const id = await insertServer(db, { name, model })
    await db.adhoc(
      `update server set registered_at = now() - $2::float8 * interval '1 minute' where id = $1`,
      [id, minutesAgo],
    )
  }
  await db.adhoc(
    "update server set removed_at = now() - interval '90 seconds' where name = 'early'",
  )
})
afterAll(() => db.close())

const read = (range: { from?: number; until?: number } = {}, name = 'r') =>
  new RunView(db).get({ name, split: 'train', ...range })

it('servers of its models that come and go, and rescored steps, are marked once', async () => {
  const { marks } = await read()
  expect(marks.map(({ step, label }) => [step, label])).toEqual([
    [3, 'new registered'],
    [4, 'early removed'],
    [3, 'rescored'],
  ])
  expect(marks.at(-1)?.note).toBe('This step was rescored with “newer”.')
})

it('the newest of many rescored steps are marked', async () => {
  await db.adhoc("insert into run (id, name) values (9, 'often-rescored')")
  for (const rescoredFrom of ['null', '1']) {
    await db.adhoc(
      `insert into batch (run_id, step, split, status, closed, reward, reward_name, samples, text_bucket, rescored_from)
       select 9, step, 'train', 'completed', true, '{}', 'test', 8, current_date, ${rescoredFrom}
       from generate_series(1, 42) step`,
    )
  }
  const { marks } = await read({}, 'often-rescored')
  const steps = marks.flatMap(({ step, label }) => (label === 'rescored' ? [step] : []))
  expect(steps.sort((a, b) => a - b)).toEqual(Array.from({ length: 40 }, (_, i) => i + 3))
})

it('the newest of many server changes are marked', async () => {
  await db.adhoc("insert into run (id, name) values (10, 'many-servers')")
  await db.adhoc(
    `insert into batch (run_id, step, split, status, closed, reward, reward_name, samples, text_bucket, submitted_at)
     select 10, step, 'train', 'completed', true, '{"model": "many"}', 'test', 8, current_date,
       now() - (2 - step) * interval '1 hour' from generate_series(1, 2) step`,
  )
  for (let at = 1; at <= 41; at++) {
    const id = await insertServer(db, { name: `s${at}`, model: 'many' })
    await db.adhoc(
      `update server set registered_at = now() - (50 - $2::int) * interval '1 minute' where id = $1`,
      [id, at],
    )
  }
  const { marks } = await read({}, 'many-servers')
  expect(marks.map(({ label }) => label)).toEqual(
    Array.from({ length: 40 }, (_, i) => `s${i + 2} registered`),
  )
})

it('a range has only its own steps, and the numbers of steps before and after it', async () => {
  const { steps, earlier, later } = await read({ from: 2, until: 3 })
  expect(steps.map(({ step, bin }) => [step, bin])).toEqual([
    [2, null],
    [3, null],
  ])
  expect([earlier, later]).toEqual([1, 2])
  expect(await read()).toMatchObject({ earlier: 0, later: 0 })
})

describe('a run of 10,000 steps', () => {
  const STEPS = 10_000
  const OTHER_STEPS = 1_800

  beforeAll(async () => {
    await db.adhoc("insert into run (id, name) values (2, 'few'), (3, 'many'), (4, 'huge')")
    // Two groups of four samples a step; the mean falls to 0 at step 5,000 alone, where all samples of one group fail.
    await db.adhoc(
      `insert into batch (id, run_id, step, split, status, closed, reward, reward_name, samples, scored, failed, groups,
         text_bucket, submitted_at, completed_at, rolled_up, mean, std, min, max, group_signals)
       select run_id * 100000 + step, run_id, step, 'train', 'completed', true,
         json_build_object('version', step / 6000)::jsonb, 'test', 8, case step when 5000 then 4 else 8 end,
         case step when 5000 then 4 else 0 end, 2, current_date, '2026-01-01'::timestamptz + step * interval '1 minute',
         '2026-01-01'::timestamptz + step * interval '1 minute' + 20 * interval '1 second', true, null, null, null, null,
         '{"varied": 1, "all_correct": 1}'
       from (values (2, ${STEPS}), (3, ${OTHER_STEPS}), (4, ${OTHER_STEPS})) of(run_id, steps), generate_series(1, steps) step`,
    )
    await db.adhoc(
      `insert into batch_roll_up (batch_id, data_source, samples, scored, failed, substituted, mean, std, min, max, quantiles,
         bin_values, bin_counts, queue_ms, score_ms, reasons, verdicts, mean_error)
       select 200000 + step, source, 8, 8 - bad, bad, 0, case when bad = 4 then 0 else 0.5 end, case when bad = 4 then 0 else 0.5345 end,
         0, 1, '{0,0,0.5,1,1}', '{0,1}', case when bad = 4 then '{4,0}'::int[] else '{4,4}' end, '{1,2}', '{3,4}',
         case when bad = 4 then '{"timeout": 4}'::jsonb else '{}' end,
         case when bad = 4 then '[{"verdict": "wrong", "n": 4}]'::jsonb else '[{"verdict": "equal", "n": 4}, {"verdict": "wrong", "n": 4}]' end,
         0.1
       from generate_series(1, ${STEPS}) step, unnest(array['', 'math']) source,
         lateral (select case step when 5000 then 4 else 0 end as bad) b`,
    )
    // A continuous reward from -1 to 1, with one sample in each of 128 bins.
    await db.adhoc(
      `insert into batch_roll_up (batch_id, data_source, samples, scored, failed, substituted, mean, std, min, max, quantiles,
         bin_values, bin_counts, queue_ms, score_ms, mean_error)
       select run_id * 100000 + step, '', 128, 128, 0, 0, level * step / ${OTHER_STEPS}, level / 2, -level, level,
         array[-level, -level / 2, 0, level / 2, level], '{}', array_fill(1, array[128]), '{}', '{}', 0.1 * level
       from (values (3, 1::float8), (4, 1e200)) of(run_id, level), generate_series(1, ${OTHER_STEPS}) step`,
    )
    await db.adhoc(
      `update batch set mean = r.mean, std = r.std, min = r.min, max = r.max from batch_roll_up r
       where batch.id = r.batch_id and r.data_source = ''`,
    )
  })

  it('is returned in bins over its whole range, in which a single step with another mean stays visible', async () => {
    const run = await read({}, 'few')
    expect(run.steps.length).toBeLessThanOrEqual(1_000)
    expect([run.earlier, run.later, run.pending]).toEqual([0, 0, 0])
    const widths = run.steps.slice(1, -1).map(({ step, bin }) => (bin?.last ?? step) - step + 1)
    expect(new Set(widths)).toEqual(new Set([16]))
    expect(run.steps.reduce((sum, { bin }) => sum + (bin?.steps ?? 1), 0)).toBe(STEPS)
    expect(run.steps.reduce((sum, { n }) => sum + (n ?? 0), 0)).toBe(STEPS * 8 - 4)
    const at = run.steps.find(({ step, bin }) => step <= 5_000 && (bin?.last ?? step) >= 5_000)
    expect(at).toMatchObject({
      ...{ step: 4_992, batchId: 'b205007', n: 124, samples: 128, failed: 4, min: 0, max: 1 },
      bin: { last: 5_007, steps: 16, means: [0, 0.5], waitsMs: [20_000, 20_000] },
      ...{ reasons: { timeout: 4 }, waitMs: 20_000, stepMs: 60_000, queueMsP50: 1, scoreMsP95: 4 },
      verdicts: [
        { verdict: 'wrong', n: 64 },
        { verdict: 'equal', n: 60 },
      ],
      groupSignals: { varied: 16, all_correct: 16, all_failed: 0 },
    })
    expect(at?.bin?.failedShares).toEqual([0, 0.5])
    expect(at?.mean).toBeCloseTo(60 / 124, 12)
    // 60 scores of 1 and 64 of 0.
    expect(at?.std).toBeCloseTo(Math.sqrt((60 * 64) / 124 / 123), 4)
    expect(at?.meanError).toBeCloseTo((0.1 * Math.sqrt(15 * 8 ** 2 + 4 ** 2)) / 124, 12)
    expect(run.sources).toMatchObject([{ name: 'math', samples: STEPS * 8 }])
    expect(run.sources[0]?.points.map(({ step }) => step)).toEqual(
      run.steps.map(({ step }) => step),
    )
    expect(run.heat).toMatchObject({ kind: 'values', edges: [0, 1] })
    expect(run.heat?.steps.find(({ step }) => step === 4_992)?.shares).toEqual([0.5161, 0.4839])
    expect(run.recent.map(({ step, bin }) => [step, bin])).toEqual(
      Array.from({ length: 25 }, (_, at) => [STEPS - 24 + at, null]),
    )
    expect(run.marks.map(({ step, label }) => [step, label])).toEqual([[6_000, 'reward changed']])
  })

  it('has smaller bins in a shorter range, and single steps in a range of at most 1,000 steps', async () => {
    const part = await read({ from: 4_001, until: 6_000 }, 'few')
    expect(part.steps.map(({ bin }) => bin?.steps).slice(1, 3)).toEqual([4, 4])
    expect([part.earlier, part.later]).toEqual([4_000, 4_000])
    const exact = await read({ from: 4_001, until: 5_000 }, 'few')
    expect(exact.steps).toHaveLength(1_000)
    expect(exact.steps.at(-1)).toMatchObject({
      step: 5_000,
      bin: null,
      batchId: 'b205000',
      mean: 0,
    })
  })

  it('has bands and a distribution if its scores are continuous', async () => {
    const { steps, heat } = await read({}, 'many')
    expect(steps[450]).toMatchObject({ step: 900, quantiles: [-1, -0.5, 0, 0.5, 1] })
    expect(steps[450]?.mean).toBeCloseTo(900.5 / OTHER_STEPS, 12)
    expect(steps[450]?.bin?.means).toEqual([0.5, 901 / OTHER_STEPS])
    expect(heat).toMatchObject({ kind: 'bins' })
    expect(heat?.edges).toHaveLength(33)
    expect(new Set(heat?.steps.flatMap(({ shares }) => shares))).toEqual(new Set([0.0313]))
  })

  it('is compared with a shorter run in the same bins', async () => {
    const view = new CompareRunsView(db)
    const names = { runs: ['few', 'many'], split: 'train' as const }
    const { width, runs, deltas } = await view.get(names)
    expect(width).toBe(16)
    expect(runs.map(({ step }) => [step.length, step[0], step[1]])).toEqual([
      [626, 1, 16],
      [113, 1, 16],
    ])
    expect(deltas[0]?.steps).toHaveLength(113)
    expect(deltas[0]?.steps[1]).toMatchObject({ step: 16, nFirst: 128, nOther: 2_048 })
    expect(deltas[0]?.steps[1]?.delta).toBeCloseTo(23.5 / OTHER_STEPS - 0.5, 12)
    const { delta, low, high } = deltas[0]!.steps[1] as StepDelta
    expect(delta - low).toBeCloseTo(1.959964 * Math.hypot(0.1 / 4, 0.1 / 4), 9)
    expect(high - delta).toBeCloseTo(delta - low, 9)
    expect(runs[0]?.means[312]).toEqual([0, 0.5])
    const part = await view.get({ ...names, from: 101, until: 200 })
    expect([part.width, part.deltas[0]?.steps.length]).toEqual([1, 100])
    const same = await view.get({ runs: ['few', 'twin'], split: 'train' })
    expect(same.missing).toEqual(['twin'])
  })

  it('may start at any step', async () => {
    const move = (by: number) =>
      db.adhoc('update batch set step = step + $1 where run_id = 3', [by])
    await move(2_000_000_000)
    const { steps, heat } = await read({}, 'many')
    expect([steps.length, heat?.steps.length]).toEqual([901, 901])
    expect(heat?.steps.at(-1)?.step).toBe(2_000_001_800)
    await move(-2_000_000_000)
  })

  it('has no statistics of scores that are too large for them', async () => {
    const { steps, heat } = await read({}, 'huge')
    expect(steps[1]).toMatchObject({ mean: null, std: null, meanError: null, n: 2 * 128 })
    expect(heat).toBeNull()
  })
})
