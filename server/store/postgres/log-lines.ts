import { appendFileSync, renameSync, statSync } from 'node:fs'
import type { Logger } from '../../log.ts'

/** One old file is kept beside the one being written to, so twice this on disk at most. */
const MAX_BYTES = 16 * 1024 * 1024

/** `2026-11-20 23:40:19.121 UTC [5781] LOG:  message`, as log_line_prefix is by default. */
const LINE = /^\S+ \S+ \S+ \[\d+\] ([A-Z]+):\s+(.*)$/

type Level = 'debug' | 'warn' | 'error'

/**
 * How much a line of Postgres's log matters to us, and its message. An ERROR is a statement's that
 * failed, and its sender was told. A FATAL ends one connection; those of a stop or a start are its course.
 * @returns null for a line that continues another (DETAIL, HINT, …)
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
      // A backend that crashed takes all connections with it; Postgres says so at level LOG.
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

/** Takes Postgres's log: all of it into a file, what matters into our own log as well. */
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

  /** Takes a piece of the log, cut anywhere; returns the whole lines it completed. */
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
