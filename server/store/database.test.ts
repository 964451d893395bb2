import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createLogger } from '../log.ts'
import { type Client, Database, inTransaction, isConnectionLoss, isOutage } from './database.ts'
import { testDatabaseForFile } from './postgres/test-database.ts'
import { PoolBusyError } from './session.ts'

const database = testDatabaseForFile()
let db: Database
let outside: Database

beforeAll(async () => {
  const log = createLogger('silent', 'test')
  // One connection, so that the test can see whether it is reused.
  db = new Database(database.url, log, { max: 1, name: 'test' })
  outside = new Database(database.url, log, { max: 1, name: 'outside' })
  await db.adhoc('create table written (n int)')
})
afterAll(() => Promise.all([db?.close(), outside?.close()]))

const pid = async () => (await db.adhoc<{ pid: number }>('select pg_backend_pid() as pid'))[0]?.pid
const written = async () =>
  (await outside.adhoc<{ n: number }>('select n from written')).map(({ n }) => n)
const write = (client: Client, n: number) =>
  client.query('insert into written values ($1)', [n]).then(() => n)
const wrong = () => Promise.reject(new Error('wrong'))
async function cut(client: Client): Promise<void> {
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
  await outside.adhoc('select pg_terminate_backend($1, 5000)', [rows[0]?.pid])
}

it('a caller that waits too long for a busy pool gets PoolBusyError, and the database counts as reachable', async () => {
  const log = createLogger('silent', 'test')
  const pages = new Database(database.url, log, { max: 1, name: 'pages', queueTimeoutMs: 500 })
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  const { promise: isHeld, resolve: markHeld } = Promise.withResolvers<void>()
  const held = pages.holding(() => {
    markHeld()
    return released
  })
  await isHeld
  const error = await pages.adhoc('select 1').then(
    () => null,
    (thrown) => thrown,
  )
  expect(error).toBeInstanceOf(PoolBusyError)
  expect(isOutage(error)).toBe(false)
  release()
  await held
  expect(await pages.adhoc('select 1 as n')).toEqual([{ n: 1 }])
  await pages.close()
})

describe('a transaction', () => {
  it('is committed and returns the result of its work', async () => {
    expect(await db.transaction((client) => write(client, 1))).toBe(1)
    expect(await written()).toEqual([1])
  })

  it('is rolled back by an error of the program or the database, and the connection is kept', async () => {
    const before = await pid()
    const ours = db.transaction((client) => write(client, 2).then(wrong))
    await expect(ours).rejects.toThrow('wrong')
    const theirs = db.transaction((client) => write(client, 3).then(() => client.query('no sql')))
    await expect(theirs).rejects.toMatchObject({ code: '42601' })
    expect(await written()).toEqual([1])
    expect(await pid()).toBe(before)
  })

  it('throws its first error, and a lost connection is not reused', async () => {
    const before = await pid()
    const lost = db.transaction(async (client) => {
      await write(client, 4)
      await cut(client)
      throw new Error('wrong')
    })
    await expect(lost).rejects.toThrow('wrong')
    expect(await pid()).not.toBe(before)
    expect(await written()).toEqual([1])
  })

  it('on a borrowed connection leaves it usable', async () => {
    await db.holding(async (client) => {
      await expect(inTransaction(client, () => write(client, 5).then(wrong))).rejects.toThrow()
      await inTransaction(client, () => write(client, 6))
      const lost = inTransaction(client, () => cut(client).then(() => write(client, 7)))
      const error = await lost.catch((thrown: unknown) => thrown)
      expect(isConnectionLoss(error)).toBe(true)
    })
    expect(await written()).toEqual([1, 6])
  })
})

describe('a held connection', () => {
  const take = (client: Client) => client.query('select pg_advisory_lock(1)')
  const isFree = async () =>
    (await outside.adhoc<{ free: boolean }>('select pg_try_advisory_xact_lock(1) as free'))[0]?.free

  it('is reused after successful work', async () => {
    const before = await pid()
    expect(await db.holding(async () => 'done')).toBe('done')
    expect(await pid()).toBe(before)
  })

  it('is closed after any error, and its locks are released', async () => {
    const before = await pid()
    await expect(db.holding((client) => take(client).then(wrong))).rejects.toThrow('wrong')
    expect(await pid()).not.toBe(before)
    // The new connection may be made before the old backend is gone.
    await expect.poll(isFree).toBe(true)
  })
})

it.each([
  ['the database system is starting up', true],
  ['server login has been failing, try again later (server_login_retry)', true],
  ['server conn crashed?', true],
  ['unsupported startup parameter: options', false],
  ['no such user: rewardops', false],
  ['password authentication failed', false],
])('PgBouncer: %s', (message, isLoss) => {
  const error = Object.assign(new Error(message), { code: '08P01', severity: 'FATAL' })
  expect(isConnectionLoss(error)).toBe(isLoss)
})

it.each([
  ['FATAL', '25P03', true],
  ['FATAL', '40001', true],
  ['PANIC', 'XX000', true],
  ['FATAL', '28P01', false],
  ['FATAL', '3D000', false],
  ['ERROR', '23505', false],
  ['ERROR', '40001', false],
])('%s %s ends the connection: %s', (severity, code, isLoss) => {
  expect(isConnectionLoss(Object.assign(new Error('x'), { code, severity }))).toBe(isLoss)
})
