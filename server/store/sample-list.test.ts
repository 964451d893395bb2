import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLogger } from '../log.ts'
import { Database } from './database.ts'
import { testDatabaseForFile } from './postgres/test-database.ts'
import { storeBatchRollUps } from './sql/batch-roll-ups.ts'
import { sampleFacets } from './sql/sample-facets.ts'
import {
  type SampleCursor,
  type SampleFilter,
  type SampleSort,
  sampleList,
} from './sql/sample-list.ts'

/** Pages of samples: together they are exactly what a walk over all samples gives, in that order, each sample once. */

const BATCHES = 12
const SAMPLES = 100

const database = testDatabaseForFile()
let db: Database

beforeAll(async () => {
  const log = createLogger('error', 'test')
  db = new Database(database.url, log, { max: 4, name: 'test', keyed: true })
  await db.adhoc("insert into run (id, name) values (1, 'one'), (2, 'two')")
  await db.adhoc(
    "insert into server (id, name, url, engine, kind, model, tags, state) values (1, 's1', 'u', 'vllm', 'discriminative', 'm', '{}', 'ready')",
  )
  await db.adhoc(
    `insert into batch (id, run_id, step, split, status, closed, reward, reward_name, samples, scored, failed, groups, text_bucket)
     select b, 1 + b % 2, b, 'train', 'completed', true, '{}', 'test', ${SAMPLES}, 90, 10, 25, current_date
     from generate_series(1, ${BATCHES}) b`,
  )
  await db.adhoc(
    `insert into sample_group (batch_id, no, uid, received)
     select b, g, 'q' || (g + b) % 40, 4 from generate_series(1, ${BATCHES}) b, generate_series(0, 24) g`,
  )
  // Scores of which many are equal; every tenth sample failed; batch 12 has no failure but runs still.
  await db.adhoc(
    `insert into sample (batch_id, idx, group_no, data_source, status, score, reason, score_ms, server_id)
     select b, i, i / 4, case when (b * 31 + i) % 3 = 0 then 'a' else 'b' end,
       case when i % 10 = 3 then 3 else 2 end, case when i % 10 = 3 then null else ((b * 17 + i * 7) % 50) / 10.0 end,
       case when i % 10 = 3 then case when b % 4 = 0 then 'timeout' else 'unparseable' end end, (i * 13 + b) % 29, case when i % 2 = 0 then 1 end
     from generate_series(1, ${BATCHES}) b, generate_series(0, ${SAMPLES - 1}) i`,
  )
  for (let id = 1; id < BATCHES; id++) await storeBatchRollUps(db, id)
  await db.adhoc(
    `update batch set min = t.min, max = t.max from (select batch_id, min(score), max(score) from sample group by 1) t where id = batch_id`,
  )
})
afterAll(() => db.close())

const ORDERS: Record<SampleSort, string> = {
  newest: 'batch_id desc, idx desc',
  worst: 'score asc, batch_id desc, idx desc',
  best: 'score desc, batch_id desc, idx desc',
  slowest: 'score_ms desc, batch_id desc, idx desc',
}

async function everything(where: string, sort: SampleSort): Promise<string[]> {
  const known =
    sort === 'newest' ? 'true' : sort === 'slowest' ? 'score_ms is not null' : 'score is not null'
  const rows = await db.adhoc<{ id: string }>(
    `select s.batch_id || '-' || s.idx as id from sample s join sample_group g on g.batch_id = s.batch_id and g.no = s.group_no
     join batch on batch.id = s.batch_id where ${where} and ${known} order by ${ORDERS[sort].replaceAll('batch_id', 's.batch_id')}`,
  )
  return rows.map(({ id }) => id)
}

async function byPages(
  filter: SampleFilter,
  sort: SampleSort,
  limit: number,
  mostLookedAt?: number,
): Promise<{ ids: string[]; looked: number[]; all: boolean }> {
  const ids: string[] = []
  const looked: number[] = []
  let cursor: SampleCursor | null = null
  for (;;) {
    const page = await sampleList(db, filter, {
      ...{ sort, cursor, limit },
      ...(mostLookedAt === undefined ? {} : { mostLookedAt }),
    })
    ids.push(...page.rows.map((row) => `${row.batch_id}-${row.idx}`))
    looked.push(page.searched.samples)
    cursor = page.next
    if (cursor === null) return { ids, looked, all: page.searched.all }
  }
}

const FILTERS: [name: string, filter: SampleFilter, where: string][] = [
  ['all', {}, 'true'],
  ['a run', { run: 'two' }, 'run_id = 2'],
  ['a run that is not there', { run: 'three' }, 'false'],
  ['a batch', { batchId: 7 }, 's.batch_id = 7'],
  ['a step', { step: 5 }, 'step = 5'],
  ['a group', { uid: 'q20' }, "uid = 'q20'"],
  ['a data source', { dataSource: 'a' }, "data_source = 'a'"],
  ['failed', { status: 'failed' }, 's.status = 3'],
  ['scored', { status: 'scored' }, 's.status = 2'],
  ['a reason', { reason: 'timeout' }, "reason = 'timeout'"],
  ['a server', { server: 's1' }, 'server_id = 1'],
  ['a range of scores', { scoreMin: 4.7, scoreMax: 4.8 }, 's.score between 4.7 and 4.8'],
  ['a score that none has', { scoreMin: 99 }, 'false'],
  [
    'several at once',
    { run: 'one', dataSource: 'b', status: 'scored', scoreMax: 1 },
    "run_id = 1 and data_source = 'b' and s.status = 2 and s.score <= 1",
  ],
]

describe.each(FILTERS)('%s', (_, filter, where) => {
  it.each(Object.keys(ORDERS) as SampleSort[])('%s', async (sort) => {
    const expected = await everything(where, sort)
    const { ids, all } = await byPages(filter, sort, 37)
    expect(ids).toEqual(expected)
    expect(all).toBe(true)
  })
})

describe('facets', () => {
  const counted = async (where: string) =>
    (
      await db.adhoc<{ scored: number; failed: number; a: number }>(
        `select (count(*) filter (where s.status = 2))::int as scored, (count(*) filter (where s.status = 3))::int as failed,
           (count(*) filter (where data_source = 'a' and batch_id < ${BATCHES}))::int as a
         from sample s join batch on batch.id = s.batch_id where ${where}`,
      )
    )[0]

  it.each([
    ['all', {}, 'true'],
    ['a run', { run: 'two' }, 'run_id = 2'],
    ['a batch', { batchId: 4 }, 'batch.id = 4'],
  ])('are what the samples of %s are', async (_, filter, where) => {
    const facets = await sampleFacets(db, filter)
    const { scored, failed, a } = (await counted(where))!
    expect([facets.scored, facets.failed, facets.waiting]).toEqual([scored, failed, 0])
    expect(facets.sources?.find(({ name }) => name === 'a')?.samples).toBe(a)
  })

  it('tell of batches that are not in all of them yet', async () => {
    expect(await sampleFacets(db, {})).toMatchObject({
      batches: BATCHES,
      pending: 1,
      capped: false,
    })
    expect(await sampleFacets(db, { batchId: 8 })).toMatchObject({
      pending: 0,
      reasons: [{ reason: 'timeout', samples: 10 }],
    })
    expect(await sampleFacets(db, { run: 'three' })).toMatchObject({ batches: 0, sources: null })
  })
})

describe('a page is bounded', () => {
  it('in the order of arrival it goes on where it stopped, also with nothing found', async () => {
    const filter = { scoreMin: 4.9, dataSource: 'a' }
    const { ids, looked } = await byPages(filter, 'newest', 50, 250)
    expect(ids).toEqual(await everything("s.score >= 4.9 and data_source = 'a'", 'newest'))
    expect(Math.max(...looked)).toBeLessThanOrEqual(BATCHES * SAMPLES)
    expect(looked.length).toBeGreaterThan(0)
  })

  it('in the order of a score it says which part was put in order, and stays with it', async () => {
    const first = await sampleList(
      db,
      {},
      { sort: 'worst', cursor: null, limit: 10, mostLookedAt: 250 },
    )
    expect(first.searched).toEqual({ batches: 2, samples: 200, oldest: 11, all: false })
    const { ids } = await byPages({}, 'worst', 10, 250)
    expect(ids).toEqual(await everything('s.batch_id >= 11', 'worst'))
  })

  it('batches that cannot fit are passed over', async () => {
    const { searched } = await sampleList(
      db,
      { reason: 'timeout' },
      { sort: 'worst', cursor: null, limit: 10 },
    )
    // Every fourth, and the one that has no roll-up yet.
    expect(searched.batches).toBe(3)
  })
})
