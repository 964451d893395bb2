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
import { maskSecrets } from '../mask-secrets.ts'

/** Size at which the log is renamed to `<name>.log.1`, which replaces an older one. */
const ROTATE_AT_BYTES = 10 << 20
const MAX_LINE_CHARS = 16_384
/** Number of log lines that are kept in the record of the process's end. */
const LAST_LINES = 20
const TAIL_BYTES = 1 << 20

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

  get lastLines(): string[] {
    return [...this.#last]
  }

  read(stream: Readable): void {
    let rest = ''
    const longest = Math.max(1, ...this.#secrets.map((secret) => secret.length))
    stream.setEncoding('utf8')
    stream.on('data', (text: string) => {
      // Progress bars end their lines with a carriage return.
      const lines = (rest + text).split(/\r\n|\n|\r/)
      rest = lines.pop() as string
      this.#write(lines)
      if (rest.length > MAX_LINE_CHARS) {
        // The end may be the prefix of a secret, so it is kept until more text arrives.
        const masked = maskSecrets(rest, this.#secrets)
        const end = Math.max(0, masked.length - longest + 1)
        this.#write([masked.slice(0, end)])
        rest = masked.slice(end)
      }
    })
    stream.on('end', () => {
      if (rest !== '') this.#write([rest])
    })
    stream.on('error', () => {})
  }

  note(text: string): void {
    this.#write([`[rewardops ${new Date().toISOString()}] ${text}`])
  }

  #write(lines: string[]): void {
    if (lines.length === 0) return
    // Cutting a line before masking it could leave part of a secret.
    const masked = lines.map((line) => maskSecrets(line, this.#secrets).slice(0, MAX_LINE_CHARS))
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
      // A full disk must not end the launched server. The line is lost.
    }
  }
}

/** The last lines of a log, oldest first. If the log has too few, the rotated log supplies the rest. */
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
    // The first line is probably incomplete.
    return text.slice(text.indexOf('\n') + 1)
  } finally {
    closeSync(fd)
  }
}
