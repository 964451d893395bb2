import { beforeAll, expect, it } from 'vitest'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { createLogger } from '../log.ts'
import { testQueueForFile } from '../store/testing/test-queue.ts'
import { GroupRollUps } from './group-roll-ups.ts'
import { Sweeps } from './sweeps.ts'

/** Background work that fails for one batch still covers the batches after it. */

const store = testQueueForFile()
const log = createLogger('silent', 'test')

beforeAll(async () => {
  await store.db.adhoc("insert into run (id, name) values (1, 'r')")
})

/**
 * Creates a batch with one sample. `received` is the size of the sample's group. In a group of size 0, the sample
 * cannot be counted.
 */
async function batchOf(fields: {
  status: 'running' | 'completed'
  reward?: string
  received?: number
}): Promise<number> {
  const {
    status,
    received = 1,
    reward = '{"kind": "rule", "onFailure": {"policy": "null"}}',
  } = fields
  const isOver = status === 'completed'
  const [row] = await store.db.adhoc<{ id: number }>(
    `insert into batch (run_id, step, split, status, closed, reward, reward_name, samples, scored, groups, text_bucket,
       deadline_at, completed_at)
     values (1, 1, 'train', $1, true, $2::jsonb, 'test', 1, $3, 1, current_date, now() - interval '1 second',
       case when $3 = 1 then now() - interval '1 minute' end) returning id`,
    [status, reward, isOver ? 1 : 0],
  )
  const { id } = row!
  await store.db.adhoc(
    `insert into sample_group (batch_id, no, uid, received, ended, seq) values ($1, 0, 'g', $2, $3, $4)`,
    [id, received, isOver ? 1 : 0, isOver ? 1 : null],
  )
  await store.db.adhoc(
    `insert into sample (batch_id, idx, group_no, data_source, status, score) values ($1, 0, 0, 'test', $2, $3)`,
    [id, isOver ? 2 : 0, isOver ? 1 : null],
  )
  return id
}

const row = async (id: number) =>
  (
    await store.db.adhoc<{ status: string; rolled_up: boolean }>(
      'select status, rolled_up from batch where id = $1',
      [id],
    )
  )[0]

it('deadlines of later batches apply', async () => {
  const failing = await batchOf({ status: 'running', received: 0 })
  const other = await batchOf({ status: 'running' })
  const sweeps = new Sweeps({
    ...{ db: store.db, queue: store.queue, log },
    closeBatch: () => Promise.resolve(),
  })
  sweeps.start()
  try {
    await waitFor('its end', async () => (await row(other))?.status === 'completed', 5_000)
  } finally {
    await sweeps.stop()
  }
  expect(await row(failing)).toMatchObject({ status: 'running' })
})

it('later batches and their runs are rolled up', async () => {
  const failing = await batchOf({ status: 'completed', reward: 'null' })
  const other = await batchOf({ status: 'completed' })
  const rollUps = new GroupRollUps(store.db, log)
  await expect(rollUps.tick()).rejects.toThrow()
  expect(await row(failing)).toMatchObject({ rolled_up: false })
  expect(await row(other)).toMatchObject({ rolled_up: true })
  expect(await store.db.adhoc('select batches from run_roll_up')).toEqual([{ batches: 1 }])
})
