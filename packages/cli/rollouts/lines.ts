import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { pipeline } from 'node:stream'
import { createGunzip } from 'node:zlib'

/** A line of a text file or a record of a CSV, without its line end. */
export interface NumberedLine {
  /** From 1. */
  number: number
  text: string
  /** The error of an unreadable line; null for a readable line. An unreadable line has an empty `text`. */
  problem: string | null
}

export class RolloutFileError extends Error {
  readonly path: string
  /** From 1; null when the problem concerns the whole file. */
  readonly line: number | null

  constructor(path: string, line: number | null, what: string) {
    super(`${path}${line === null ? '' : `:${line}`}: ${what}`)
    this.name = 'RolloutFileError'
    this.path = path
    this.line = line
  }
}

/** A rollout has at most a few hundred kilobytes, so a line above this limit means that the file is not JSON Lines. */
const MAX_LINE_BYTES = 64 * 1024 * 1024
const READ_BYTES = 256 * 1024
const LF = 10
const CR = 13
const QUOTE = 34

export interface ReadLinesOptions {
  quotes?: boolean
  /** Called with the file's bytes, before decompression. */
  onBytes?: (bytes: Buffer) => void
}

/**
 * Skips blank lines and decompresses gzipped files. Lines end at LF or CRLF only, whereas `node:readline` also ends
 * them at U+2028 and U+2029, which JSON allows inside a string and which real rollouts contain.
 * @throws RolloutFileError when the file cannot be read or has a line over 64 MiB
 */
export async function* readLines(
  path: string,
  { quotes = false, onBytes }: ReadLinesOptions = {},
): AsyncGenerator<NumberedLine> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  let parts: Buffer[] = []
  let partBytes = 0
  let ends = 0
  let firstLine = 1
  let inQuotes = false

  const take = (last: Buffer): NumberedLine | null => {
    const bytes = parts.length === 0 ? last : Buffer.concat([...parts, last])
    parts = []
    partBytes = 0
    const number = firstLine
    firstLine = ends + 1
    let text: string
    try {
      text = decoder.decode(bytes.at(-1) === CR ? bytes.subarray(0, -1) : bytes)
    } catch {
      return { number, text: '', problem: 'is not UTF-8 text' }
    }
    if (number === 1 && text.startsWith('\ufeff')) text = text.slice(1)
    return text.trim() === '' ? null : { number, text, problem: null }
  }

  try {
    for await (const chunk of bytesOf(path, onBytes)) {
      let from = 0
      let quote = quotes ? chunk.indexOf(QUOTE) : -1
      const passQuotes = (until: number) => {
        for (; quote !== -1 && quote < until; quote = chunk.indexOf(QUOTE, quote + 1)) {
          inQuotes = !inQuotes
        }
      }
      for (let end = chunk.indexOf(LF); end !== -1; end = chunk.indexOf(LF, end + 1)) {
        ends += 1
        passQuotes(end)
        if (inQuotes) continue
        const line = take(chunk.subarray(from, end))
        from = end + 1
        if (line !== null) yield line
      }
      passQuotes(chunk.length)
      if (from < chunk.length) {
        parts.push(from === 0 ? chunk : Buffer.from(chunk.subarray(from)))
        partBytes += chunk.length - from
        if (partBytes > MAX_LINE_BYTES) {
          throw new RolloutFileError(
            path,
            firstLine,
            quotes
              ? 'is longer than 64 MiB; a quote that opens there is not closed'
              : 'is longer than 64 MiB; expected JSON Lines, one object per line',
          )
        }
      }
    }
  } catch (error) {
    if (error instanceof RolloutFileError) throw error
    const code = (error as NodeJS.ErrnoException).code
    if (code === undefined) throw error
    throw new RolloutFileError(
      path,
      null,
      code === 'ENOENT'
        ? 'no such file'
        : code.startsWith('Z_')
          ? 'is a broken gzip file'
          : `cannot be read (${code})`,
    )
  }
  if (parts.length > 0) {
    const line = take(Buffer.alloc(0))
    if (line !== null) yield line
  }
}

/** Reads a file's first four bytes after decompression, as Latin-1; `signature` is empty if the file is unreadable. */
export async function signatureOf(path: string): Promise<{ signature: string; isGzip: boolean }> {
  try {
    for await (const bytes of bytesOf(path, undefined)) {
      return { signature: bytes.toString('latin1', 0, 4), isGzip: await isGzip(path) }
    }
  } catch {
    // The error is reported when the lines are read.
  }
  return { signature: '', isGzip: false }
}

async function* bytesOf(
  path: string,
  onBytes: ((bytes: Buffer) => void) | undefined,
): AsyncGenerator<Buffer> {
  const packed = await isGzip(path)
  const file = createReadStream(path, { highWaterMark: READ_BYTES })
  if (onBytes) file.on('data', (chunk) => onBytes(chunk as Buffer))
  // `pipeline` returns the decompressing stream; reading it also throws the errors of the file stream.
  const bytes = packed ? pipeline(file, createGunzip({ chunkSize: READ_BYTES }), () => {}) : file
  try {
    yield* bytes as AsyncIterable<Buffer>
  } finally {
    file.destroy()
    bytes.destroy()
  }
}

async function isGzip(path: string): Promise<boolean> {
  const file = await open(path)
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(2), 0, 2, 0)
    return bytesRead === 2 && buffer[0] === 0x1f && buffer[1] === 0x8b
  } finally {
    await file.close()
  }
}
