import { expect, test } from 'vitest'
import { createLogger } from '../log.ts'
import { Database } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { type EndedSample, ResultWriter } from './result-writer.ts'

const database = testDatabaseForFile()

test('results that a stopping process cannot write are no error', async () => {
  const db = new Database(database.url, createLogger('silent', 'test'), { max: 1, name: 'test' })
  await db.close()
  const lines: string[] = []
  const log = {
    ...createLogger('silent', 'test'),
    warn: (_: unknown, text: string) => lines.push(`warn: ${text}`),
    error: (_: unknown, text: string) => lines.push(`error: ${text}`),
  } as unknown as ConstructorParameters<typeof ResultWriter>[2]
  const writer = new ResultWriter(db, 1, log, {
    statement: () => ({ name: undefined, text: 'select 1 as n', values: [] }),
  })
  const written = await new Promise<boolean>((settled) =>
    writer.add({ batchId: 1, index: 0, attemptLog: null, settled } as unknown as EndedSample, true),
  )
  expect(written).toBe(false)
  expect(lines).toEqual(['warn: results were not written before the stop'])
})

test('a flush is reported only if all its samples were still pending', async () => {
  const log = createLogger('silent', 'test')
  const db = new Database(database.url, log, { max: 1, name: 'test' })
  const reported: number[][] = []
  for (const pending of [0, 1, 2]) {
    const writer = new ResultWriter(db, 1, log, {
      statement: () => ({ name: undefined, text: `select ${pending} as n`, values: [] }),
      onCommitted: (samples) => reported.push([pending, samples.length]),
    })
    for (const index of [0, 1]) {
      const sample = { batchId: 1, index, attemptLog: null, settled: () => {} }
      writer.add(sample as unknown as EndedSample)
    }
    await writer.drain()
  }
  expect(reported).toEqual([[2, 2]])
  await db.close()
})

test('results whose report fails still count as written', async () => {
  const lines: string[] = []
  const log = {
    ...createLogger('silent', 'test'),
    error: (_: unknown, text: string) => lines.push(text),
  } as unknown as ConstructorParameters<typeof ResultWriter>[2]
  const db = new Database(database.url, createLogger('silent', 'test'), { max: 1, name: 'test' })
  const writer = new ResultWriter(db, 1, log, {
    statement: () => ({ name: undefined, text: 'select 1 as n', values: [] }),
    onCommitted: () => {
      throw new Error('the channel is closed')
    },
  })
  const written = await new Promise<boolean>((settled) =>
    writer.add({ batchId: 1, index: 0, attemptLog: null, settled } as unknown as EndedSample, true),
  )
  expect(written).toBe(true)
  expect(lines).toEqual(['committed results could not be reported'])
  await db.close()
})

test('an outage that another error follows does not last', async () => {
  const db = new Database(database.url, createLogger('silent', 'test'), { max: 1, name: 'test' })
  const calls: string[] = []
  const failures = ['57P03', '22012']
  const writer = new ResultWriter(db, 1, createLogger('silent', 'test'), {
    statement: () => {
      const code = failures.shift()
      throw Object.assign(new Error(`failed with ${code}`), { code })
    },
    onOutage: () => calls.push('outage'),
    onWritten: () => calls.push('over'),
  })
  const written = await new Promise<boolean>((settled) =>
    writer.add({ batchId: 1, index: 0, attemptLog: null, settled } as unknown as EndedSample, true),
  )
  expect(written).toBe(false)
  expect(calls).toEqual(['outage', 'over'])
  await db.close()
})

test('a result that cannot be written keeps no other result from being written', async () => {
  const log = createLogger('silent', 'test')
  const db = new Database(database.url, log, { max: 1, name: 'test' })
  const writer = new ResultWriter(db, 1, log, {
    statement: (_, samples) => ({
      name: undefined,
      // Divides by zero, and so fails, if one of the samples has index 5.
      text: `select count(1 / (i - 5))::int as n from unnest($1::int[]) i`,
      values: [samples.map(({ index }) => index)],
    }),
  })
  const written = await Promise.all(
    Array.from(
      { length: 9 },
      (_, index) =>
        new Promise<boolean>((settled) =>
          writer.add({ batchId: 1, index, attemptLog: null, settled } as unknown as EndedSample),
        ),
    ),
  )
  expect(written).toEqual(written.map((_, index) => index !== 5))
  await writer.drain()
  await db.close()
})
