import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { LeaseHolder } from '../cluster/lease-holder.ts'
import { ProcessRow } from '../cluster/process-row.ts'
import { ShortGraceHolder } from '../cluster/testing/short-grace-holder.ts'
import { FakeServer } from '../engines/testing/fake-server.ts'
import { createLogger } from '../log.ts'
import { testPool } from '../rewards/functions/testing/test-pool.ts'
import { Database } from '../store/database.ts'
import { FUNCTIONS_POOL, JobQueue } from '../store/job-queue.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { ActiveBatches } from './active-batches.ts'
import { ClaimedJob } from './claimed-job.ts'
import { insertBatch, queueSamples, testWorker } from './testing/test-worker.ts'

const database = testDatabaseForFile()
const log = createLogger('silent', 'test')
let db: Database

beforeAll(() => {
  db = new Database(database.url, log, { max: 4, name: 'test' })
})
afterAll(() => db.close())

it('does not crash when the database is lost while an ended batch loads', async () => {
  const own = new Database(database.url, log, { max: 1, name: 'worker' })
  const leases = new LeaseHolder(own, 1, log)
  const batches = new ActiveBatches(own, leases)
  const unhandled: unknown[] = []
  const onUnhandled = (error: unknown) => unhandled.push(error)
  process.on('unhandledRejection', onUnhandled)
  const job = new ClaimedJob(
    { id: randomUUID(), retryCount: 0, data: { b: 1, i: [0, 0], t: 0 } } as never,
    'pool',
    0,
  )
  await db.transaction(async (client) => {
    await client.query('lock table batch in access exclusive mode')
    const entered = batches.enter(job).catch((error: Error) => error)
    const pid = await waitFor('the query of the batch', async () => {
      const [row] = await db.adhoc<{ pid: number }>(
        "select pid from pg_stat_activity where application_name like '%worker%' and wait_event_type = 'Lock'",
      )
      return row?.pid
    })
    batches.ended(1)
    await db.adhoc('select pg_terminate_backend($1)', [pid])
    expect(await entered).toBeInstanceOf(Error)
  })
  // Unhandled rejections are reported at the end of the turn.
  await new Promise((resolve) => setImmediate(resolve))
  process.off('unhandledRejection', onUnhandled)
  expect(unhandled).toEqual([])
  await leases.close()
  await own.close()
})

it('cancels calls before other workers get their slots, and scores the samples again', async () => {
  const own = new Database(database.url, log, { max: 4, name: 'test' })
  const row = await ProcessRow.register(own, 'worker', false)
  const leases = new ShortGraceHolder(own, row.id, log)
  const queue = new JobQueue(own, log, { supervise: true })
  await queue.start()
  await queue.ensure(FUNCTIONS_POOL)
  const { pool, ref, close } = testPool()
  const worker = testWorker({ db: own, row, queue, leases, functions: pool })
  // The first call does not end. Calls are counted outside of the function, because the pool may use another process
  // for the second call.
  let calls = 0
  const counter = await FakeServer.start((_, res) => void (++calls > 1 && res.end(`${calls}`)))
  const text = `export default async () => Number(await (await fetch('${counter.url}')).text())`
  const reward = { kind: 'function', function: ref(text), maxConcurrency: 1 }
  const b = await insertBatch(db, reward, 1)
  await queueSamples(own, queue, FUNCTIONS_POOL, b, 1)
  worker.intake.pump(FUNCTIONS_POOL)
  await waitFor('the call', () => worker.inFlight === 1 && calls === 1)

  const lost = vi.spyOn(own, 'rows').mockRejectedValue(new Error('Connection terminated'))
  const other = new LeaseHolder(db, row.id + 1, log)
  let slots = 0
  let demand = 1
  other.track({
    name: `batch:${b}`,
    limit: 1,
    demand: () => demand,
    inFlight: () => slots,
    setSlots: (granted) => {
      slots = granted
    },
  })
  other.want(`batch:${b}`)
  await waitFor('the slot of the other worker', () => slots === 1)
  expect(worker.inFlight).toBe(0)

  lost.mockRestore()
  demand = 0
  other.forget(`batch:${b}`)
  const [scored] = await waitFor('the score of the second call', async () => {
    const rows = await db.adhoc('select score from sample where batch_id = $1 and status = 2', [b])
    return rows.length > 0 ? rows : undefined
  })
  expect(scored).toEqual({ score: 2 })
  await worker.stop(0, 1_000)
  await close()
  await leases.close()
  await other.close()
  await queue.stop()
  await own.close()
  await counter.close()
}, 90_000)
