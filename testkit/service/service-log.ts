import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'

export interface LogLine {
  /** pino's level: 30 info, 40 warn, 50 error; null if the logger did not write the line. */
  level: number | null
  msg: string
  raw: string
}

const ERROR_LEVEL = 50

/** The log of a service over all its restarts: JSON lines of the server, its workers and its ingest thread. */
export class ServiceLog {
  readonly lines: LogLine[] = []
  /** Number of open streams. The stream of an ended process may still have data. */
  #open = 0

  read(stream: Readable): void {
    this.#open++
    const lines = createInterface({ input: stream })
    lines.on('line', (raw) => this.lines.push(parse(raw)))
    lines.on('close', () => this.#open--)
  }

  get isOpen(): boolean {
    return this.#open > 0
  }

  find(text: string, from = 0): LogLine[] {
    return this.lines.slice(from).filter((line) => line.msg.includes(text))
  }

  /**
   * Unexpected lines: errors, and lines that the logger did not write, such as stacks of unhandled errors and Node's
   * warnings. Lines containing one of `expected` are excluded.
   */
  problems(expected: readonly string[] = []): string[] {
    return this.lines
      .filter((line) => line.level === null || line.level >= ERROR_LEVEL)
      .map((line) => line.raw)
      .filter((raw) => raw.trim() !== '' && !expected.some((text) => raw.includes(text)))
  }

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
    // The logger did not write this line.
  }
  return { level: null, msg: raw, raw }
}
