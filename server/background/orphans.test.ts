import { expect, it } from 'vitest'
import { createLogger } from '../log.ts'
import { FUNCTIONS_POOL } from '../store/job-queue.ts'
import { testQueueForFile } from '../store/testing/test-queue.ts'
import { Orphans } from './orphans.ts'

const store = testQueueForFile()
const log = createLogger('silent', 'test')

async function batchWithoutJobs(closed: boolean): Promise<number> {
  const [row] = await store.db.adhoc<{ id: number }>(
    `insert into batch (run_id, step, split, status, closed, group_size, reward, reward_name, samples, groups, text_bucket)
     values (1, 1, 'train', $1, $2, 4, $3, 'test', 4, 2, current_date) returning id`,
    [closed ? 'running' : 'open', closed, { kind: 'function', model: null, manager: 'batch' }],
  )
  await store.db.adhoc(
    `insert into sample (batch_id, idx, group_no, data_source) select $1, i, i % 2, 'test' from generate_series(0, 3) i`,
    [row!.id],
  )
  return row!.id
}

it('whole groups are requeued in a closed batch; an open batch waits for their other samples', async () => {
  await store.db.adhoc("insert into run (id, name) values (1, 'r')")
  const closed = await batchWithoutJobs(true)
  await batchWithoutJobs(false)
  const orphans = new Orphans(store.db, store.queue, log)
  await orphans.sweep(0)
  await orphans.sweep(5_000)
  expect(orphans.returned).toBe(4)
  const jobs = await store.db.adhoc(
    "select data -> 'b' as b, data -> 'i' as i from pgboss.job where name = $1",
    [FUNCTIONS_POOL],
  )
  expect(jobs).toEqual([{ b: closed, i: [0, 3] }])
})
