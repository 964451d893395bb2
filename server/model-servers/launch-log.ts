import {
  appendFileSync,
  closeSync,
  existsSync,
  fstatSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  statSync,
} from 'node:fs'
import type { Readable } from 'node:stream'
import { maskSecrets } from './secrets.ts'

/** At this size the log is set aside as `<name>.log.1`, in place of the one set aside before. */
const ROTATE_AT_BYTES = 10 << 20
/** A line without an end is cut here. */
const LINE_LIMIT_CHARS = 16_384
/** Kept at hand, for the record of how the process ended. */
const LAST_LINES = 20
/** The end of a log is looked for in so much of it. */
const TAIL_BYTES = 1 << 20

/** What a launched process prints, line by line, secrets masked before anything is written. */
export class LaunchLog {
  readonly #file: string
  readonly #secrets: readonly string[]
  readonly #last: string[] = []
  #bytes: number

  constructor(file: string, secrets: readonly string[]) {
    this.#file = file
    this.#secrets = secrets
    this.#bytes = existsSync(file) ? statSync(file).size : 0
  }

  /** The last lines of this process. */
  get lastLines(): string[] {
    return [...this.#last]
  }

  /** Reads a stream to its end. */
  read(stream: Readable): void {
    let rest = ''
    stream.setEncoding('utf8')
    stream.on('data', (text: string) => {
      // A progress bar ends its lines with a carriage return.
      const lines = (rest + text).split(/\r\n|\n|\r/)
      rest = lines.pop() as string
      this.#write(lines)
      if (rest.length > LINE_LIMIT_CHARS) {
        this.#write([rest])
        rest = ''
      }
    })
    stream.on('end', () => {
      if (rest !== '') this.#write([rest])
    })
    // A broken pipe is the end of it.
    stream.on('error', () => {})
  }

  /** A line of our own. */
  note(text: string): void {
    this.#write([`[rewardops ${new Date().toISOString()}] ${text}`])
  }

  #write(lines: string[]): void {
    if (lines.length === 0) return
    const masked = lines.map((line) => maskSecrets(line.slice(0, LINE_LIMIT_CHARS), this.#secrets))
    this.#last.push(...masked.filter((line) => line.trim() !== ''))
    this.#last.splice(0, this.#last.length - LAST_LINES)
    const text = `${masked.join('\n')}\n`
    try {
      if (this.#bytes > ROTATE_AT_BYTES) {
        renameSync(this.#file, `${this.#file}.1`)
        this.#bytes = 0
      }
      appendFileSync(this.#file, text, { mode: 0o600 })
      this.#bytes += Buffer.byteLength(text)
    } catch {
      // A full disk must not end the server that fills it; what it says is lost.
    }
  }
}

/** The last lines of a log and, where it is short, of the one set aside before it; oldest first. */
export function tailOf(file: string, lines: number): string[] {
  const now = lastLines(file)
  const all = now.length < lines ? [...lastLines(`${file}.1`), ...now] : now
  return all.slice(-lines)
}

function lastLines(file: string): string[] {
  let text: string
  try {
    const { size } = statSync(file)
    text = size <= TAIL_BYTES ? readFileSync(file, 'utf8') : readEnd(file)
  } catch {
    return []
  }
  const lines = text.split('\n')
  if (lines.at(-1) === '') lines.pop()
  return lines
}

function readEnd(file: string): string {
  const fd = openSync(file, 'r')
  try {
    const { size } = fstatSync(fd)
    const buffer = Buffer.alloc(Math.min(size, TAIL_BYTES))
    const length = readSync(fd, buffer, 0, buffer.length, size - buffer.length)
    const text = buffer.subarray(0, length).toString('utf8')
    // The first line is most likely the rest of one.
    return text.slice(text.indexOf('\n') + 1)
  } finally {
    closeSync(fd)
  }
}
