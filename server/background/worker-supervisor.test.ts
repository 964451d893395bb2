import { spawnSync } from 'node:child_process'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { ProcessRow } from '../cluster/process-row.ts'
import { createLogger } from '../log.ts'
import { WORKER_POOL } from '../store/connection-budget.ts'
import { Database } from '../store/database.ts'
import { JobQueue } from '../store/job-queue.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { requeueOrphans, WorkerSupervisor } from './worker-supervisor.ts'

const database = testDatabaseForFile()
const log = createLogger('silent', 'test')
let db: Database

beforeAll(() => {
  db = new Database(database.url, log, WORKER_POOL)
})
afterAll(() => db.close())

it('leaves no lease of a worker that has ended', async () => {
  const { id } = await ProcessRow.register(db, 'worker', false)
  await db.adhoc('update process set pid = $2 where id = $1', [id, spawnSync('true').pid])
  await db.adhoc(
    `insert into lease (resource, worker_id, slots, demand, expires_at)
     values ('server:1', $1, 4, 4, now() + interval '1 minute')`,
    [id],
  )
  await requeueOrphans(db, new JobQueue(db, log, { supervise: false }))
  expect(await db.adhoc('select 1 from lease where worker_id = $1', [id])).toEqual([])
})

it.each([
  { why: 'Node reports it', execPath: '/nowhere/node', env: process.env },
  // Linux allows at most 128 KiB per variable.
  { why: 'Node throws', execPath: process.execPath, env: { ...process.env, A: 'x'.repeat(2e5) } },
])('is started again if its process could not be started and $why', async ({ execPath, env }) => {
  const failed = vi.fn()
  const supervisor = new WorkerSupervisor({
    count: 1,
    databaseUrl: database.url,
    env,
    routerAddress: '',
    sandbox: () => Promise.reject(),
    onMessage: () => {},
    db,
    queue: new JobQueue(db, log, { supervise: false }),
    log: { error: failed, warn: () => {} } as never,
  })
  const ours = process.execPath
  process.execPath = execPath
  try {
    supervisor.start()
    expect(supervisor.pids).toEqual([])
    await waitFor('a second start', () => failed.mock.calls.length > 1, 5_000)
  } finally {
    await supervisor.stop()
    process.execPath = ours
  }
})
