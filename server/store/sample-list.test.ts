import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLogger } from '../log.ts'
import { Database } from './database.ts'
import { testDatabaseForFile } from './postgres/test-database.ts'
import { storeBatchRollUps } from './sql/batch-roll-ups.ts'
import { extraKeys } from './sql/extra-keys.ts'
import { sampleCount } from './sql/sample-count.ts'
import { sampleFacets } from './sql/sample-facets.ts'
import type { SampleFilter } from './sql/sample-filter.ts'
import { type SampleCursor, type SampleSort, sampleList } from './sql/sample-list.ts'
import { encodeTexts } from './stored-texts.ts'
import { currentTextBucket } from './text-partitions.ts'

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
  // Many scores are equal; every tenth sample failed; batch 12 has no roll-up yet.
  await db.adhoc(
    `insert into sample (batch_id, idx, group_no, response_length, attempts, substituted, reward_extra, data_source, status, score, reason, score_ms, server_id)
     select b, i, i / 4, nullif(i % 11, 0) * 10, 1 + (i % 9 = 0)::int, i % 20 = 13, case
         when i % 5 = 0 then json_build_object('acc', i % 10 = 0, 'len', i, 'pred', 'p' || i % 3)
         when i % 5 = 1 then json_build_object('len', -0.5 * i, 'note', null, 'deep', json_build_array(1))
         when i % 5 = 2 then '{"pred":"odd \\u0000 \\ud83d\\ude00 \\ud800","len":1e400,"a:b":"x"}'::json end, case when (b * 31 + i) % 3 = 0 then 'a' else 'b' end,
       case when i % 10 = 3 then 3 else 2 end, case when i % 10 = 3 then null else ((b * 17 + i * 7) % 50) / 10.0 end,
       case when i % 10 = 3 then case when b % 4 = 0 then 'timeout' else 'unparseable' end end, (i * 13 + b) % 29, case when i % 2 = 0 then 1 end
     from generate_series(1, ${BATCHES}) b, generate_series(0, ${SAMPLES - 1}) i`,
  )
  const bucket = await currentTextBucket(db)
  await db.adhoc('update batch set text_bucket = $1', [bucket])
  const rows = Array.from({ length: BATCHES * SAMPLES }, (_, n) => ({
    ...{ batch: 1 + Math.floor(n / SAMPLES), idx: n % SAMPLES },
    ...encodeTexts(textsOf(n)),
  }))
  await db.adhoc(
    `insert into sample_text (bucket, batch_id, idx, prompt, response, ground_truth, encoding)
     select $1::date, * from unnest($2::int[], $3::int[], $4::text[], $5::text[], $6::text[], $7::int[])`,
    [
      bucket,
      ...(['batch', 'idx', 'prompt', 'response', 'groundTruth', 'encoding'] as const).map((key) =>
        rows.map((row) => row[key]),
      ),
    ],
  )
  await db.adhoc(
    `insert into sample_annotation (batch_id, idx, label, author)
     select b, i, case when i % 14 = 0 then 'hack' else 'fine' end, 'ida' from generate_series(1, 9) b, generate_series(0, 98, 7) i`,
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

/** Limits of the reads for a page. Even a busy machine does not reach the time limit. */
const UNHURRIED = { samples: 65_536, bytes: 32 << 20, ms: 60_000 }

async function byPages(
  filter: SampleFilter,
  sort: SampleSort,
  limit: number,
  maxSamples?: number,
  maxRead = UNHURRIED,
): Promise<{ ids: string[]; looked: number[]; all: boolean }> {
  const ids: string[] = []
  const looked: number[] = []
  let cursor: SampleCursor | null = null
  for (;;) {
    const page = await sampleList(db, filter, {
      ...{ sort, cursor, limit, maxRead },
      ...(maxSamples === undefined ? {} : { maxSamples }),
    })
    ids.push(...page.rows.map((row) => `${row.batch_id}-${row.idx}`))
    looked.push(page.searched.samples)
    cursor = page.next
    if (cursor === null) return { ids, looked, all: page.searched.all }
  }
}

/** Texts of the n-th sample, in all stored encodings. */
function textsOf(n: number) {
  const kind = n % 6
  return {
    prompt:
      kind === 1
        ? [
            { role: 'system', content: 'Be brief.' },
            { role: 'user', content: `Line one\nsays "${n % 7}"` },
          ]
        : kind === 2
          ? `with \u0000 NUL ${n % 7}`
          : kind === 5
            ? [{ role: 'user', content: `odd \ud800 content ${n % 7}` }]
            : `Prompt ${n % 7} of 100%_done`,
    response: kind === 3 ? `lone \udc00 Ärger ${n % 5}` : `Response ÄRGER \\n ${n % 5}`,
    groundTruth:
      kind === 4 ? { value: `deep "${n % 3}"` } : kind === 0 ? `the\nanswer ${n % 3}` : n % 13,
  }
}

/** The displayed texts, which the search covers. */
function shownOf(n: number): string[] {
  const { prompt, response, groundTruth } = textsOf(n)
  return [
    ...(typeof prompt === 'string' ? [prompt] : prompt.map(({ content }) => content)),
    response,
    typeof groundTruth === 'string' ? groundTruth : JSON.stringify(groundTruth),
  ]
}

const SEARCHED: [name: string, text: string][] = [
  ['a word, ignoring case', 'pROMPT 3'],
  ['letters beyond ASCII', 'ärger 2'],
  ['characters with a meaning in LIKE', '100%_D'],
  ['a line break, escaped in JSON', 'one\nSAYS'],
  ['a letter after a line break is not part of its escape', 'nsays'],
  ['a backslash', '\\n 4'],
  ['quotes', 'says "5"'],
  ['JSON keys are not part of the text', 'role'],
  ['JSON syntax is not part of the text', '"content"'],
  ['a ground truth', 'the\nanswer 2'],
  ['a ground truth that is an object', 'deep'],
  ['NUL', '\u0000 nul 4'],
  ['a lone high surrogate', '\ud800 CONTENT 3'],
  ['a lone low surrogate', 'LONE \udc00'],
  ['a text of no sample', 'xyzzy'],
]

describe('search finds the displayed text', () => {
  it.each(SEARCHED)('%s', async (_, text) => {
    const expected = Array.from({ length: BATCHES * SAMPLES }, (_, n) => n)
      .filter((n) => shownOf(n).some((one) => one.toLowerCase().includes(text.toLowerCase())))
      .map((n) => `${1 + Math.floor(n / SAMPLES)}-${n % SAMPLES}`)
      .reverse()
    const { ids, all } = await byPages({ text }, 'newest', 37)
    expect(ids).toEqual(expected)
    expect(all).toBe(true)
    expect(await sampleCount(db, { text }, 60_000)).toMatchObject({
      samples: expected.length,
      exact: true,
    })
  })

  it.each(Object.keys(ORDERS) as SampleSort[])(
    'with other filters, in the order %s',
    async (sort) => {
      const filter = { text: 'Prompt 3', status: 'scored', run: 'one' } as const
      const known = new Set((await byPages({ text: 'Prompt 3' }, 'newest', 100)).ids)
      const expected = (await everything('s.status = 2 and run_id = 1', sort)).filter((id) =>
        known.has(id),
      )
      expect(expected.length).toBeGreaterThan(20)
      expect((await byPages(filter, sort, 7)).ids).toEqual(expected)
    },
  )

  it('a page reads at most maxRead, reports it, and the next one continues there', async () => {
    const first = await sampleList(
      db,
      { text: 'xyzzy' },
      {
        ...{ sort: 'newest', cursor: null, limit: 10 },
        maxRead: { samples: 300, bytes: 1 << 30, ms: 60_000 },
      },
    )
    expect(first.rows).toEqual([])
    expect(first.searched).toMatchObject({ all: false, texts: { samples: 300, dropped: 0 } })
    for (const sort of Object.keys(ORDERS) as SampleSort[]) {
      const whole = await byPages({ text: 'ärger 2' }, sort, 50)
      const parts = await byPages({ text: 'ärger 2' }, sort, 50, undefined, {
        ...{ samples: 100, bytes: 20_000, ms: 60_000 },
      })
      expect(parts.ids).toEqual(whole.ids)
    }
  })

  it('dropped texts are counted separately', async () => {
    await db.adhoc('delete from sample_text where batch_id = 2 and idx < 40')
    const { searched } = await sampleList(
      db,
      { text: 'Response', batchId: 2 },
      { sort: 'newest', cursor: null, limit: 100, maxRead: UNHURRIED },
    )
    expect(searched.texts).toMatchObject({ samples: 100, dropped: 40 })
  })
})

const FILTERS: [name: string, filter: SampleFilter, where: string][] = [
  ['all', {}, 'true'],
  ['a run', { run: 'two' }, 'run_id = 2'],
  ['an unknown run', { run: 'three' }, 'false'],
  ['a batch', { batchId: 7 }, 's.batch_id = 7'],
  ['a step', { step: 5 }, 'step = 5'],
  ['a group', { uid: 'q20' }, "uid = 'q20'"],
  ['a data source', { dataSource: 'a' }, "data_source = 'a'"],
  ['failed', { status: 'failed' }, 's.status = 3'],
  ['scored', { status: 'scored' }, 's.status = 2'],
  ['a reason', { reason: 'timeout' }, "reason = 'timeout'"],
  ['a server', { server: 's1' }, 'server_id = 1'],
  ['a range of scores', { scoreMin: 4.7, scoreMax: 4.8 }, 's.score between 4.7 and 4.8'],
  ['a score of no sample', { scoreMin: 99 }, 'false'],
  ['steps', { step: 3, stepTo: 6 }, 'step between 3 and 6'],
  ['a split', { split: 'val' }, 'false'],
  ['lengths', { lengthMin: 30, lengthMax: 70 }, 'response_length between 30 and 70'],
  ['several attempts', { attemptsMin: 2 }, 's.attempts >= 2'],
  ['substituted', { substituted: true }, 's.substituted'],
  ['not substituted', { substituted: false, batchId: 3 }, 's.batch_id = 3 and not s.substituted'],
  ['a label', { label: 'hack' }, 's.batch_id < 10 and idx % 14 = 0'],
  ['any label', { annotated: true }, 's.batch_id < 10 and idx % 7 = 0'],
  ['no label', { annotated: false, batchId: 3 }, 's.batch_id = 3 and idx % 7 <> 0'],
  [
    'an extra with the value true',
    { extra: [{ key: 'acc', is: 'boolean', value: true }] },
    'idx % 10 = 0',
  ],
  [
    'an extra in a range',
    { extra: [{ key: 'len', is: 'number', min: -3, max: 20 }] },
    '(idx % 5 = 0 and idx <= 20) or (idx % 5 = 1 and idx <= 6)',
  ],
  [
    'an extra beyond the range of a double',
    { extra: [{ key: 'len', is: 'number', min: 1e300 }] },
    'idx % 5 = 2',
  ],
  [
    'an extra with a text',
    { extra: [{ key: 'pred', is: 'text', value: 'p1' }] },
    'idx % 5 = 0 and idx % 3 = 1',
  ],
  [
    'an extra with odd characters',
    { extra: [{ key: 'pred', is: 'text', value: 'odd \u0000 😀 \ud800' }] },
    'idx % 5 = 2',
  ],
  ['an extra that is present', { extra: [{ key: 'a:b', is: 'present' }] }, 'idx % 5 = 2'],
  ['null is not present', { extra: [{ key: 'note', is: 'present' }] }, 'false'],
  [
    'several extras',
    {
      extra: [
        { key: 'pred', is: 'present' },
        { key: 'len', is: 'number', max: 50 },
      ],
    },
    'idx % 5 = 0 and idx <= 50',
  ],
  [
    'several filters',
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

it.each(FILTERS)('counts the samples of %s', async (_, filter, where) => {
  const expected = (await everything(where, 'newest')).length
  expect(await sampleCount(db, filter, 60_000)).toMatchObject({ samples: expected, exact: true })
})

it('keys of the extra info have types and ranges, with and without roll-ups', async () => {
  const { keys, ...rest } = await extraKeys(db, { batchId: 5 })
  expect(rest).toEqual({ batches: 1, pending: 0, capped: false })
  const of = new Map(keys.map((key) => [key.key, key]))
  expect([...of.keys()].sort()).toEqual(['a:b', 'acc', 'deep', 'len', 'pred'])
  expect(of.get('acc')).toMatchObject({ samples: 20, booleans: 20, numbers: 0, min: null })
  expect(of.get('len')).toMatchObject({ samples: 60, numbers: 60, min: -48, max: 1e308 })
  expect(of.get('pred')?.values).toEqual([
    { text: 'odd \ufffd 😀 \ufffd', samples: 20 },
    { text: 'p0', samples: 7 },
    { text: 'p2', samples: 7 },
    { text: 'p1', samples: 6 },
  ])
  expect(await extraKeys(db, { batchId: 12 })).toMatchObject({
    pending: 1,
    keys: expect.arrayContaining([expect.objectContaining({ key: 'acc', samples: 20 })]),
  })
  expect((await extraKeys(db, { run: 'two' })).keys.find(({ key }) => key === 'acc')).toMatchObject(
    {
      samples: 120,
    },
  )
  expect(await extraKeys(db, { run: 'three' })).toMatchObject({ keys: [], batches: 0 })
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
  ])('count the samples of %s', async (_, filter, where) => {
    const facets = await sampleFacets(db, filter)
    const { scored, failed, a } = (await counted(where))!
    expect([facets.scored, facets.failed, facets.waiting]).toEqual([scored, failed, 0])
    expect(facets.sources?.find(({ name }) => name === 'a')?.samples).toBe(a)
  })

  it('count the batches without roll-ups', async () => {
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

describe('samples that retention removed', () => {
  const batchId = 6
  beforeAll(async () => {
    await db.adhoc(
      'update batch set texts_removed_at = now(), samples_removed_at = now() where id = $1',
      [batchId],
    )
  })
  afterAll(() =>
    db.adhoc('update batch set texts_removed_at = null, samples_removed_at = null where id = $1', [
      batchId,
    ]),
  )

  it('are neither counted nor listed', async () => {
    expect(await sampleCount(db, { batchId })).toMatchObject({ samples: 0, batches: 0 })
    expect(await sampleCount(db, { status: 'failed' })).toMatchObject({
      ...{ samples: (BATCHES - 1) * 10, batches: BATCHES - 1 },
    })
    expect(await sampleCount(db, { batchId, dataSource: 'a' }, 60_000)).toMatchObject({
      ...{ samples: 0, batches: 0, exact: true },
    })
    expect(await byPages({ batchId }, 'newest', 10)).toMatchObject({ ids: [], all: true })
  })

  it('are in no facet and in no key of the extra info', async () => {
    expect(await sampleFacets(db, { batchId })).toMatchObject({
      ...{ batches: 0, scored: 0, failed: 0, sources: null, reasons: null, verdicts: null },
    })
    expect(await extraKeys(db, { batchId })).toMatchObject({ batches: 0, keys: [] })
  })
})

describe('a page is bounded', () => {
  it('in the order of arrival the next page continues where it stopped, even after an empty page', async () => {
    const filter = { scoreMin: 4.9, dataSource: 'a' }
    const { ids, looked } = await byPages(filter, 'newest', 50, 250)
    expect(ids).toEqual(await everything("s.score >= 4.9 and data_source = 'a'", 'newest'))
    expect(Math.max(...looked)).toBeLessThanOrEqual(BATCHES * SAMPLES)
    expect(looked.length).toBeGreaterThan(0)
  })

  it('in the order of scores it reports which batches were sorted, and later pages include only those', async () => {
    const first = await sampleList(
      db,
      {},
      { sort: 'worst', cursor: null, limit: 10, maxSamples: 250 },
    )
    expect(first.searched).toEqual({
      batches: 2,
      samples: 200,
      oldest: 11,
      all: false,
      texts: null,
    })
    const { ids } = await byPages({}, 'worst', 10, 250)
    expect(ids).toEqual(await everything('s.batch_id >= 11', 'worst'))
  })

  it('batches without possible matches are skipped', async () => {
    const { searched } = await sampleList(
      db,
      { reason: 'timeout' },
      { sort: 'worst', cursor: null, limit: 10 },
    )
    // Only every fourth batch and the batch without a roll-up are searched.
    expect(searched.batches).toBe(3)
  })
})
