import { createServer, connect as dial, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import type pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { itInFullRun } from '../../testkit/service/full-run.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { createLogger } from '../log.ts'
import { WORKER_POOL } from './connection-budget.ts'
import { Database, type DatabaseOptions, isConnectionLoss } from './database.ts'
import { Listener } from './listener.ts'
import { migrate } from './migrate.ts'
import { openDatabase } from './postgres/connect.ts'
import {
  createTestDatabase,
  type TestDatabase,
  testDatabaseForFile,
} from './postgres/test-database.ts'
import { openPrisma } from './prisma.ts'
import { connectSession, isTooManyConnections } from './session.ts'

const database = testDatabaseForFile()
const log = createLogger('silent', 'test')
const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

function open(url: string, options: Partial<DatabaseOptions> = {}): Database {
  const db = new Database(url, log, { max: 3, name: 'test', ...options })
  closing.push(() => db.close())
  return db
}

it('times and scores are read exactly in a database that is set to other formats', async () => {
  const name = new URL(database.url).pathname.slice(1)
  const admin = open(database.url)
  closing.push(() => admin.adhoc(`alter database ${name} reset all`))
  for (const setting of [
    "datestyle = 'German'",
    "timezone = 'Asia/Tokyo'",
    'extra_float_digits = 0',
  ]) {
    await admin.adhoc(`alter database ${name} set ${setting}`)
  }
  const [row] = await open(database.url).adhoc(
    `select timestamptz '2026-11-28 23:30:00.5+00' as at, date '2026-11-28'::text as day,
       0.1::float8 + 0.2::float8 as score, (timestamptz '2026-11-28 23:30+00')::date::text as today`,
  )
  expect(row).toEqual({
    at: new Date('2026-11-28T23:30:00.500Z'),
    day: '2026-11-28',
    score: 0.1 + 0.2,
    today: '2026-11-28',
  })
})

describe('behind a pooler that refuses startup parameters', () => {
  let pooler: Server
  let url: string

  beforeAll(async () => {
    const socketDir = new URL(database.url).searchParams.get('host') as string
    pooler = await startPooler(join(socketDir, '.s.PGSQL.5432'))
    const { port } = pooler.address() as { port: number }
    const name = new URL(database.url).pathname
    url = `postgresql://rewardops@127.0.0.1:${port}${name}?sslmode=disable`
  })
  afterAll(() => pooler?.close())

  it('refuses the same parameters as PgBouncer', async () => {
    const refused = connectSession(`${url}&options=-c%20enable_seqscan%3Doff`)
    await expect(refused).rejects.toThrow('unsupported startup parameter: options')
  })

  it('a pool applies its settings, also to pipelined statements', async () => {
    const db = open(url, { keyed: true, lazyCommits: true, statementTimeoutMs: 7_000, max: 1 })
    const [row] = await db.adhoc(
      `select current_setting('enable_seqscan') as seqscan, current_setting('plan_cache_mode') as plans,
         current_setting('synchronous_commit') as commits, current_setting('statement_timeout') as timeout,
         current_setting('application_name') as name`,
    )
    expect(row).toEqual({
      seqscan: 'off',
      plans: 'force_generic_plan',
      commits: 'off',
      timeout: '7s',
      name: 'test',
    })
    await db.adhoc('create table at_once (seqscan text)')
    const text = "insert into at_once values (current_setting('enable_seqscan'))"
    await db.atOnce([{ name: undefined, text, values: [] }])
    expect(await db.adhoc('select * from at_once')).toEqual([{ seqscan: 'off' }])
  })

  it('a list of statements that fails within its transaction leaves no aborted transaction', async () => {
    const db = open(url, { max: 1 })
    await expect(db.adhoc('begin; select 1 / 0; commit')).rejects.toThrow(/division by zero/)
    expect(await db.adhoc('select 1 as one')).toEqual([{ one: 1 }])
  })

  it('migrations, the listener and Prisma work', async () => {
    expect(await migrate(url)).toEqual([])
    const heard: string[] = []
    const listener = new Listener(url, log, { batchEnded: (id) => heard.push(id) }, () => {})
    await listener.start()
    closing.push(() => listener.close())
    const db = open(url)
    await db.adhoc("select pg_notify('rewardops', 'x1')")
    await waitFor('the notification', () => heard.includes('1'))
    const prisma = openPrisma(db)
    expect(await prisma.server.count()).toBe(0)
    await expect(
      prisma.$transaction([prisma.server.count(), prisma.pool.count()]),
    ).resolves.toEqual([0, 0])
  })
})

describe('pipelined statements', () => {
  it('leave the connection usable, whether they fail or not', async () => {
    const db = open(database.url, { max: 1 })
    await db.adhoc('create table numbers (n int primary key deferrable initially deferred)')
    const insert = (n: number) => ({
      name: 'insert-number',
      text: 'insert into numbers values ($1)',
      values: [n],
    })
    const pid = async () => (await db.adhoc('select pg_backend_pid() as pid'))[0]
    const before = await pid()
    await db.atOnce([insert(1), insert(2)])
    await expect(
      db.atOnce([insert(3), { ...insert(4), text: 'no sql', name: 'no' }]),
    ).rejects.toMatchObject({
      code: '42601',
    })
    // The constraint is deferred to the commit.
    await expect(db.atOnce([insert(2)])).rejects.toMatchObject({ code: '23505' })
    await db.transaction((client) => client.query(insert(5)))
    expect(await db.adhoc('select n from numbers order by n')).toEqual([
      { n: 1 },
      { n: 2 },
      { n: 5 },
    ])
    expect(await pid()).toEqual(before)
  })

  it('a statement that fails keeps its connection', async () => {
    const db = open(database.url, { max: 1 })
    const pid = async () => (await db.adhoc('select pg_backend_pid() as pid'))[0]
    const before = await pid()
    await expect(db.adhoc('no sql')).rejects.toMatchObject({ code: '42601' })
    expect(await pid()).toEqual(before)
  })
})

it('a server that accepts the connection but never answers is given up', async () => {
  const silent = createServer().listen(0, '127.0.0.1')
  closing.push(() => silent.close())
  await new Promise((resolve) => silent.once('listening', resolve))
  const { port } = silent.address() as { port: number }
  const sockets: Socket[] = []
  silent.on('connection', (socket) => sockets.push(socket))
  closing.push(() => {
    for (const socket of sockets) socket.destroy()
  })
  const url = `postgresql://a@127.0.0.1:${port}/b?sslmode=disable`
  const failure = await connectSession(url, { connectTimeoutMs: 100 }).catch(
    (error: unknown) => error,
  )
  expect(isConnectionLoss(failure)).toBe(true)
})

describe('a connection that is cut off silently', () => {
  const links: { client: Socket; postgres: Socket }[] = []
  let gateway: Server
  let url: string

  beforeAll(async () => {
    const socketDir = new URL(database.url).searchParams.get('host') as string
    gateway = createServer((client) => {
      const postgres = dial(join(socketDir, '.s.PGSQL.5432'))
      links.push({ client, postgres })
      client.on('error', () => {})
      relay(client, postgres, Buffer.alloc(0))
    }).listen(0, '127.0.0.1')
    await new Promise((resolve) => gateway.once('listening', resolve))
    const { port } = gateway.address() as { port: number }
    url = `postgresql://rewardops@127.0.0.1:${port}${new URL(database.url).pathname}?sslmode=disable`
  })
  afterAll(() => gateway?.close())

  const silence = () => {
    for (const { client, postgres } of links.splice(0)) {
      client.unpipe(postgres)
      postgres.unpipe(client)
      closing.push(() => {
        client.destroy()
        postgres.destroy()
      })
    }
  }
  const statement = { name: 'one', text: 'select $1::int', values: [1] }
  it.each<[string, (db: Database) => Promise<unknown>]>([
    ['a statement', (db) => db.adhoc('select 1')],
    ['a transaction', (db) => db.transaction((client) => client.query('select 1'))],
    ['a pipeline', (db) => db.atOnce([statement, statement])],
  ])('is closed when %s is unanswered for too long', async (_, work) => {
    const db = open(url, { max: 1, queryTimeoutMs: 1_000 })
    await work(db)
    silence()
    const startedAt = performance.now()
    const failure = await work(db).catch((error: unknown) => error)
    expect(performance.now() - startedAt).toBeGreaterThan(950)
    expect(isConnectionLoss(failure)).toBe(true)
    await work(db)
  })

  itInFullRun('is not confused with one whose statements are each answered in time', async () => {
    const db = open(url, { max: 1, queryTimeoutMs: 2_000 })
    const pid = async () => (await db.adhoc('select pg_backend_pid() as pid'))[0]
    const before = await pid()
    for (let n = 0; n < 3; n++) await db.adhoc('select pg_sleep(0.9)')
    await new Promise((resolve) => setTimeout(resolve, 2_500))
    expect(await pid()).toEqual(before)
  })
})

describe('a connection slot', () => {
  let limited: TestDatabase
  let url: string

  beforeAll(async () => {
    limited = await createTestDatabase({ template: null })
    const admin = await connectSession(limited.url)
    await admin.query('drop role if exists limited')
    await admin.query('create role limited login connection limit 2')
    await admin.query(`alter database ${new URL(limited.url).pathname.slice(1)} owner to limited`)
    await admin.end()
    url = limited.url.replace(/rewardops:[^@]*@/, 'limited@')
  })
  afterAll(async () => {
    await limited?.drop()
    const admin = await connectSession(database.url)
    await admin.query('drop role if exists limited')
    await admin.end()
  })

  async function occupy(): Promise<pg.Client[]> {
    // Connections of the previous test may still be closing.
    const clients = [
      await connectSession(url, { slotWaitMs: 10_000 }),
      await connectSession(url, { slotWaitMs: 10_000 }),
    ]
    closing.push(() => Promise.all(clients.map((client) => client.end())))
    return clients
  }

  it('shortage is recognized by the messages of Postgres and poolers', async () => {
    await occupy()
    const refusal = await connectSession(url).catch((error: unknown) => error)
    expect(isTooManyConnections(refusal)).toBe(true)
    expect(isConnectionLoss(refusal)).toBe(true)
    for (const message of [
      'sorry, too many clients already',
      'remaining connection slots are reserved for roles with the SUPERUSER attribute',
      'no more connections allowed (max_client_conn)',
      'query_wait_timeout',
    ]) {
      expect(isTooManyConnections(new Error(message))).toBe(true)
    }
    expect(isTooManyConnections(new Error('password authentication failed'))).toBe(false)
  })

  it('shortage makes callers share the pool’s connections', async () => {
    const db = open(url, { max: 8, slotWaitMs: 30_000 })
    const rows = await Promise.all(
      Array.from({ length: 40 }, (_, n) => db.adhoc<{ n: number }>('select $1::int as n', [n])),
    )
    expect(rows.map(([row]) => row?.n)).toEqual(Array.from({ length: 40 }, (_, n) => n))
    expect(db.pool.totalCount).toBeLessThanOrEqual(2)
  })

  it('is awaited, and used once it is free', async () => {
    const [first] = await occupy()
    const db = open(url, WORKER_POOL)
    const answers = Promise.all(
      Array.from({ length: 20 }, () => db.adhoc<{ n: number }>('select 1 as n')),
    )
    let isOver = false
    void answers.then(() => {
      isOver = true
    })
    // When a connection is refused, the pool lowers its maximum.
    await waitFor(
      'a refusal',
      () => (db.pool as unknown as { options: pg.PoolConfig }).options.max === 1,
    )
    expect(isOver).toBe(false)
    await first?.end()
    expect(await answers).toHaveLength(20)
  })

  it('is awaited no longer than the limit; the request fails with an outage', async () => {
    await occupy()
    const db = open(url, { slotWaitMs: 300 })
    const failure = await db.adhoc('select 1').catch((error: unknown) => error)
    expect(failure).toMatchObject({ name: 'TooManyConnectionsError', code: '53300' })
    expect(isConnectionLoss(failure)).toBe(true)
  })

  it('is awaited at the start', async () => {
    const [first, second] = await occupy()
    const options = { databaseUrl: url, dataDir: '/proc/nowhere', log }
    const refused = openDatabase({ ...options, slotWaitMs: 0 })
    await expect(refused).rejects.toThrow(/too many connections.*a server takes up to 12/)
    const opening = openDatabase({ ...options, slotWaitMs: 30_000 })
    await first?.end()
    await second?.end()
    expect((await opening).applied).not.toEqual([])
  })
})

const ALLOWED = new Set([
  'user',
  'database',
  'application_name',
  'client_encoding',
  'datestyle',
  'timezone',
  'standard_conforming_strings',
])

/** A proxy in front of Postgres that refuses parameters unknown to PgBouncer and otherwise works in session mode. */
function startPooler(postgres: string): Promise<Server> {
  const server = createServer((client) => {
    let startup = Buffer.alloc(0)
    const read = (piece: Buffer) => {
      startup = Buffer.concat([startup, piece])
      if (startup.length < 4 || startup.length < startup.readUInt32BE(0)) return
      client.off('data', read)
      const words = startup.subarray(8, startup.readUInt32BE(0)).toString().split('\0')
      const unknown = words.find((word, n) => n % 2 === 0 && word !== '' && !ALLOWED.has(word))
      if (unknown === undefined) relay(client, dial(postgres), startup)
      else client.end(refusal(`unsupported startup parameter: ${unknown}`))
    }
    client.on('data', read)
    client.on('error', () => {})
  })
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)))
}

function relay(client: Socket, postgres: Socket, startup: Buffer): void {
  postgres.on('error', () => client.destroy())
  postgres.write(startup)
  client.pipe(postgres).pipe(client)
  client.on('close', () => postgres.destroy())
}

function refusal(message: string): Buffer {
  const fields = Buffer.from(`SFATAL\0C08P01\0M${message}\0\0`)
  const head = Buffer.from('E\0\0\0\0')
  head.writeUInt32BE(fields.length + 4, 1)
  return Buffer.concat([head, fields])
}
