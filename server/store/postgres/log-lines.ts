import { appendFileSync, renameSync, statSync } from 'node:fs'
import type { Logger } from '../../log.ts'

/** Size at which a new log file is begun. One old file is kept, so the log takes at most twice this. */
const MAX_BYTES = 16 * 1024 * 1024

/** A log line with the default log_line_prefix: `2026-11-20 23:40:19.121 UTC [5781] LOG:  message`. */
const LINE = /^\S+ \S+ \S+ \[\d+\] ([A-Z]+):\s+(.*)$/

type Level = 'debug' | 'warn' | 'error'

/**
 * The log level and message of a line of Postgres's log. An ERROR belongs to a failed statement, whose sender received
 * it. A FATAL ends one connection; during a stop or start it is expected.
 * @returns null for a continuation line (DETAIL, HINT, …)
 */
export function classifyLine(line: string): { level: Level; message: string } | null {
  const [, severity, message = ''] = LINE.exec(line) ?? []
  switch (severity) {
    case 'PANIC':
      return { level: 'error', message }
    case 'FATAL': {
      const expected = /^the database system is |due to administrator command/.test(message)
      return { level: expected ? 'debug' : 'warn', message }
    }
    case 'WARNING':
      return { level: 'warn', message }
    case 'LOG': {
      // A crash of a backend ends all connections, but Postgres reports the crash only at level LOG.
      const crash = /^server process \(PID \d+\) was terminated|not properly shut down/.test(
        message,
      )
      return { level: crash ? 'warn' : 'debug', message }
    }
    case 'DETAIL':
    case 'HINT':
    case 'CONTEXT':
    case 'STATEMENT':
    case undefined:
      return null
    default:
      return { level: 'debug', message }
  }
}

/** Receives Postgres's log: writes all of it to a file and relevant lines to the service's log. */
export class PostgresLog {
  readonly #file: string
  readonly #log: Logger
  #bytes: number
  #rest = ''

  constructor(file: string, log: Logger) {
    this.#file = file
    this.#log = log
    this.#bytes = statSync(file, { throwIfNoEntry: false })?.size ?? 0
  }

  write(piece: string): string[] {
    this.#append(piece)
    const lines = (this.#rest + piece).split('\n')
    this.#rest = lines.pop() ?? ''
    for (const line of lines) {
      const entry = classifyLine(line)
      if (entry) this.#log[entry.level](`Postgres: ${entry.message}`)
    }
    return lines
  }

  #append(piece: string): void {
    try {
      if (this.#bytes > MAX_BYTES) {
        renameSync(this.#file, `${this.#file}.1`)
        this.#bytes = 0
      }
      appendFileSync(this.#file, piece, { mode: 0o600 })
      this.#bytes += Buffer.byteLength(piece)
    } catch {
      // A log that cannot be written, for example on a full disk, must not stop Postgres.
    }
  }
}
