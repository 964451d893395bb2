import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { Logger } from '../../log.ts'
import { classifyLine, PostgresLog } from './log-lines.ts'

const at = '2026-11-20 23:40:19.121 UTC [5781]'

test.each([
  ['PANIC:  could not write to file', 'error'],
  ['FATAL:  sorry, too many clients already', 'warn'],
  ['FATAL:  terminating connection due to administrator command', 'debug'],
  ['FATAL:  the database system is starting up', 'debug'],
  ['WARNING:  out of disk', 'warn'],
  ['ERROR:  duplicate key value violates unique constraint', 'debug'],
  ['LOG:  server process (PID 7) was terminated by signal 9: Killed', 'warn'],
  ['LOG:  database system is ready to accept connections', 'debug'],
])('%s has level %s', (line, level) => {
  expect(classifyLine(`${at} ${line}`)).toEqual({ level, message: line.replace(/^\w+: {2}/, '') })
})

test.each(['DETAIL:  Key (id)=(1) already exists.', 'HINT:  try', 'STATEMENT:  insert'])(
  '%s is a continuation line',
  (line) => {
    expect(classifyLine(`${at} ${line}`)).toBeNull()
    expect(classifyLine('\tcontinued')).toBeNull()
  },
)

test('lines are complete however the log is split into chunks, and the file stays bounded', () => {
  const dir = mkdtempSync(join(tmpdir(), 'log-'))
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }))
  const file = join(dir, 'postgres.log')
  // A log of an earlier run, as a sparse file.
  writeFileSync(file, '')
  truncateSync(file, 17 * 1024 * 1024)
  const said: string[] = []
  const log = { warn: (message: string) => said.push(message), debug() {}, error() {} }
  const postgres = new PostgresLog(file, log as unknown as Logger)
  expect(postgres.write(`${at} WARNING:  out of `)).toEqual([])
  expect(postgres.write('disk\nnext')).toEqual([`${at} WARNING:  out of disk`])
  expect(said).toEqual(['Postgres: out of disk'])
  expect(readdirSync(dir)).toEqual(['postgres.log', 'postgres.log.1'])
  expect(statSync(`${file}.1`).size).toBe(17 * 1024 * 1024)
  expect(readFileSync(file, 'utf8')).toBe(`${at} WARNING:  out of disk\nnext`)
})
