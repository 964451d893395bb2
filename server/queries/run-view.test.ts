import { afterAll, beforeAll, expect, it } from 'vitest'
import { insertServer } from '../cluster/testing/servers.ts'
import { createLogger } from '../log.ts'
import { Database } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { RunView } from './run-view.ts'

/** Tests which steps and automatic marks the page of a run has. */

const database = testDatabaseForFile()
let db: Database

beforeAll(async () => {
  db = new Database(database.url, createLogger('error', 'test'), {
    ...{ max: 2, name: 'test', keyed: true, statementTimeoutMs: 10_000 },
  })
  await db.adhoc("insert into run (id, name) values (1, 'r')")
  // A step a minute, the last one now; step 3 was rescored twice.
  await db.adhoc(
    `insert into batch (run_id, step, split, status, closed, reward, reward_name, samples, text_bucket, submitted_at)
     select 1, step, 'train', 'completed', true, '{"model": "m", "components": [{"reward": {"model": "inner"}}]}', 'test', 8,
       current_date, now() - (5 - step) * interval '1 minute' from generate_series(1, 5) step`,
  )
  await db.adhoc(
    `insert into batch (run_id, step, split, status, closed, reward, reward_name, samples, text_bucket, rescored_from)
     select 1, 3, 'train', 'completed', true, '{}', 'other', 8, current_date, 3 from generate_series(1, 2)`,
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

const read = (until?: number) =>
  new RunView(db).get({ name: 'r', split: 'train', ...(until === undefined ? {} : { until }) })

it('servers of its models that come and go, and rescored steps, are marked once', async () => {
  const { marks } = await read()
  expect(marks.map(({ step, label }) => [step, label])).toEqual([
    [3, 'new registered'],
    [4, 'early removed'],
    [3, 'rescored'],
  ])
})

it('earlier steps are reached by their last one', async () => {
  const { steps, earlier, later } = await read(3)
  expect(steps.map(({ step }) => step)).toEqual([1, 2, 3])
  expect([earlier, later]).toEqual([0, 2])
  expect(await read()).toMatchObject({ earlier: 0, later: 0 })
})
