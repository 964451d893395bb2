import { afterAll, beforeAll, expect, it } from 'vitest'
import { createLogger } from '../log.ts'
import { Database } from '../store/database.ts'
import { FUNCTIONS_POOL, JobQueue } from '../store/job-queue.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { Orphans } from './orphans.ts'

const database = testDatabaseForFile()
const log = createLogger('silent', 'test')
let db: Database
let queue: JobQueue

beforeAll(async () => {
  db = new Database(database.url, log, { max: 2, name: 'test' })
  queue = new JobQueue(db, log, { supervise: true })
  await queue.start()
})
afterAll(async () => {
  await queue.stop()
  await db.close()
})

/** Creates a batch that is scored by whole groups of four, with two samples of each of two groups, and no jobs. */
async function batchWithoutJobs(closed: boolean): Promise<number> {
  const [row] = await db.adhoc<{ id: number }>(
    `insert into batch (run_id, step, split, status, closed, group_size, reward, reward_name, samples, groups, text_bucket)
     values (1, 1, 'train', $1, $2, 4, $3, 'test', 4, 2, current_date) returning id`,
    [closed ? 'running' : 'open', closed, { kind: 'function', model: null, manager: 'batch' }],
  )
  await db.adhoc(
    `insert into sample (batch_id, idx, group_no, data_source) select $1, i, i % 2, 'test' from generate_series(0, 3) i`,
    [row!.id],
  )
  return row!.id
}

it('whole groups are requeued in a closed batch; an open batch waits for their other samples', async () => {
  await db.adhoc("insert into run (id, name) values (1, 'r')")
  const closed = await batchWithoutJobs(true)
  await batchWithoutJobs(false)
  const orphans = new Orphans(db, queue, log)
  await orphans.sweep(0)
  await orphans.sweep(5_000)
  expect(orphans.returned).toBe(4)
  const jobs = await db.adhoc(
    "select data -> 'b' as b, data -> 'i' as i from pgboss.job where name = $1",
    [FUNCTIONS_POOL],
  )
  expect(jobs).toEqual([{ b: closed, i: [0, 3] }])
})
