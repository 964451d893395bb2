import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rollUpGroups } from '../background/group-roll-ups.ts'
import type { MonitorName } from '../contract/monitors.ts'
import { createLogger } from '../log.ts'
import { Database } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { type FigureRow, type StoredValue, windowBefore } from '../store/sql/monitor-batches.ts'
import { deleteRemovedRuns } from '../store/sql/monitor-state.ts'
import { currentTextBucket } from '../store/text-partitions.ts'
import { checkBatch } from './check-batch.ts'
import { MonitorLoop } from './monitor-loop.ts'
import { MonitorsView } from './monitors-view.ts'

const database = testDatabaseForFile()
const log = createLogger('error', 'test')
let db: Database
let loop: MonitorLoop
let bucket = ''

beforeAll(async () => {
  db = new Database(database.url, log, { max: 4, name: 'test', keyed: true })
  loop = new MonitorLoop(db, log, () => {})
  bucket = await currentTextBucket(db)
})
afterAll(() => db.close())

interface Made {
  group: number
  score: number | null
  tokens?: number | null
  response?: string
  extra?: Record<string, number>
  substituted?: boolean
}

const runs = new Map<string, number>()
async function batchOf(
  run: string,
  step: number,
  samples: readonly Made[],
  options: { split?: 'val'; status?: string; reward?: object; rescoredFrom?: number } = {},
): Promise<number> {
  if (!runs.has(run)) {
    const [made] = await db.adhoc<{ id: number }>(
      'insert into run (name) values ($1) returning id',
      [run],
    )
    runs.set(run, made!.id)
  }
  const reward = { onFailure: { policy: 'null' }, ...options.reward }
  const failed = samples.filter((s) => s.score === null || s.substituted).length
  const [row] = await db.adhoc<{ id: number }>(
    `insert into batch (run_id, step, split, status, closed, reward, reward_name, samples, scored, failed, text_bucket,
       completed_at, rescored_from)
     values ($1, $2, $3, $4, true, $5, 'test', $6, $7, $8, $9, now(), $10) returning id`,
    [
      ...[runs.get(run), step, options.split ?? 'train', options.status ?? 'completed', reward],
      ...[samples.length, samples.length - failed, failed, bucket, options.rescoredFrom ?? null],
    ],
  )
  const { id } = row!
  const rows = JSON.stringify(
    samples.map((s, idx) => ({
      ...{ idx, ...s, failed: s.score === null || s.substituted === true },
      ...{ tokens: s.tokens ?? null, response: s.response ?? `response ${idx}` },
    })),
  )
  await db.adhoc(
    `insert into sample (batch_id, idx, group_no, data_source, status, score, reason, substituted, response_length, reward_extra)
     select $1, (s ->> 'idx')::int, (s ->> 'group')::int, 'test', case when (s ->> 'failed')::boolean then 3 else 2 end,
       (s ->> 'score')::float8, case when (s ->> 'failed')::boolean then 'timeout' end,
       coalesce((s ->> 'substituted')::boolean, false), (s ->> 'tokens')::int, (s -> 'extra')::json
     from jsonb_array_elements($2::jsonb) s`,
    [id, rows],
  )
  await db.adhoc(
    `insert into sample_text (bucket, batch_id, idx, prompt, response, encoding)
     select $3::date, $1, (s ->> 'idx')::int, 'p', s ->> 'response', 0 from jsonb_array_elements($2::jsonb) s`,
    [id, rows, bucket],
  )
  await db.adhoc(
    `insert into sample_group (batch_id, no, uid, received, ended, failed, seq, completed_at)
     select $1, group_no, 'u' || group_no, count(*), count(*), count(*) filter (where status = 3), group_no + 1, now()
     from sample where batch_id = $1 group by group_no`,
    [id],
  )
  await rollUpGroups(db, {
    ...{
      id,
      reward: reward as never,
      run_id: runs.get(run)!,
      step,
      split: options.split ?? 'train',
    },
    is_rescore: options.rescoredFrom !== undefined,
  })
  return id
}

async function valuesOf(id: number): Promise<Record<MonitorName, StoredValue> | undefined> {
  const [row] = await db.adhoc<{ values: Record<MonitorName, StoredValue> }>(
    'select values from monitor_evaluation where batch_id = $1',
    [id],
  )
  return row?.values
}
async function figuresOf(id: number): Promise<FigureRow> {
  const [row] = await db.adhoc<FigureRow>(
    "select * from batch_roll_up where batch_id = $1 and data_source = ''",
    [id],
  )
  return row!
}

function pearson(x: number[], y: number[]): number {
  const mean = (v: number[]) => v.reduce((a, b) => a + b) / v.length
  const [mx, my] = [mean(x), mean(y)]
  const sum = (f: (at: number) => number) => x.reduce((s, _, at) => s + f(at), 0)
  return (
    sum((i) => ((x[i] as number) - mx) * ((y[i] as number) - my)) /
    Math.sqrt(sum((i) => ((x[i] as number) - mx) ** 2) * sum((i) => ((y[i] as number) - my) ** 2))
  )
}

/** 64 samples in groups of 4, half of them correct. */
const usual = (change: (i: number) => Partial<Made> = () => ({})): Made[] =>
  Array.from({ length: 64 }, (_, i) => ({ group: i >> 2, score: i % 2, ...change(i) }))

describe('a batch’s roll-up for the monitors', () => {
  it('correlates length and score without failed and substituted samples', async () => {
    const tokens = Array.from({ length: 64 }, (_, i) => 100 + ((i * 37) % 50) + (i % 2) * 20)
    const made = usual((i) => ({ tokens: tokens[i] as number, score: (i * 13) % 7 }))
    made[5] = { ...made[5]!, score: null }
    made[9] = { ...made[9]!, score: 100, substituted: true }
    const row = await figuresOf(await batchOf('correlated', 1, made))
    const counts = made.filter((_, i) => i !== 5 && i !== 9)
    expect(row.length_n).toBe(62)
    expect(row.length_unit).toBe('tokens')
    expect(row.length_correlation).toBeCloseTo(
      pearson(
        counts.map((s) => s.tokens as number),
        counts.map((s) => s.score as number),
      ),
      12,
    )
    // If one token count is missing, all lengths are those of the texts in bytes.
    const words = usual((i) => ({
      tokens: i === 3 ? null : 7,
      response: 'é'.repeat(i + 1),
      score: i,
    }))
    const texts = await figuresOf(await batchOf('correlated', 2, words))
    expect(texts.length_unit).toBe('bytes')
    expect(texts.length_correlation).toBeCloseTo(1, 12)
  })

  it('finds duplicate responses only within a group', async () => {
    const long = 'x'.repeat(20_000)
    const made = usual((i) => ({ response: `${i} ${long}` }))
    for (const [at, response] of [
      [0, 'same'],
      [1, 'same'],
      [4, `${long}a`],
      [5, `${long}b`],
      [8, `${long}c`],
      [9, `${long}c`],
      [10, `${long}c`],
      [12, 'same'],
    ] as const)
      made[at] = { ...made[at]!, response }
    made.push({ group: 99, score: 1, response: 'same' })
    expect(await figuresOf(await batchOf('copies', 1, made))).toMatchObject({
      ...{ duplicates: 5, duplicates_of: 64 },
    })
  })

  it('has the mean standard deviation within groups', async () => {
    const made = [
      ...[0, 1, 0, 1].map((score) => ({ group: 0, score })),
      ...[2, 4].map((score) => ({ group: 1, score })),
      ...[5, null].map((score) => ({ group: 2, score })),
    ]
    const row = await figuresOf(await batchOf('deviation', 1, made))
    expect(row.group_std_of).toBe(2)
    expect(row.group_std).toBeCloseTo((Math.sqrt(1 / 3) + Math.sqrt(2)) / 2, 12)
  })
})

it('a run with more incidents than its page lists says so', async () => {
  await batchOf('many-incidents', 1, [{ group: 0, score: 1 }])
  const list = () => new MonitorsView(db).run({ run: 'many-incidents', split: 'train', points: 10 })
  const open = (n: number) =>
    db.adhoc(
      `insert into monitor_incident (run_id, split, monitor, severity, opened_at, opened_step, value, threshold, worst, closed_at)
       select $1, 'train', 'failures', 'warning', now(), i, 1, 0.1, 1, now() from generate_series(1, $2::int) i`,
      [runs.get('many-incidents'), n],
    )
  await open(100)
  expect(await list()).toMatchObject({ incidents: { length: 100 }, hasMoreIncidents: false })
  await open(1)
  expect(await list()).toMatchObject({ incidents: { length: 100 }, hasMoreIncidents: true })
})

describe('the monitors', () => {
  it('evaluate each batch once, over all processes', async () => {
    const ids: number[] = []
    for (let step = 1; step <= 5; step++) {
      ids.push(
        await batchOf(
          'once',
          step,
          usual((i) => ({ score: i < 60 ? null : 1 })),
        ),
      )
    }
    const other = new MonitorLoop(db, log, () => {})
    await Promise.all([loop.all(), other.all(), loop.all()])
    await loop.all()
    for (const id of ids) expect((await valuesOf(id))?.failures.value).toBe(60 / 64)
    const open = (
      await new MonitorsView(db).history({ run: 'once', monitor: 'failures', limit: 9 })
    ).items
    expect(open).toMatchObject([
      { monitor: 'failures', severity: 'alerting', openedStep: 1, closedAt: null, value: 60 / 64 },
    ])
    // A direct call does not evaluate the batch again.
    expect(await db.transaction((client) => checkBatch(client, ids[0] as number))).toBe(false)
    // After a crash before the commit, the batch is evaluated again completely.
    const again = await batchOf('once', 6, usual())
    await expect(
      db.transaction(async (client) => {
        await checkBatch(client, again)
        throw new Error('crashed')
      }),
    ).rejects.toThrow('crashed')
    expect(await valuesOf(again)).toBeUndefined()
    await loop.all()
    await loop.all()
    expect((await valuesOf(again))?.failures.value).toBe(0)
  })

  it('separate training from validation, and leave out rescored and cancelled batches', async () => {
    const bad = usual((i) => ({ score: i < 16 ? null : 1 }))
    const train = await batchOf('splits', 1, usual())
    const val = await batchOf('splits', 1, bad, { split: 'val' })
    const rescored = await batchOf('splits', 2, bad, { rescoredFrom: train })
    const cancelled = await batchOf('splits', 3, bad, { status: 'cancelled' })
    await loop.all()
    expect((await valuesOf(val))?.failures.state).toBe('alerting')
    expect(await valuesOf(rescored)).toBeUndefined()
    expect(await valuesOf(cancelled)).toBeUndefined()
    const view = new MonitorsView(db)
    const states = async (split: 'train' | 'val') =>
      (await view.run({ run: 'splits', split, points: 9 })).monitors.map(({ state }) => state)
    expect(await states('train')).not.toContain('alerting')
    expect((await states('val')).filter((state) => state === 'alerting')).toHaveLength(1)
    expect((await view.run({ run: 'splits', split: 'val', points: 9 })).splits).toEqual([
      'train',
      'val',
    ])
  })

  it('detect a collapse against the previous batches, and its end', async () => {
    const spread = (by: number) => usual((i) => ({ score: 0.5 + (i % 2) * by }))
    for (let step = 1; step <= 6; step++) await batchOf('collapse', step, spread(0.4))
    for (let step = 7; step <= 30; step++) await batchOf('collapse', step, spread(0.04))
    await loop.all()
    const view = new MonitorsView(db)
    const { items } = await view.history({
      run: 'collapse',
      monitor: 'variance_collapse',
      limit: 9,
    })
    expect(items).toMatchObject([
      { severity: 'alerting', openedStep: 9, closedAt: null, value: expect.closeTo(0.1, 9) },
    ])
    for (let step = 31; step <= 33; step++) await batchOf('collapse', step, spread(0.4))
    await loop.all()
    const cut = await view.run({ run: 'collapse', split: 'train', points: 9 })
    expect([cut.monitors[0]?.points.length, cut.earlier]).toEqual([9, 24])
    const range = { run: 'collapse', split: 'train', from: 3, until: 8 } as const
    const part = await view.run({ ...range, points: 4 })
    expect(part.monitors[0]?.points.map(({ step }) => step)).toEqual([5, 6, 7, 8])
    expect(part.earlier).toBe(2)
    const [ended] = (
      await view.history({ run: 'collapse', monitor: 'variance_collapse', limit: 9 })
    ).items
    expect(ended).toMatchObject({ closedStep: 33, worstStep: expect.any(Number) })
  })

  it('keep the reference of a collapse whose first standard deviations are 0', async () => {
    const spread = (by: number) => usual((i) => ({ score: 0.5 + (i % 2) * by }))
    const widths = [...Array(6).fill(0.4), ...Array(3).fill(0), ...Array(20).fill(0.04)]
    for (const [at, by] of widths.entries()) await batchOf('to-zero', at + 1, spread(by))
    await loop.all()
    const { items } = await new MonitorsView(db).history({
      ...{ run: 'to-zero', monitor: 'variance_collapse', limit: 9 },
    })
    expect(items).toMatchObject([
      { openedStep: 9, value: 0, closedAt: null, latest: expect.closeTo(0.1, 9) },
    ])
  })

  it('compare a resumed run only with the steps before the one that it repeats', async () => {
    for (let step = 1; step <= 4; step++)
      await batchOf(
        'resumed',
        step,
        usual(() => ({ score: step / 10 })),
      )
    const id = await batchOf('resumed', 3, usual())
    await loop.all()
    const batch = { id, run_id: runs.get('resumed')!, split: 'train', step: 3 } as const
    const before = await db.transaction((client) => windowBefore(client, batch, 9))
    expect(before.map(({ min }) => min).sort()).toEqual([0.1, 0.2])
  })

  it('report one batch of equal scores by a reward model, whose groups are all equal', async () => {
    const flat = usual(() => ({ score: 1 }))
    const id = await batchOf('flat', 1, flat, { reward: { kind: 'model', model: 'rm' } })
    await loop.all()
    expect((await valuesOf(id))!.no_spread).toMatchObject({
      ...{ value: 0, n: 64, state: 'alerting', detail: 'every score is 1' },
    })
    const incidents = await new MonitorsView(db).history({
      run: 'flat',
      monitor: 'no_spread',
      limit: 9,
    })
    expect(incidents.items).toMatchObject([{ severity: 'alerting', openedStep: 1 }])
    const signals = async (batch: number) => {
      const [row] = await db.adhoc<{ group_signals: Record<string, number> }>(
        'select group_signals from batch where id = $1',
        [batch],
      )
      return row!.group_signals
    }
    expect(await signals(id)).toMatchObject({ all_correct: 0, all_equal: 16 })
    const groups = await db.adhoc<{ signal: string }>(
      'select distinct signal from sample_group where batch_id = $1',
      [id],
    )
    expect(groups).toEqual([{ signal: 'all_equal' }])
    const ruled = await batchOf('flat-rule', 1, flat, { reward: { kind: 'rule', model: null } })
    expect(await signals(ruled)).toMatchObject({ all_correct: 16 })
    const some = usual((i) => ({ score: i < 32 ? 1 : i % 2 }))
    const varied = await batchOf('some', 1, some, { reward: { kind: 'model', model: 'rm' } })
    expect(await signals(varied)).toMatchObject({ all_correct: 8, varied: 8 })
    const ratings = usual((i) => ({ score: i < 32 ? 8 : 3 + (i % 2) }))
    const rated = await batchOf('rated', 1, ratings, { reward: { kind: 'model', model: 'rm' } })
    expect(await signals(rated)).toMatchObject({ all_correct: 0, all_equal: 8, varied: 8 })
  })

  it('name the dominant component', async () => {
    const reward = {
      kind: 'combine',
      components: [
        { name: 'right', weight: 1, reward: {} },
        { name: 'style', weight: 0.1, reward: {} },
      ],
    }
    const made = usual((i) => {
      const extra = { right: i % 2, style: (i % 8) / 8 }
      return { score: extra.right + 0.1 * extra.style, extra }
    })
    const id = await batchOf('parts', 1, made, { reward })
    await loop.all()
    const dominance = (await valuesOf(id))!.component_dominance
    const sums = made.map(({ score }) => score as number)
    const rights = made.map(({ extra }) => extra!.right as number)
    const deviation = (v: number[]) => {
      const mean = v.reduce((a, b) => a + b) / v.length
      return Math.sqrt(v.reduce((s, x) => s + (x - mean) ** 2, 0) / (v.length - 1))
    }
    expect(dominance.detail).toBe('right')
    expect(dominance.value).toBeCloseTo(
      (pearson(rights, sums) * deviation(rights)) / deviation(sums),
      12,
    )
  })

  it('use the run’s thresholds, otherwise those for all runs, otherwise the defaults', async () => {
    const view = new MonitorsView(db)
    const blank = { enabled: null, warning: null, alerting: null, openAfter: null }
    await batchOf('set', 1, usual())
    await view.configure(
      { run: null, monitor: 'ceiling', ...blank, warning: 0.3, alerting: 0.6 },
      'a',
    )
    const own = await view.configure(
      { run: 'set', monitor: 'ceiling', ...blank, alerting: 0.4, openAfter: 1 },
      'b',
    )
    expect(own).toMatchObject({
      ...{ warning: 0.3, alerting: 0.4, openAfter: 1, source: 'run', changedBy: 'b' },
    })
    await loop.all()
    const { monitors } = await view.run({ run: 'set', split: 'train', points: 9 })
    expect(monitors.find(({ setting }) => setting.monitor === 'ceiling')?.state).toBe('alerting')
    await expect(
      view.configure({ run: 'set', monitor: 'ceiling', ...blank, alerting: 0.1 }, 'c'),
    ).rejects.toThrow('is reached before the warning at 0.3')
    await expect(
      view.configure({ run: null, monitor: 'ceiling', ...blank, warning: 7 }, 'c'),
    ).rejects.toThrow('not a valid threshold')
    expect((await view.settings({ run: 'set' })).find((s) => s.monitor === 'ceiling')).toEqual(own)
    await expect(
      view.configure({ run: null, monitor: 'ceiling', ...blank, warning: -0.1 }, 'c'),
    ).rejects.toThrow('not a valid threshold')
    expect((await view.settings({ run: 'set' })).find((s) => s.monitor === 'ceiling')).toEqual(own)
    // New thresholds for all runs are checked against each run's own thresholds. This run has its own alerting
    // threshold.
    await expect(
      view.configure({ run: null, monitor: 'ceiling', ...blank, warning: 0.5, alerting: 0.6 }, 'c'),
    ).rejects.toThrow('run "set": alerting: 0.4 is reached before the warning at 0.5')
    await expect(view.configure({ run: null, monitor: 'ceiling', ...blank }, 'c')).rejects.toThrow(
      'run "set": alerting: 0.4 is reached before the warning at 0.9',
    )
    expect((await view.settings({ run: 'set' })).find((s) => s.monitor === 'ceiling')).toEqual(own)
    await view.configure({ run: 'set', monitor: 'ceiling', ...blank }, 'd')
    await view.configure({ run: null, monitor: 'ceiling', ...blank }, 'd')
    expect((await view.settings({})).find((s) => s.monitor === 'ceiling')?.source).toBe('default')
  })

  it('list the runs with the newest batches, and say that there are others', async () => {
    const view = new MonitorsView(db)
    const before = await view.list()
    expect(before).toMatchObject({ hasMoreRuns: false })
    await db.adhoc(
      `with made as (insert into run (name) select 'listed-' || i from generate_series(1, 41) i returning id)
       insert into monitor_standing (run_id, split, step, batch_id, at, monitors)
       select id, 'train', 1, 1000000 + id, now(), '{}'::jsonb from made
       -- The newest row belongs to a run that is being removed.
       union all select -1, 'train', 1, 2000000, now(), '{}'::jsonb`,
    )
    const { runs, hasMoreRuns } = await view.list()
    expect([runs.length, hasMoreRuns]).toEqual([40, true])
    await db.adhoc('delete from monitor_standing where batch_id > 1000000')
    await db.adhoc("delete from run where name like 'listed-%'")
  })

  it('hide and delete the data of a removed run', async () => {
    const view = new MonitorsView(db)
    await batchOf(
      'removed',
      1,
      usual((i) => ({ score: i < 60 ? null : 1 })),
    )
    await loop.all()
    const id = runs.get('removed') as number
    await db.adhoc("insert into run_mark (run_id, step, label, author) values ($1, 1, 'x', 'a')", [
      id,
    ])
    const open = async () => (await view.list()).open.filter(({ run }) => run !== 'once')
    const before = (await open()).length
    await db.adhoc('delete from run where id = $1', [id])
    expect(await open()).toHaveLength(before - 1)
    expect((await open()).every(({ run }) => run !== null)).toBe(true)
    expect(await deleteRemovedRuns(db)).toBe(1)
    for (const table of ['monitor_evaluation', 'monitor_standing', 'monitor_incident', 'run_mark'])
      expect(await db.adhoc(`select 1 from ${table} where run_id = $1`, [id])).toEqual([])
    expect(await deleteRemovedRuns(db)).toBe(0)
  })
})
