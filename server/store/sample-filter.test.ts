import { afterAll, beforeAll, expect, it } from 'vitest'
import { createLogger } from '../log.ts'
import { Database } from './database.ts'
import { testDatabaseForFile } from './postgres/test-database.ts'
import { storeBatchRollUps } from './sql/batch-roll-ups.ts'
import { candidateBatches, type SampleFilter } from './sql/sample-filter.ts'

const database = testDatabaseForFile()
let db: Database

beforeAll(() => {
  db = new Database(database.url, createLogger('error', 'test'), {
    ...{ max: 2, name: 'test', keyed: true },
  })
})
afterAll(() => db.close())

async function addBatch(
  verdicts: readonly (string | null)[],
  options: { isRolledUp?: boolean; isGroupDropped?: boolean } = {},
): Promise<number> {
  const [batch] = await db.adhoc<{ id: number }>(
    `insert into batch (run_id, step, split, status, closed, reward, reward_name, samples, scored, groups, text_bucket)
     values (1, 1, 'train', 'completed', true, '{}', 'test', $1, $1, 1, current_date) returning id`,
    [verdicts.length],
  )
  const { id } = batch!
  await db.adhoc(
    `insert into sample (batch_id, idx, group_no, data_source, status, score, substituted, verdict)
     select $1, at, 0, 'gsm8k', 2, case when not $3 then 1 end, $3, verdict
     from unnest($2::text[]) with ordinality as t(verdict, at)`,
    [id, verdicts, options.isGroupDropped ?? false],
  )
  if (options.isRolledUp ?? true) await storeBatchRollUps(db, id)
  return id
}

it('a batch is skipped if its roll-up excludes the verdict', async () => {
  const many = Array.from({ length: 40 }, (_, at) => `rare ${at}`)
  const named = await addBatch(['equal', 'different', null])
  const without = await addBatch(['different', 'different', 'no answer', null])
  const unnoted = await addBatch([null, null])
  const pending = await addBatch(['equal'], { isRolledUp: false })
  const dropped = await addBatch(['equal', 'different'], { isGroupDropped: true })
  const unnamed = await addBatch([...many, ...many, 'equal'])
  const older = await addBatch(['equal'])
  await db.adhoc('update batch_roll_up set verdicts = null where batch_id = $1', [older])
  const candidates = async (verdict: string) =>
    (await candidateBatches(db, { verdict }, null, 'oldest')).batches.map(({ id }) => id)
  expect(await candidates('equal')).toEqual([named, pending, dropped, unnamed, older])
  expect(await candidates('no answer')).toEqual([without, pending, dropped, unnamed, older])
  expect(await candidates('x')).not.toContain(unnoted)
})

it('a batch is found by a substituted score, which its lowest and highest score leave out', async () => {
  const id = await addBatch(['equal', 'equal'], { isRolledUp: false })
  await db.adhoc(
    `update sample set status = 3, reason = 'timeout', score = -5, substituted = true where batch_id = $1 and idx = 2`,
    [id],
  )
  await storeBatchRollUps(db, id)
  const plain = await addBatch(['equal'])
  const candidates = async (filter: SampleFilter) =>
    (await candidateBatches(db, filter, null, 'oldest')).batches.map(({ id }) => id)
  expect(await candidates({ scoreMax: 0 })).toContain(id)
  expect(await candidates({ scoreMin: 0 })).toContain(plain)
  expect(await candidates({ scoreMax: 0 })).not.toContain(plain)
  await db.adhoc('update sample set score = 7 where batch_id = $1 and idx = 2', [id])
  expect(await candidates({ scoreMin: 2 })).toContain(id)
})
