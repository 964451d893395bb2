import { expect, it } from 'vitest'
import { createLogger } from '../log.ts'
import { FUNCTIONS_POOL } from '../store/job-queue.ts'
import { testQueueForFile } from '../store/testing/test-queue.ts'
import { Orphans } from './orphans.ts'

const store = testQueueForFile()
const log = createLogger('silent', 'test')

/**
 * A batch of two groups: samples 0 and 2, and samples 1 and 3. `received`: the number of samples of each group that
 * have arrived.
 */
async function batchWithoutJobs(closed: boolean, received: [number, number]): Promise<number> {
  const samples = received[0] + received[1]
  const [row] = await store.db.adhoc<{ id: number }>(
    `insert into batch (run_id, step, split, status, closed, group_size, reward, reward_name, samples, groups, text_bucket)
     values (1, 1, 'train', $1, $2, 2, $3, 'test', $4, 2, current_date) returning id`,
    [
      closed ? 'running' : 'open',
      closed,
      { kind: 'function', model: null, manager: 'batch' },
      samples,
    ],
  )
  await store.db.adhoc(
    `insert into sample_group (batch_id, no, uid, received)
     select $1, no - 1, 'g' || no, n from unnest($2::int[]) with ordinality u(n, no)`,
    [row!.id, received],
  )
  await store.db.adhoc(
    `insert into sample (batch_id, idx, group_no, data_source)
     select $1, 2 * k + no - 1, no - 1, 'test' from unnest($2::int[]) with ordinality u(n, no), generate_series(0, n - 1) k`,
    [row!.id, received],
  )
  return row!.id
}

it('whole groups are requeued, in an open batch only those whose samples have all arrived', async () => {
  await store.db.adhoc("insert into run (id, name) values (1, 'r')")
  const closed = await batchWithoutJobs(true, [2, 1])
  const open = await batchWithoutJobs(false, [2, 1])
  const orphans = new Orphans(store.db, store.queue, log)
  await orphans.sweep(0)
  await orphans.sweep(5_000)
  expect(orphans.returned).toBe(5)
  const jobs = await store.db.adhoc(
    "select data -> 'b' as b, data -> 'i' as i from pgboss.job where name = $1 order by data -> 'b'",
    [FUNCTIONS_POOL],
  )
  expect(jobs).toEqual([
    { b: closed, i: [0, 2] },
    { b: open, i: [0, 0, 2, 2] },
  ])
})
