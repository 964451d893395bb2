import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { rollouts, sample } from '../../testkit/service/rollouts.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { Retention } from '../admin/retention.ts'
import { ScoreInput, SubmitInput } from '../contract/trainer.ts'
import { createLogger } from '../log.ts'
import { AcceptedFunctions } from '../rewards/functions/accepted-functions.ts'
import { TEST_PLAN } from '../rewards/functions/testing/test-plan.ts'
import { Database } from '../store/database.ts'
import { JobQueue, RULES_POOL } from '../store/job-queue.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { lockBatch } from '../store/sql/append.ts'
import { storeBatchRollUps } from '../store/sql/batch-roll-ups.ts'
import { flushStatement } from '../store/sql/flush.ts'
import { RewardLoopManager } from './reward-loop-manager.ts'
import { BatchSignals } from './signals.ts'

/**
 * Runs the server's transactions on a pool with one connection. A transaction that requests a second connection waits
 * for itself. On a larger pool, several such transactions could wait for each other.
 */

const database = testDatabaseForFile()
const log = createLogger('silent', 'test')
let db: Database
let queue: JobQueue
let manager: RewardLoopManager

beforeAll(async () => {
  db = new Database(database.url, log, { max: 1, name: 'test', keyed: true })
  queue = new JobQueue(db, log, { supervise: true })
  await queue.start()
  const functions = new AcceptedFunctions({
    functionsDir: '/nowhere',
    versionsDir: '/nowhere',
    settings: { env: {}, memoryBytes: 2 ** 30, plan: TEST_PLAN },
  })
  manager = new RewardLoopManager(
    db,
    {
      ...{ db, queue, functions, images: () => ({ maxBytes: 1, isApart: true }) },
      sandboxes: { named: {}, local: () => Promise.reject() },
    },
    new BatchSignals(),
    { send: () => false },
    () => Date.now(),
  )
})
afterAll(async () => {
  manager?.stop()
  await queue?.stop()
  await db?.close()
})

const submit = (fields: object) =>
  manager.submit(SubmitInput.parse({ run: 'one', step: 1, samples: rollouts(64), ...fields }))

it('submit, append, close and cancel need one connection', async () => {
  // pg-boss looks up a new queue within the transaction that first inserts into the queue.
  const [first, open] = await Promise.all([submit({}), submit({ open: true, samples: [] })])
  const appends = rollouts(64, 8, 'more')
  await manager.append({ batchId: open.batchId, startIndex: 0, samples: appends } as never)
  expect(await manager.close(open.batchId)).toMatchObject({ samples: 64 })
  expect(await manager.cancel(first.batchId)).toMatchObject({ status: 'cancelled' })
  expect(await queue.fetch(RULES_POOL, 100, [])).not.toHaveLength(0)
})

it('a submit stores its texts under the database’s day, although this machine’s clock is ahead', async () => {
  const ahead = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 7 * 86_400_000)
  const { batchId } = await submit({}).finally(() => ahead.mockRestore())
  // Retention drops a day's partition of texts once that day is over on the database's clock.
  const rows = await db.adhoc(
    `select distinct text_bucket = (submitted_at at time zone 'UTC')::date as "isDay", bucket = text_bucket as "hasTexts"
     from batch join sample_text on batch_id = id where id = $1`,
    [Number(batchId.slice(1))],
  )
  expect(rows).toEqual([{ isDay: true, hasTexts: true }])
})

it('a rescore and its concurrent repetition need one connection', async () => {
  const { batchId } = await submit({})
  await end(batchId)
  const again = () =>
    manager.rescore({
      batchId,
      reward: SubmitInput.shape.reward.parse({}),
      idempotencyKey: 'k',
    } as never)
  const [one, other] = await Promise.all([again(), again()])
  expect(one.batchId).toBe(other.batchId)
})

it('the removal of a run and its audit entry need one connection', async () => {
  const { batchId } = await submit({ run: 'gone' })
  await end(batchId)
  const retention = new Retention(db, log)
  await retention.deleteRun('gone', 'gone', 'me')
  await retention.settle()
  await retention.stop()
  expect(await db.adhoc("select 1 from run where name = 'gone'")).toEqual([])
  expect(
    await db.adhoc("select actor, target from audit_event where action = 'retention.removed'"),
  ).toEqual([{ actor: 'me', target: 'gone' }])
})

const score = (fields: object) =>
  manager.score(ScoreInput.parse({ step: 1, sample: sample({ score: 1 }), ...fields }))

it('a single sample is stored while other servers append to its batch without a pause', async () => {
  const { batchId } = await score({ run: 'shared' })
  const others = new Database(database.url, log, { max: 2, name: 'others', keyed: true })
  let isOver = false
  // Two connections take turns, so that one of them always appends and the other one waits for the batch's lock.
  const append = async () => {
    while (!isOver) {
      await others.transaction(async (client) => {
        await lockBatch(client, Number(batchId.slice(1)))
        await client.query(
          'update batch set samples = samples + 1, scored = scored + 1 where id = $1',
          [batchId.slice(1)],
        )
        await client.query('select pg_sleep(0.005)')
      })
    }
  }
  const appending = [append(), append()]
  try {
    await waitFor('the first appends', async () => {
      const [batch] = await db.adhoc<{ samples: number }>(
        'select samples from batch where id = $1',
        [Number(batchId.slice(1))],
      )
      return batch!.samples > 2
    })
    const one = await score({ run: 'shared' })
    expect(one).toMatchObject({ batchId, score: 1, status: 'scored' })
    expect(one.index).toBeGreaterThan(1)
  } finally {
    isOver = true
    await Promise.all(appending)
    await others.close()
  }
})

it('a sample of a run that was removed opens a new batch, and its old batch is not found', async () => {
  const { batchId } = await score({ run: 'repeated' })
  await manager.close(batchId)
  await storeBatchRollUps(db, Number(batchId.slice(1)))
  const retention = new Retention(db, log)
  await retention.deleteRun('repeated', 'repeated', 'me')
  await retention.settle()
  await retention.stop()
  await expect(score({ run: 'repeated', batchId })).rejects.toMatchObject({
    reason: 'batch_not_found',
  })
  const again = await score({ run: 'repeated' })
  expect(again).toMatchObject({ index: 0, score: 1 })
  expect(again.batchId).not.toBe(batchId)
})

it('samples whose commit was not answered are not stored again', async () => {
  const { batchId } = await score({ run: 'unanswered' })
  const atOnce = db.atOnce.bind(db)
  const lost = async (...args: Parameters<typeof atOnce>) => {
    await atOnce(...args)
    throw Object.assign(new Error('the connection is lost'), { code: 'ECONNRESET' })
  }
  const spy = vi.spyOn(db, 'atOnce').mockImplementationOnce(atOnce).mockImplementationOnce(lost)
  // The first call is appended alone, and the other two are appended together.
  const calls = await Promise.allSettled([1, 2, 3].map(() => score({ run: 'unanswered' })))
  spy.mockRestore()
  expect(calls.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected'])
  expect(await manager.reader.summary(batchId)).toMatchObject({ samples: 4, scored: 4 })
})

async function end(batchId: string): Promise<void> {
  const samples = Array.from({ length: 64 }, (_, index) => ({
    batchId: Number(batchId.slice(1)),
    index,
    score: 1,
    rawScore: 1,
    reason: null,
    substituted: false,
    extra: null,
    verdict: null,
    extracted: null,
    rewards: null,
    attempts: 1,
    queueMs: 1,
    scoreMs: 1,
    serverId: null,
    serverName: null,
    dispatchedAtMs: Date.now(),
    attemptLog: null,
  }))
  const { rows } = await db.pool.query<{ n: number }>(flushStatement(1, samples))
  expect(rows).toEqual([{ n: 64 }])
  await storeBatchRollUps(db, Number(batchId.slice(1)))
}
