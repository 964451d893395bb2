import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { LeaseHolder } from '../cluster/lease-holder.ts'
import { createLogger } from '../log.ts'
import { Database } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { ActiveBatches } from './active-batches.ts'
import { ClaimedJob } from './claimed-job.ts'

const database = testDatabaseForFile()
const log = createLogger('silent', 'test')
let db: Database

beforeAll(() => {
  db = new Database(database.url, log, { max: 4, name: 'test' })
})
afterAll(() => db.close())

it('ends no process when the database is lost while an ended batch loads', async () => {
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
