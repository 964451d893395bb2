import { createReadStream } from 'node:fs'

/** A line of a text file, without its line end. `number` counts from 1, blank lines included. */
export interface NumberedLine {
  number: number
  text: string
}

/** What is wrong with a rollout file, and where. The message begins with the file, and the line where there is one. */
export class RolloutFileError extends Error {
  readonly path: string
  /** Counts from 1; null when the whole file is meant. */
  readonly line: number | null

  constructor(path: string, line: number | null, what: string) {
    super(`${path}${line === null ? '' : `:${line}`}: ${what}`)
    this.name = 'RolloutFileError'
    this.path = path
    this.line = line
  }
}

/** A rollout is at most some hundred kilobytes; a longer line is a file that is not JSON Lines. */
const MAX_LINE_BYTES = 64 * 1024 * 1024

/**
 * The file's lines, one at a time, blank ones left out. Lines end at LF or CRLF only: `node:readline` also
 * ends them at U+2028 and U+2029, which JSON allows inside a string and which real rollouts contain.
 * @throws RolloutFileError when the file cannot be read, is not UTF-8 or holds a line over 64 MiB.
 */
export async function* readLines(path: string): AsyncGenerator<NumberedLine> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  let parts: Buffer[] = []
  let partBytes = 0
  let number = 0

  const decode = (bytes: Buffer): string => {
    number += 1
    let text: string
    try {
      text = decoder.decode(bytes)
    } catch {
      throw new RolloutFileError(path, number, 'is not UTF-8 text')
    }
    return number === 1 && text.startsWith('\ufeff') ? text.slice(1) : text
  }

  const stream = createReadStream(path, { highWaterMark: 256 * 1024 })
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      let from = 0
      for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, from)) {
        parts.push(chunk.subarray(from, end))
        const text = decode(parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts))
        parts = []
        partBytes = 0
        from = end + 1
        if (text.trim() !== '') yield { number, text }
      }
      if (from < chunk.length) {
        parts.push(chunk.subarray(from))
        partBytes += chunk.length - from
        if (partBytes > MAX_LINE_BYTES) {
          throw new RolloutFileError(
            path,
            number + 1,
            'is longer than 64 MiB; JSON Lines is expected, one object a line',
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
      code === 'ENOENT' ? 'there is no such file' : `cannot be read (${code})`,
    )
  } finally {
    stream.destroy()
  }
  if (parts.length > 0) {
    const text = decode(Buffer.concat(parts))
    if (text.trim() !== '') yield { number, text }
  }
}
