import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { RunConfigs } from '../admin/run-configs.ts'
import { changeOf, rollUpRuns } from '../background/run-roll-ups.ts'
import { UpdateRunInput } from '../contract/run-config.ts'
import { RunTableInput } from '../contract/run-table.ts'
import { createLogger } from '../log.ts'
import { Database } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { deleteRemovedRuns } from '../store/sql/monitor-state.ts'
import { lastMeans, markRunRollUpStale } from '../store/sql/run-roll-ups.ts'
import { intervalOf, RunTable } from './run-table.ts'
import { RunView } from './run-view.ts'

const database = testDatabaseForFile()
let db: Database

beforeAll(() => {
  db = new Database(database.url, createLogger('error', 'test'), {
    ...{ max: 3, name: 'test', keyed: true, statementTimeoutMs: 10_000 },
  })
})
afterAll(() => db.close())

const runs = () => new RunConfigs(db)
// A new view each time, because answers are cached.
const table = (input: object = {}) => new RunTable(db).get(RunTableInput.parse(input))
const names = async (input: object) => (await table(input)).items.map(({ name }) => name)

interface Made {
  step: number
  mean: number | null
  split?: 'train' | 'val'
  rescored?: boolean
  /** For an unfinished batch: minutes since its last progress. */
  pendingMinutes?: number
  /** For an ended batch: minutes since its submission and its end, which are at the same time. */
  endedMinutes?: number
}

async function batches(run: string, made: readonly Made[]): Promise<number[]> {
  const { rows } = await db.pool.query<{ id: number }>(
    `with run as (insert into run (name) values ($1) on conflict (name) do update set name = excluded.name returning id)
     insert into batch (run_id, step, split, status, closed, reward, reward_name, samples, scored, failed, groups,
       text_bucket, mean, group_signals, rescored_from, rolled_up, submitted_at, last_append_at, completed_at)
     select run.id, (b ->> 'step')::int, coalesce(b ->> 'split', 'train'),
       case when b -> 'pendingMinutes' is null then 'completed' else 'running' end, true, '{"kind": "rule"}', 'gsm8k', 10,
       case when b -> 'pendingMinutes' is null then 9 else 0 end, case when b -> 'pendingMinutes' is null then 1 else 0 end, 4,
       current_date, (b ->> 'mean')::float8, '{"varied": 3, "all_correct": 1}',
       case when (b ->> 'rescored')::boolean then 1 end, b -> 'pendingMinutes' is null, at, at,
       case when b -> 'pendingMinutes' is null then at end
     from run, jsonb_array_elements($2::jsonb) with ordinality as u(b, n),
       lateral (select now() - coalesce((b ->> 'pendingMinutes')::float8, (b ->> 'endedMinutes')::float8, 0) * interval '1 minute' as at) t
     order by n returning id`,
    [run, JSON.stringify(made)],
  )
  return rows.map(({ id }) => id)
}

describe('the figures of a run', () => {
  it('say since when a run is idle, regardless of later rescores', async () => {
    await batches('rested', [
      { step: 1, mean: 0.5, endedMinutes: 30 },
      { step: 1, mean: 0.6, endedMinutes: 1, rescored: true },
    ])
    const minutes = async () => {
      const [run] = (await table({ search: 'rested' })).items
      return Math.round((Date.now() - Date.parse(run?.since as string)) / 60_000)
    }
    expect(await minutes()).toBe(30)
    await rollUpRuns(db, { all: true })
    expect(await minutes()).toBe(30)
  })

  it('are those of the last batch of each training step', async () => {
    const ids = await batches('figures', [
      { step: 1, mean: 0.9 },
      { step: 2, mean: 0.2 },
      // The run was resumed from step 1, so this batch replaces the earlier one of step 1.
      { step: 1, mean: 0.1 },
      { step: 3, mean: 0.6 },
      { step: 4, mean: 0.4 },
      { step: 4, mean: 0.99, split: 'val' },
      { step: 3, mean: 0.98, rescored: true },
      { step: 5, mean: null },
    ])
    await rollUpRuns(db, { all: true })
    const [run] = (await table({ search: 'FIGURES' })).items
    expect(run).toMatchObject({
      ...{ name: 'figures', status: 'idle', split: 'train', lastStep: 5, pending: 0 },
      ...{ batches: 6, validationBatches: 1, rescoredBatches: 1, samples: 60, failed: 6 },
      ...{ noSignal: 0.25, mean: 0.4, best: { mean: 0.6, step: 3 } },
      reward: { name: 'gsm8k', version: expect.stringMatching(/^[0-9a-f]{7}$/) },
      curve: [0.1, 0.2, 0.6, 0.4].map((mean, at) => ({ step: at + 1, mean })),
    })
    // Slope 0.13 over three steps; its standard error is sqrt(0.063 / 2 / 5).
    expect(run?.change?.value).toBeCloseTo(0.39)
    expect(run?.change?.steps).toBe(4)
    expect((run?.change?.high as number) - 0.39).toBeCloseTo(4.303 * 0.23812, 3)
    expect((await new RunView(db).list()).find(({ name }) => name === 'figures')).toMatchObject({
      ...{ batches: 6, validationBatches: 1, rescoredBatches: 1, lastStep: 5 },
    })
    const page = (split: 'train' | 'val') => new RunView(db).get({ name: 'figures', split })
    expect((await page('train')).change).toEqual(run?.change)
    expect((await page('val')).change).toBeNull()
    const [row] = await db.adhoc<{ id: number }>("select id from run where name = 'figures'")
    expect(await lastMeans(db, [row?.id as number], 3)).toEqual([
      { run_id: row?.id, steps: [2, 3, 4], means: [0.2, 0.6, 0.4] },
    ])

    await db.transaction(async (client) => {
      await markRunRollUpStale(client, ids[3] as number)
      await client.query('delete from batch where id = $1', [ids[3]])
    })
    await rollUpRuns(db, { all: true })
    expect((await table({ search: 'figures' })).items[0]).toMatchObject({
      ...{ batches: 5, best: { mean: 0.4, step: 4 } },
    })
  })

  it('leave out a batch that is removed while they are computed', async () => {
    const ids = await batches('erased', [
      { step: 1, mean: 0.1 },
      { step: 2, mean: 0.9 },
    ])
    await rollUpRuns(db, { all: true })
    await batches('erased', [{ step: 3, mean: 0.2 }])
    let rolledUp: Promise<void> | undefined
    await db.transaction(async (client) => {
      const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
      await markRunRollUpStale(client, ids[1] as number)
      await client.query('delete from batch where id = $1', [ids[1]])
      rolledUp = rollUpRuns(db, { all: true })
      await expect
        .poll(() =>
          db.adhoc('select 1 from pg_stat_activity where $1 = any(pg_blocking_pids(pid))', [
            rows[0]?.pid,
          ]),
        )
        .toHaveLength(1)
    })
    await rolledUp
    await rollUpRuns(db, { all: true })
    expect((await table({ search: 'erased' })).items[0]).toMatchObject({
      ...{ batches: 2, best: { mean: 0.2, step: 3 } },
    })
  })

  it('are of validation in a run without training batches, and thin a long curve', async () => {
    await batches(
      'validation',
      Array.from({ length: 150 }, (_, at) => ({ step: at + 1, mean: at, split: 'val' as const })),
    )
    await rollUpRuns(db, { all: true })
    const [run] = (await table({ search: 'validation' })).items
    expect(run).toMatchObject({ split: 'val', batches: 0, validationBatches: 150, mean: 149 })
    expect(run?.curve).toHaveLength(60)
    expect(run?.curve.at(-1)).toEqual({ step: 150, mean: 148.5 })
    expect(run?.change).toMatchObject({ value: 19, low: expect.closeTo(19), steps: 20 })
  })

  it('include unfinished batches at once; a run without progress is stalled', async () => {
    await batches('stalled', [
      { step: 1, mean: 0.5 },
      { step: 2, mean: null, pendingMinutes: 6 },
    ])
    await batches('scoring', [{ step: 7, mean: null, pendingMinutes: 1 }])
    await rollUpRuns(db, { all: true })
    const by = async (search: string) => (await table({ search })).items[0]
    expect(await by('stalled')).toMatchObject({
      ...{ status: 'stalled', pending: 10, lastStep: 2, batches: 2, mean: 0.5 },
    })
    expect(await by('scoring')).toMatchObject({ status: 'scoring', lastStep: 7, mean: null })
    expect(await names({ status: 'stalled' })).toEqual(['stalled'])
    await db.adhoc(
      `insert into sample_group (batch_id, no, uid, received, ended, seq, completed_at)
       select max(id), 0, 'q', 1, 1, 1, now() from batch where run_id = (select id from run where name = 'stalled')`,
    )
    expect(await by('stalled')).toMatchObject({ status: 'scoring' })
  })

  it('are deleted with the run', async () => {
    await batches('gone', [{ step: 1, mean: 1 }])
    await rollUpRuns(db, { all: true })
    await db.adhoc(
      "with gone as (delete from run where name = 'gone' returning id) delete from batch where run_id in (select id from gone)",
    )
    expect(await deleteRemovedRuns(db)).toBe(1)
    expect(await deleteRemovedRuns(db)).toBe(0)
  })
})

describe('configurations and tags', () => {
  const config = {
    ...{ model: 'Qwen3-8B', seed: 7, lora: true, notes: null, betas: [0.9, 0.95] },
    optimizer: { name: 'adamw', lr: 1e-6 },
    odd: '\u0000',
  }

  it('are stored as sent, for a run that need not exist', async () => {
    const sent = await runs().update({ run: 'configured', config, tags: ['b', 'a', 'b'] })
    expect(sent).toEqual({ run: 'configured', config, tags: ['b', 'a'] })
    expect(Object.keys(sent.config ?? {})[0]).toBe('model')
    expect(await runs().get('configured')).toEqual(sent)
    await runs().update({ run: 'configured', addTags: ['c', 'a'], removeTags: ['b'] })
    expect((await runs().get('configured')).tags).toEqual(['a', 'c'])
    await runs().update({ run: 'bare', config: { optimizer: { lr: 3e-6 }, seed: 'x' } })
    await expect(
      runs().update({ run: 'bare', addTags: Array.from({ length: 33 }, (_, at) => `${at}`) }),
    ).rejects.toMatchObject({ reason: 'invalid_input' })
    await expect(runs().get('unknown')).rejects.toMatchObject({ reason: 'run_not_found' })
  })

  it('refuse too much', () => {
    const problem = (input: object) => UpdateRunInput.safeParse({ run: 'r', ...input }).error
    let deep: unknown = 1
    for (let at = 0; at < 20_000; at++) deep = [deep]
    expect(problem({ config: { deep } })?.message).toContain('deep')
    expect(problem({ config: { text: 'x'.repeat(65_536) } })?.message).toContain('bytes')
    expect(problem({ tags: [' a'] })?.message).toContain('space')
    expect(problem({ tags: ['a'], addTags: ['b'] })?.message).toContain('replaces')
    expect(problem({ config: { fine: 'x'.repeat(65_000) }, tags: ['ä b'] })).toBeUndefined()
  })

  it('filter, sort and add columns', async () => {
    const by = (key: string, is: string, value: string) =>
      names({ config: [{ key, is, value }], sort: 'name', order: 'asc' })
    expect(await by('optimizer.lr', '<', '2e-6')).toEqual(['configured'])
    expect(await by('optimizer.lr', '=', '0.000003')).toEqual(['bare'])
    expect(await by('model', '~', 'qwen')).toEqual(['configured'])
    expect(await by('lora', '=', 'true')).toEqual(['configured'])
    expect(await by('notes', '=', 'null')).toEqual(['configured'])
    expect(await by('betas', '~', '0.95')).toEqual(['configured'])
    expect(await by('seed', '>', 'x')).toEqual([])
    expect(await by('seed', '!=', '7')).toContain('bare')
    expect(await by('seed', '!=', '7')).not.toContain('configured')
    expect(await names({ tags: ['c', 'a'] })).toEqual(['configured'])
    // Numbers, then texts, then runs without a value.
    for (const order of ['asc', 'desc']) {
      expect((await names({ sortConfig: 'seed', order })).slice(0, 2)).toEqual([
        ...['configured', 'bare'],
      ])
    }
    const { items } = await table({ search: 'configured', columns: ['optimizer.lr', 'none'] })
    expect(items[0]?.config).toEqual({ 'optimizer.lr': 1e-6 })
    const facets = await new RunTable(db).facets()
    expect(facets.tags).toEqual([
      { tag: 'a', runs: 1 },
      { tag: 'c', runs: 1 },
    ])
    expect(facets.keys[0]).toMatchObject({ runs: 2, values: 2 })
  })
})

describe('pages', () => {
  it('hold every run once in every order', async () => {
    const everyone = await names({ limit: 200 })
    for (const sort of ['activity', 'name', 'mean', 'change', 'noSignal', 'failed'] as const) {
      for (const order of ['asc', 'desc'] as const) {
        const whole = await names({ sort, order, limit: 200 })
        expect(new Set(whole)).toEqual(new Set(everyone))
        const paged: string[] = []
        let cursor: string | null = null
        do {
          const page = await table({ sort, order, limit: 2, cursor })
          expect(page).toMatchObject({ total: everyone.length, runs: everyone.length })
          paged.push(...page.items.map(({ name }) => name))
          cursor = page.nextCursor
        } while (cursor !== null)
        expect(paged).toEqual(whole)
      }
    }
    await expect(table({ cursor: 'x' })).rejects.toMatchObject({ reason: 'cursor_mismatch' })
  })

  it('by tag list a run with two tags twice, and runs without a tag last', async () => {
    await runs().update({ run: 'bare', tags: ['a'] })
    const seen: (string | number | null)[][] = []
    let cursor: string | null = null
    do {
      const input = { byTag: true, sort: 'name', order: 'asc', limit: 1, cursor }
      const page = await table(input)
      for (const { tag, name, tagRuns } of page.items) seen.push([tag, name, tagRuns])
      cursor = page.nextCursor
    } while (cursor !== null)
    expect(seen.slice(0, 3)).toEqual([
      ['a', 'bare', 2],
      ['a', 'configured', 2],
      ['c', 'configured', 1],
    ])
    expect(seen.slice(3).every(([tag]) => tag === null)).toBe(true)
    expect(await table({ search: 'no such run' })).toMatchObject({ items: [], total: 0 })
    expect((await table({ search: 'no such run' })).runs).toBeGreaterThan(3)
  })
})

it('the latest runs are those with batches, with the means of their last steps', async () => {
  const latest = await new RunTable(db).latest(3, 2)
  expect(latest.map(({ name }) => name).sort()).toEqual(['scoring', 'stalled', 'validation'])
  expect(latest.find(({ name }) => name === 'validation')).toMatchObject({
    ...{ status: 'idle', split: 'val', mean: 149 },
    curve: [
      { step: 149, mean: 148 },
      { step: 150, mean: 149 },
    ],
  })
})

describe('the change of a run', () => {
  it('needs three finite means', () => {
    expect(changeOf([1, 2], [0, 1])).toBeNull()
    expect(changeOf([1, 2, 3], [1e300, -1e300, 1e300])).toBeNull()
    expect(changeOf([1, 3, 4], [1, 3, 4])).toEqual({ change: 3, error: 0 })
    expect(intervalOf(1, 0.1, 2)).toBeNull()
  })
})
