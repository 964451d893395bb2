import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { ProcessRow } from '../cluster/process-row.ts'
import { createLogger } from '../log.ts'
import { WORKER_POOL } from '../store/connection-budget.ts'
import { Database } from '../store/database.ts'
import { JobQueue } from '../store/job-queue.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { ClaimedJob } from './claimed-job.ts'
import { JobKeeper } from './job-keeper.ts'

const database = testDatabaseForFile()
const log = createLogger('silent', 'test')
let db: Database

beforeAll(() => {
  db = new Database(database.url, log, WORKER_POOL)
})
afterAll(() => db.close())

it('writes a claim again that failed, so that no other worker gets a job that is held', async () => {
  const worker = await ProcessRow.register(db, 'worker', false)
  const keeper = new JobKeeper(db, new JobQueue(db, log, { supervise: false }), worker.id, log)
  const data = { b: 1, i: [0, 3], t: 0 }
  const job = new ClaimedJob({ id: randomUUID(), retryCount: 0, data } as never, 'pool', 0)
  job.open.add(0)
  const rows = vi.spyOn(db, 'rows').mockRejectedValueOnce(new Error('terminating connection'))
  keeper.claim(job, [0, 1, 2, 3])
  await job.claim
  expect(rows).toHaveBeenCalledOnce()
  const claims = await waitFor('the claim', async () => {
    const found = await db.adhoc('select worker_id from claim where job_id = $1', [job.job.id])
    return found.length > 0 && found
  })
  expect(claims).toEqual([{ worker_id: worker.id }])
})
