import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { Retention } from '../admin/retention.ts'
import { createLogger } from '../log.ts'
import { Database } from './database.ts'
import { testDatabaseForFile } from './postgres/test-database.ts'
import { storeBatchRollUps } from './sql/batch-roll-ups.ts'
import {
  beginJob,
  cancelJob,
  deletePiece,
  endJob,
  markPiece,
  runForDeletion,
  unmark,
} from './sql/retention.ts'

const database = testDatabaseForFile()
let db: Database

beforeAll(async () => {
  db = new Database(database.url, createLogger('error', 'test'), {
    ...{ max: 2, name: 'test', keyed: true },
  })
  await db.adhoc("insert into run (id, name) values (1, 'one')")
})
afterAll(() => db.close())

/** A rolled-up batch of four samples, submitted `days` days ago. Returns its id. */
async function addBatch(days: number): Promise<number> {
  const [batch] = await db.adhoc<{ id: number }>(
    `insert into batch (run_id, step, split, status, closed, reward, reward_name, samples, scored, groups, text_bucket,
       submitted_at, completed_at)
     values (1, 1, 'train', 'completed', true, '{}', 'test', 4, 4, 0, current_date, now() - $1 * interval '1 day', now())
     returning id`,
    [days],
  )
  const { id } = batch!
  await db.adhoc(
    `insert into sample (batch_id, idx, group_no, data_source, status, score)
     select $1, i, 0, 'gsm8k', 2, 1 from generate_series(0, 3) i`,
    [id],
  )
  await storeBatchRollUps(db, id)
  return id
}

const removedAt = async () =>
  new Map(
    (
      await db.adhoc<{ id: number; at: Date | null }>(
        'select id, samples_removed_at as at from batch',
      )
    ).map(({ id, at }) => [id, at]),
  )

it('a cancelled deletion of a run keeps what an earlier removal removed marked as removed', async () => {
  const [old, fresh] = [await addBatch(40), await addBatch(0)]
  const policy = {
    ...{ textsDays: null, batchesDays: 30, keepRollUps: true, eventsDays: null, auditDays: null },
  }
  const aged = await beginJob(db, {
    ...{ kind: 'policy', run: null, last_batch_id: null, requested_by: 'test' },
    ...{ policy, progress: {} },
  })
  while (await db.transaction((client) => markPiece(client, aged!)));
  while (await db.transaction(deletePiece));
  await db.transaction((client) => endJob(client, aged!))
  const before = await removedAt()
  expect([before.get(old), before.get(fresh)]).toEqual([expect.any(Date), null])
  expect(await runForDeletion(db, 'one')).toMatchObject({ batches: 2, samples: 4 })

  const job = await beginJob(db, {
    ...{ kind: 'run', run: 'one', last_batch_id: fresh, requested_by: 'test' },
    ...{ policy: null, progress: {} },
  })
  await db.transaction((client) => markPiece(client, job!))
  expect((await removedAt()).get(fresh)).not.toBeNull()
  await db.transaction(async (client) => {
    await cancelJob(client, job!.id)
    await unmark(client, job!.id)
  })
  expect(await removedAt()).toEqual(before)
})

it('a removal that is cancelled while it marks batches removes none of them', async () => {
  const id = await addBatch(0)
  const job = await beginJob(db, {
    ...{ kind: 'run', run: 'one', last_batch_id: id, requested_by: 'test' },
    ...{ policy: null, progress: {} },
  })
  const log = createLogger('error', 'test')
  const remover = new Database(database.url, log, { max: 1, name: 'remover', keyed: true })
  const retention = new Retention(remover, log)
  let removing = Promise.resolve()
  await db.transaction(async (client) => {
    await cancelJob(client, job!.id)
    await unmark(client, job!.id)
    removing = retention.settle()
    const waiting = () =>
      db.adhoc(
        "select 1 from pg_stat_activity where application_name = 'remover' and wait_event_type = 'Lock'",
      )
    await expect.poll(waiting).toHaveLength(1)
  })
  await removing
  await retention.stop()
  await remover.close()
  expect((await removedAt()).get(id)).toBeNull()
  expect(await db.adhoc('select 1 from sample where batch_id = $1', [id])).toHaveLength(4)
})

it('the policy is applied an hour after the last time, by the database’s clock', async () => {
  const id = await addBatch(40)
  await db.adhoc("update retention_job set created_at = now() - interval '2 hours'")
  const retention = new Retention(db, createLogger('silent', 'test'))
  const policy = { textsDays: null, batchesDays: 30, keepRollUps: true }
  await retention.set({ ...policy, eventsDays: null, auditDays: null }, 'test')
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() - 3 * 3_600_000 })
  try {
    retention.start()
    await expect.poll(async () => (await removedAt()).get(id)).not.toBeNull()
  } finally {
    vi.useRealTimers()
    await retention.stop()
  }
})
