import { closeSync, fstatSync, openSync, readSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'

/** CPU time that a Postgres backend spent on one protocol message, which parses, binds or executes a statement. */
export interface StatementCpu {
  pid: number
  cpuUs: number
  statement: string
}

const READ_EVERY_MS = 50

/**
 * Makes every later connection log the CPU time of each message. The settings are set on all roles, because the
 * service's command-line settings disable statement logs and override the configuration file.
 */
export async function logStatementCpu(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url, application_name: 'account' })
  await client.connect()
  try {
    await client.query('alter role all set log_statement_stats = on')
    await client.query('alter role all set log_min_error_statement = error')
  } finally {
    await client.end()
  }
}

/** Follows the log file of the embedded Postgres across renames, and reads the statements' CPU times. */
export class StatementLog {
  readonly #path: string
  #fd: number
  #at: number
  #stopped = false
  #pieces: string[] = []
  readonly #following: Promise<void>

  constructor(dataDir: string) {
    this.#path = join(dataDir, 'postgres.log')
    this.#fd = openSync(this.#path, 'r')
    this.#at = fstatSync(this.#fd).size
    this.#following = this.#follow()
  }

  async stop(): Promise<StatementCpu[]> {
    this.#stopped = true
    await this.#following
    closeSync(this.#fd)
    return parseStatementLog(this.#pieces.join(''))
  }

  async #follow(): Promise<void> {
    while (!this.#stopped) {
      this.#read()
      await sleep(READ_EVERY_MS)
    }
    this.#read()
  }

  #read(): void {
    for (;;) {
      this.#readToEnd()
      if (statSync(this.#path, { throwIfNoEntry: false })?.ino === fstatSync(this.#fd).ino) return
      // The log file was renamed. Lines may have been added to the old file since the last reading.
      this.#readToEnd()
      closeSync(this.#fd)
      this.#fd = openSync(this.#path, 'r')
      this.#at = 0
    }
  }

  #readToEnd(): void {
    const size = fstatSync(this.#fd).size
    if (size <= this.#at) return
    const bytes = Buffer.alloc(size - this.#at)
    const read = readSync(this.#fd, bytes, 0, bytes.length, this.#at)
    this.#at += read
    this.#pieces.push(bytes.toString('latin1', 0, read))
  }
}

const HEAD = /^\S+ \S+ \S+ \[(\d+)\] ([A-Z]+): {2}(.*)$/
const USAGE = /^\t!\t(\d+\.\d+) s user, (\d+\.\d+) s system, /

/** Parses statements from Postgres's log written with log_statement_stats. */
export function parseStatementLog(text: string): StatementCpu[] {
  const found: StatementCpu[] = []
  let current: { pid: number; cpuUs: number; statement: string[] | null } | null = null
  const end = () => {
    if (current === null) return
    const { pid, cpuUs, statement } = current
    found.push({ pid, cpuUs, statement: (statement ?? []).join(' ').trim() })
    current = null
  }
  for (const line of text.split('\n')) {
    const [, pid, severity, message = ''] = HEAD.exec(line) ?? []
    if (severity === 'LOG') {
      end()
      if (/ STATISTICS$/.test(message)) current = { pid: Number(pid), cpuUs: 0, statement: null }
    } else if (current !== null && severity === 'STATEMENT') {
      current.statement = [message]
    } else if (current !== null && severity === undefined) {
      if (current.statement !== null) current.statement.push(line.trim())
      const usage = USAGE.exec(line)
      if (usage && current.statement === null) {
        current.cpuUs = (Number(usage[1]) + Number(usage[2])) * 1e6
      }
    }
  }
  end()
  return found
}
