import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'

/** One line a process of the service wrote on its standard error. */
export interface LogLine {
  /** pino's number: 30 info, 40 warn, 50 error; null where the line is not one of the logger's. */
  level: number | null
  msg: string
  raw: string
}

const ERROR_LEVEL = 50

/** What a service said, over all its restarts: JSON lines of the server, its workers and its ingest thread. */
export class ServiceLog {
  readonly lines: LogLine[] = []
  /** Standard error is silent from a process's end on only when it is closed. */
  #open = 0

  /** Reads a process's standard error to its end. */
  read(stream: Readable): void {
    this.#open++
    const lines = createInterface({ input: stream })
    lines.on('line', (raw) => this.lines.push(parse(raw)))
    lines.on('close', () => this.#open--)
  }

  /** True while a process that writes here lives. */
  get isOpen(): boolean {
    return this.#open > 0
  }

  /** Lines from number `from` on whose message holds a text. */
  find(text: string, from = 0): LogLine[] {
    return this.lines.slice(from).filter((line) => line.msg.includes(text))
  }

  /**
   * What should not be there: errors, and everything that is not the logger's, as the stack of an error nobody
   * handled and Node's own warnings are. Lines whose text holds one of `expected` are left out.
   */
  problems(expected: readonly string[] = []): string[] {
    return this.lines
      .filter((line) => line.level === null || line.level >= ERROR_LEVEL)
      .map((line) => line.raw)
      .filter((raw) => raw.trim() !== '' && !expected.some((text) => raw.includes(text)))
  }

  /** The last lines, for the message of a failed start. */
  tail(count = 20): string {
    return this.lines
      .slice(-count)
      .map((line) => line.raw)
      .join('\n')
  }
}

function parse(raw: string): LogLine {
  try {
    const { level, msg } = JSON.parse(raw) as { level?: unknown; msg?: unknown }
    if (typeof level === 'number') return { level, msg: String(msg ?? ''), raw }
  } catch {
    // Not the logger's.
  }
  return { level: null, msg: raw, raw }
}
