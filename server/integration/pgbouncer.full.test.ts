import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectExactlyOnce, followBatch } from '../../testkit/service/follow-batch.ts'
import { padding, rollouts } from '../../testkit/service/rollouts.ts'
import { runToEnd, Service } from '../../testkit/service/service.ts'
import { stopCleanly } from '../../testkit/service/service-with-model.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { isOutage } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { connectSession } from '../store/session.ts'

const isInstalled = spawnSync('pgbouncer', ['--version']).status === 0
if (!isInstalled) console.warn('pgbouncer is not installed: the tests behind it are skipped')

const database = testDatabaseForFile()
const dir = mkdtempSync(join(tmpdir(), 'pgbouncer-'))
const running: ChildProcess[] = []

afterAll(async () => {
  for (const child of running) {
    if (child.exitCode !== null || child.signalCode !== null) continue
    child.kill('SIGINT')
    await once(child, 'exit')
  }
  rmSync(dir, { recursive: true, force: true })
})

/** Starts a server on a free port that refuses every login, as Postgres does while it starts up. */
async function startingPostgres(): Promise<{ port: number; close(): void }> {
  const fields = 'SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0'
  const head = Buffer.alloc(5)
  head.write('E')
  head.writeInt32BE(fields.length + 4, 1)
  const server = createServer((socket) => {
    socket
      .on('error', () => {})
      .once('data', () => socket.end(head.toString('latin1') + fields, 'latin1'))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { port: (server.address() as AddressInfo).port, close: () => void server.close() }
}

async function startPgBouncer(
  settings: Record<string, string | number>,
  behind?: { port: number },
): Promise<string> {
  const free = createServer().listen(0, '127.0.0.1')
  await once(free, 'listening')
  const { port } = free.address() as AddressInfo
  await new Promise((resolve) => free.close(resolve))
  const url = new URL(database.url)
  const socketDir = url.searchParams.get('host') as string
  const { uid, gid } = statSync(socketDir)
  const target =
    behind === undefined ? `host=${socketDir} port=5432` : `host=127.0.0.1 port=${behind.port}`
  const users = join(dir, 'users.txt')
  const config = join(dir, `${port}.ini`)
  writeFileSync(users, '"rewardops" ""\n')
  const lines = Object.entries({
    listen_addr: '127.0.0.1',
    listen_port: port,
    unix_socket_dir: '',
    auth_type: 'trust',
    auth_file: users,
    ...settings,
  }).map(([name, value]) => `${name} = ${value}`)
  writeFileSync(config, `[databases]\n* = ${target}\n[pgbouncer]\n${lines.join('\n')}\n`)
  chmodSync(dir, 0o755)
  // PgBouncer refuses to run as root, so it runs as the owner of Postgres's socket, who may connect to it.
  const account = process.getuid?.() === 0 ? { uid, gid } : {}
  if (process.getuid?.() === 0) for (const path of [users, config]) chownSync(path, uid, gid)
  const child = spawn('pgbouncer', ['-q', config], {
    stdio: ['ignore', 'ignore', 'inherit'],
    ...account,
  })
  running.push(child)
  const address = `postgresql://rewardops@127.0.0.1:${port}${url.pathname}?sslmode=disable`
  await waitFor('PgBouncer', async () => {
    if (child.exitCode !== null) throw new Error('PgBouncer ended')
    const client = await connectSession(address).catch((error) => error)
    if (client instanceof Error) return behind !== undefined && 'severity' in client
    await client.end()
    return true
  })
  return address
}

describe.skipIf(!isInstalled)('PgBouncer in session mode', () => {
  let service: Service

  beforeAll(async () => {
    const url = await startPgBouncer({ pool_mode: 'session', default_pool_size: 30 })
    service = await Service.start({ env: { DATABASE_URL: url, REWARDOPS_WORKERS: '2' } })
  })
  afterAll(() => stopCleanly(service))

  it('refuses startup options itself', async () => {
    const url = new URL(await startPgBouncer({ pool_mode: 'session' }))
    url.searchParams.set('options', '-c enable_seqscan=off')
    await expect(connectSession(url.href)).rejects.toThrow(/unsupported startup parameter/)
  })

  it('reports a database that is starting up as an outage', async () => {
    const { port, close } = await startingPostgres()
    const url = await startPgBouncer({ pool_mode: 'session' }, { port })
    const refusals: Error[] = []
    // PgBouncer refuses some clients. Others wait for its next login to Postgres until their own time limit.
    await waitFor('a refusal by PgBouncer', async () => {
      const refusal = await connectSession(url).catch((error: Error) => error)
      if (refusal instanceof Error) refusals.push(refusal)
      return refusals.some((error) => 'severity' in error)
    })
    expect(refusals.filter((error) => !isOutage(error))).toEqual([])
    expect(refusals.at(-1)).toMatchObject({ code: '08P01', severity: 'FATAL' })
    close()
  })

  it('passes batches that are accepted, scored and delivered, large bodies included', async () => {
    for (const [run, samples] of [
      ['small', rollouts(256, 8, 'small')],
      ['large', rollouts(256, 8, 'large').map((s) => ({ ...s, prompt: padding(30_000) }))],
    ] as const) {
      const { batchId } = await service.api.batches.submit.mutate({ run, step: 1, samples })
      const followed = followBatch(service, batchId)
      await followed.done
      await expectExactlyOnce(service, followed, 256, 32)
    }
    const single = await service.api.samples.score.mutate({
      run: 'single',
      step: 1,
      sample: rollouts(1, 1, 'single')[0]!,
    })
    expect(single.score).not.toBeNull()
  })

  it('passes the queries of pages, metrics and exports', async () => {
    await service.api.batches.list.query({})
    await service.api.overview.get.query()
    await service.api.samples.list.query({ limit: 10 })
    expect((await service.raw('/metrics')).status).toBe(200)
    expect((await service.raw('/api/export/samples?run=small')).status).toBe(200)
    expect((await service.raw('/healthz')).status).toBe(200)
  })
})

describe.skipIf(!isInstalled)('PgBouncer in transaction mode', () => {
  it.each([20, 2])('is refused at the start, with a pool of %s', async (size) => {
    const url = await startPgBouncer({ pool_mode: 'transaction', default_pool_size: size })
    const { code, stderr } = await runToEnd({ DATABASE_URL: url, REWARDOPS_PAGES: '0' })
    expect(code).toBe(1)
    expect(stderr).toMatch(/pool_mode = transaction.*pool in session mode/)
  })
})
