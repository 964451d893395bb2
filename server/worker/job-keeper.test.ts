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

async function heldJob(): Promise<{ keeper: JobKeeper; job: ClaimedJob; workerId: number }> {
  const { id: workerId } = await ProcessRow.register(db, 'worker', false)
  const keeper = new JobKeeper(db, new JobQueue(db, log, { supervise: false }), workerId, log)
  const data = { b: 1, i: [0, 3], t: 0 }
  const job = new ClaimedJob({ id: randomUUID(), retryCount: 0, data } as never, 'pool', 0)
  job.open.add(0)
  return { keeper, job, workerId }
}

const claimsOf = ({ job }: ClaimedJob) =>
  db.adhoc('select worker_id from claim where job_id = $1', [job.id])

it('retries a failed claim, so that no other worker gets the job', async () => {
  const { keeper, job, workerId } = await heldJob()
  const rows = vi.spyOn(db, 'rows').mockRejectedValueOnce(new Error('terminating connection'))
  keeper.claim(job, [0, 1, 2, 3])
  await job.claim
  expect(rows).toHaveBeenCalledOnce()
  await waitFor('the claim', async () => (await claimsOf(job)).length > 0)
  expect(await claimsOf(job)).toEqual([{ worker_id: workerId }])
})

it('does not retry the claim of a job that it has replaced', async () => {
  const { keeper, job } = await heldJob()
  const fails = Promise.withResolvers<never>()
  vi.spyOn(db, 'rows').mockReturnValueOnce(fails.promise)
  keeper.claim(job, [0, 1, 2, 3])
  const requeued = keeper.requeue(job, [0, 1, 2, 3], 0).catch(() => {})
  fails.reject(new Error('terminating connection'))
  await job.claim
  expect(job.claimTimer).toBeUndefined()
  await requeued
})
