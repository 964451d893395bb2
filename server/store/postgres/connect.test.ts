import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, connect as dial, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { itInFullRun } from '../../../testkit/service/full-run.ts'
import { createLogger } from '../../log.ts'
import { type OpenDatabaseOptions, openDatabase } from './connect.ts'
import { isTransactionPooler } from './pooler.ts'
import { inspectProcess } from './processes.ts'
import { createTestDatabase, type TestDatabase } from './test-database.ts'

const log = createLogger('silent', 'test')
let database: TestDatabase
let dir: string
const cleanups: (() => unknown)[] = []

beforeEach(async () => {
  database = await createTestDatabase({ template: null })
  dir = mkdtempSync(join(tmpdir(), 'connect-'))
  mkdirSync(join(dir, 'migrations/20260101_a'), { recursive: true })
  writeFileSync(join(dir, 'migrations/20260101_a/migration.sql'), 'create table a (n int)')
})

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
  await database.drop()
  rmSync(dir, { recursive: true, force: true })
})

const open = (databaseUrl: string | null, options: Partial<OpenDatabaseOptions> = {}) =>
  openDatabase({
    databaseUrl,
    dataDir: join(dir, 'data'),
    log,
    migrationsDir: join(dir, 'migrations'),
    waitMs: 0,
    ...options,
  })

async function query(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}

test('without DATABASE_URL: repeated starts open the embedded database, unless it is from before the first release', async () => {
  const first = await open(null)
  expect(first.applied).toEqual(['20260101_a'])
  expect(first.embedded?.state).toBe('up')
  await query(first.url, 'insert into a values (7)')
  await first.close()
  expect(first.embedded?.state).toBe('stopped')
  const second = await open(null)
  expect(second.applied).toEqual([])
  expect(await query(second.url, 'table a')).toEqual([{ n: 7 }])
  await second.close()
  await expect(open(null, { migrationsDir: undefined })).rejects.toThrow(
    `it has migration 20260101_a), and its tables cannot be upgraded. Remove the folder ${join(dir, 'data/postgres')}`,
  )
})

itInFullRun('a failed migration stops the embedded Postgres', async () => {
  writeFileSync(join(dir, 'migrations/20260101_a/migration.sql'), 'create nonsense')
  await expect(open(null)).rejects.toThrow(/20260101_a failed at line 1/)
  writeFileSync(join(dir, 'migrations/20260101_a/migration.sql'), 'create table a (n int)')
  await (await open(null)).close()
})

test('a database from before the first release is refused, and the error names the database to replace', async () => {
  await (await open(database.url)).close()
  await expect(open(database.url, { migrationsDir: undefined })).rejects.toThrow(
    /Set DATABASE_URL to an empty database, or drop and recreate \/.+\/test_/,
  )
})

test('with DATABASE_URL: opens that database, and nothing is started or written to disk', async () => {
  const opened = await open(database.url)
  expect(opened).toMatchObject({ url: database.url, embedded: null, applied: ['20260101_a'] })
  await opened.close()
  await expect(open(database.url, { dataDir: '/proc/nowhere' })).resolves.toBeTruthy()
})

test.each([
  ['mysql://root@localhost/x', 'bad_url', /not a connection string of the form postgresql:/],
  ['rewardops', 'bad_url', /not a connection string of the form postgresql:/],
  ['postgresql://u:secret@127.0.0.1:9/x', 'unreachable', /^DATABASE_URL \(127.0.0.1:9\/x\): /],
])('%s is refused', async (url, code, message) => {
  const failure = open(url)
  await expect(failure).rejects.toMatchObject({ code })
  await expect(failure).rejects.toThrow(message)
  await expect(failure).rejects.not.toThrow(/secret/)
})

test('a database that does not exist is refused with a remedy', async () => {
  const url = new URL(database.url)
  url.pathname = '/nowhere'
  await expect(open(url.href)).rejects.toThrow(/"nowhere" does not exist\. Create the database/)
})

test('a database that cannot be written to is refused', async () => {
  const name = new URL(database.url).pathname.slice(1)
  await query(database.url, `alter database ${name} set default_transaction_read_only = on`)
  await expect(open(database.url)).rejects.toMatchObject({ code: 'read_only' })
})

test('an old Postgres and a pooler in transaction mode are refused', async () => {
  const { socketDir } = socketOf(database.url)
  const old = await fakePooler(socketDir, { version: '13.2', version_num: 130_002 })
  await expect(open(old)).rejects.toThrow(/is Postgres 13\.2; rewardops needs 14 or newer/)
  await expect(open(await fakePooler(socketDir))).rejects.toMatchObject({
    code: 'transaction_pooler',
  })
  // A second pooler is used, because the first one may still end the transactions of its clients.
  expect(await isTransactionPooler(await fakePooler(socketDir))).toBe(true)
  expect(await isTransactionPooler(database.url)).toBe(false)
})

test('waits for a database that is starting', async () => {
  const { socketDir } = socketOf(database.url)
  const front = createServer((client) => {
    const back = dial(join(socketDir, '.s.PGSQL.5432'))
    client.pipe(back).pipe(client)
    for (const socket of [client, back]) socket.on('error', () => {})
  })
  await listen(front)
  const { port } = front.address() as { port: number }
  await new Promise((resolve) => front.close(resolve))
  const opening = open(tcp(port), { waitMs: 30_000 })
  // At least one attempt is refused, because nothing listens yet.
  await expect(open(tcp(port))).rejects.toMatchObject({ code: 'unreachable' })
  await listen(front, port)
  const opened = await opening
  expect(opened.applied).toEqual(['20260101_a'])
})

function socketOf(url: string): { socketDir: string } {
  return { socketDir: new URL(url).searchParams.get('host')! }
}

const tcp = (port: number) =>
  `postgresql://rewardops@127.0.0.1:${port}${new URL(database.url).pathname}?sslmode=disable`

function listen(server: ReturnType<typeof createServer>, port = 0): Promise<void> {
  cleanups.push(() => {
    server.close()
  })
  return new Promise((resolve) => server.listen(port, '127.0.0.1', resolve))
}

/**
 * A fake PgBouncer in transaction mode, for simple queries: six real connections serve all clients, and a connection
 * may serve another client after each transaction. With `claims`, the pooler instead answers every query with that
 * version of Postgres.
 */
async function fakePooler(
  socketDir: string,
  claims?: { version: string; version_num: number },
): Promise<string> {
  // Backends are used round robin, so that a client's next transaction reaches another backend.
  const backends = await Promise.all(Array.from({ length: 6 }, () => backend(socketDir)))
  const idle = [...backends]
  const server = createServer((client) => {
    client.on('error', () => {})
    let mine: Backend | undefined
    let started = false
    let buffer = Buffer.alloc(0)
    client.on('close', () => {
      mine?.serve(packet('Q', Buffer.from('rollback\0')), () => idle.push(mine!))
    })
    client.on('data', (piece) => {
      buffer = Buffer.concat([buffer, piece])
      for (;;) {
        const head = started ? 1 : 0
        if (buffer.length < head + 4) return
        const length = head + buffer.readUInt32BE(head)
        if (buffer.length < length) return
        const message = buffer.subarray(0, length)
        buffer = buffer.subarray(length)
        if (!started) {
          started = true
          client.write(
            Buffer.concat([
              packet('R', Buffer.from([0, 0, 0, 0])),
              packet('K', Buffer.from([0, 1, 226, 64, 0, 0, 0, 1])), // an invented pid
              packet('Z', Buffer.from('I')),
            ]),
          )
        } else if (message[0] === 0x58) {
          client.end()
        } else if (message[0] === 0x51 && claims) {
          client.write(answer(claims))
        } else if (message[0] === 0x51) {
          mine ??= idle.shift()
          if (!mine) return
          mine.serve(message, (reply, status) => {
            client.write(reply)
            if (status !== 'I') return
            idle.push(mine!)
            mine = undefined
          })
        }
      }
    })
  })
  await listen(server)
  cleanups.push(() => {
    for (const { socket } of backends) socket.destroy()
  })
  return tcp((server.address() as { port: number }).port)
}

interface Backend {
  socket: Socket
  serve(query: Buffer, done: (reply: Buffer, status: string) => void): void
}

/** A real connection that relays one query at a time, up to its ReadyForQuery. */
async function backend(socketDir: string): Promise<Backend> {
  const socket = dial(join(socketDir, '.s.PGSQL.5432'))
  socket.on('error', () => {})
  let reply = Buffer.alloc(0)
  let done: ((reply: Buffer, status: string) => void) | undefined
  socket.on('data', (piece) => {
    reply = Buffer.concat([reply, piece])
    // ReadyForQuery is the last message of every answer: Z, length 5, status.
    const tail = reply.subarray(-6)
    if (!tail.subarray(0, 5).equals(Buffer.from([0x5a, 0, 0, 0, 5]))) return
    const whole = reply
    reply = Buffer.alloc(0)
    done?.(whole, String.fromCharCode(tail[5]!))
  })
  const serve: Backend['serve'] = (query, then) => {
    done = then
    socket.write(query)
  }
  const name = new URL(database.url).pathname.slice(1)
  const startup = Buffer.from(`\0\x03\0\0user\0rewardops\0database\0${name}\0\0`, 'latin1')
  const length = Buffer.alloc(4)
  length.writeUInt32BE(startup.length + 4)
  await new Promise<void>((resolve) => serve(Buffer.concat([length, startup]), () => resolve()))
  return { socket, serve }
}

function packet(type: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5)
  head.write(type, 'latin1')
  head.writeUInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}

function answer({ version, version_num }: { version: string; version_num: number }): Buffer {
  const columns: [string, number, string][] = [
    ['version', 25, version],
    ['version_num', 23, String(version_num)],
    ['read_only', 16, 'f'],
  ]
  const int16 = (n: number) => Buffer.from([n >> 8, n & 255])
  const int32 = (n: number) => Buffer.from([n >>> 24, (n >> 16) & 255, (n >> 8) & 255, n & 255])
  return Buffer.concat([
    packet(
      'T',
      Buffer.concat([
        int16(columns.length),
        ...columns.map(([name, oid]) =>
          Buffer.concat([
            ...[Buffer.from(`${name}\0`), int32(0), int16(0), int32(oid)],
            ...[int16(-1), int32(-1), int16(0)],
          ]),
        ),
      ]),
    ),
    packet(
      'D',
      Buffer.concat([
        int16(columns.length),
        ...columns.flatMap(([, , value]) => [int32(value.length), Buffer.from(value)]),
      ]),
    ),
    packet('C', Buffer.from('SELECT 1\0')),
    packet('Z', Buffer.from('I')),
  ])
}

test('a zombie counts as not running', async () => {
  // `exec` replaces the shell with a program that never reaps the ended child, so the child stays a zombie.
  const parent = spawn('sh', ['-c', 'sleep 0.2 & echo $!; exec sleep 600'])
  cleanups.push(() => parent.kill())
  const [pid] = await once(parent.stdout, 'data')
  await expect.poll(() => inspectProcess(Number(pid))?.running, { timeout: 15_000 }).toBe(false)
})
