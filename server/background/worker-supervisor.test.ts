import { execFileSync, spawnSync } from 'node:child_process'
import { readlinkSync } from 'node:fs'
import { hostname } from 'node:os'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { HAS_PID_NAMESPACES, runAsTwinContainer } from '../../testkit/processes/pid-namespace.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { ProcessRow } from '../cluster/process-row.ts'
import { createLogger } from '../log.ts'
import { PROCESS_HOST } from '../process-host.ts'
import { WORKER_POOL } from '../store/connection-budget.ts'
import { Database } from '../store/database.ts'
import { JobQueue } from '../store/job-queue.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { workerRows } from '../store/sql/fleet.ts'
import { requeueOrphans, sweepDeadWorkers, WorkerSupervisor } from './worker-supervisor.ts'

const database = testDatabaseForFile()
const log = createLogger('silent', 'test')
let db: Database

beforeAll(() => {
  db = new Database(database.url, log, WORKER_POOL)
})
afterAll(() => db.close())

const queue = () => new JobQueue(db, log, { supervise: false })
const takeLease = (id: number) =>
  db.adhoc(
    `insert into lease (resource, worker_id, slots, demand, expires_at)
     values ('server:1', $1, 4, 4, now() + interval '1 minute')`,
    [id],
  )
const leasesOf = (id: number) => db.adhoc('select 1 from lease where worker_id = $1', [id])

it('leaves no lease of a worker that has ended', async () => {
  const { id } = await ProcessRow.register(db, 'worker', false)
  await db.adhoc('update process set pid = $2 where id = $1', [id, spawnSync('true').pid])
  await takeLease(id)
  await requeueOrphans(db, queue(), false)
  expect(await leasesOf(id)).toEqual([])
})

it.skipIf(!HAS_PID_NAMESPACES)(
  'does not declare a live worker of another container with the same host name dead',
  async () => {
    const url = (path: string) => JSON.stringify(new URL(path, import.meta.url))
    const script = `
      import { ProcessRow } from ${url('../cluster/process-row.ts')}
      import { createLogger } from ${url('../log.ts')}
      import { Database } from ${url('../store/database.ts')}
      const log = createLogger('silent', 'test')
      const db = new Database(${JSON.stringify(database.url)}, log, { max: 1, name: 'twin' })
      console.log((await ProcessRow.register(db, 'worker', false)).id)
      setInterval(() => {}, 1_000)`
    const worker = await runAsTwinContainer(script, spawnSync('true').pid)
    try {
      const id = Number(worker.line)
      await takeLease(id)
      await requeueOrphans(db, queue(), false)
      expect(await leasesOf(id)).toHaveLength(1)
      const row = (await workerRows(db)).find((one) => one.id === id)
      expect(row).toMatchObject({ state: 'alive', host: hostname() })
    } finally {
      worker.process.kill('SIGKILL')
    }
  },
)

/**
 * PROCESS_HOST as a process computes it in a container whose pid namespace has the same number as this one, but whose
 * first process started earlier.
 */
function hostOfEarlierRun(): string {
  const script = `
    import fs from 'node:fs'
    import { syncBuiltinESMExports } from 'node:module'
    const stat = '1 (a) b) ' + Array.from({ length: 50 }, (_, at) => at + 3).join(' ')
    const { readFileSync } = fs
    fs.readlinkSync = () => ${JSON.stringify(readlinkSync('/proc/self/ns/pid'))}
    fs.readFileSync = (path, ...rest) => path === '/proc/1/stat' ? stat : readFileSync(path, ...rest)
    syncBuiltinESMExports()
    const { PROCESS_HOST } = await import(${JSON.stringify(new URL('../process-host.ts', import.meta.url))})
    console.log(PROCESS_HOST)`
  return execFileSync(process.execPath, ['--input-type=module', '--eval', script]).toString().trim()
}

it.each([
  ['an earlier run of this container', () => PROCESS_HOST.replace(/[\da-f]*$/, '1')],
  ['an earlier container', () => 'earlier#00000000.00000000'],
])('frees the leases of %s at once if the database is embedded', async (_, hostOf) => {
  const own = await ProcessRow.register(db, 'server', false)
  const { id } = await ProcessRow.register(db, 'worker', false)
  await db.adhoc('update process set host = $2 where id = $1', [id, hostOf()])
  await takeLease(own.id)
  await takeLease(id)
  await requeueOrphans(db, queue(), false)
  expect(await leasesOf(id)).toHaveLength(1)
  await requeueOrphans(db, queue(), true)
  expect(await leasesOf(id)).toEqual([])
  expect(await leasesOf(own.id)).toHaveLength(1)
})

it.skipIf(process.platform !== 'linux').each([
  ['another number', () => PROCESS_HOST.replace(/[\da-f]*$/, '1')],
  ['the same number', hostOfEarlierRun],
])(
  'frees the leases of an earlier run of this container, whose pid namespace had %s, once it no longer reports',
  async (_, hostOf) => {
    const { id } = await ProcessRow.register(db, 'worker', false)
    const twin = hostOf()
    const seen = (msAgo: number) =>
      db.adhoc(
        "update process set host = $2, last_seen_at = now() - $3 * interval '1 ms' where id = $1",
        [id, twin, msAgo],
      )
    await takeLease(id)
    await seen(1_000)
    await sweepDeadWorkers(db, queue())
    expect(await leasesOf(id)).toHaveLength(1)
    await seen(6_000)
    // After an outage, even live processes have not reported yet, so the first sweep frees no leases.
    await sweepDeadWorkers(db, queue(), true)
    expect(await leasesOf(id)).toHaveLength(1)
    await sweepDeadWorkers(db, queue())
    expect(await leasesOf(id)).toEqual([])
  },
)

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
