import { createReadStream } from 'node:fs'
import { type FileHandle, open, rename, stat } from 'node:fs/promises'
import type { ExportFormat } from '../../../server/contract/export.ts'
import { CliError, EXIT } from '../exit-codes.ts'
import type { TextSink } from '../output.ts'
import { sampleOfRow } from './last-sample.ts'
import { RowTracker } from './row-tracker.ts'

/** Where an export is written to. */
export interface ExportTarget {
  /** Rows that are there from before, a CSV's header included. */
  readonly before: { rows: number; lastRow: Buffer | null }
  write(bytes: Buffer): Promise<void>
  /** All is there. */
  finish(): Promise<void>
  /** It ends early; what is written stays. Gives what to tell of it, or null. */
  leave(): Promise<string | null>
}

/** Standard output. */
export class StreamTarget implements ExportTarget {
  readonly before = { rows: 0, lastRow: null }
  readonly #stream: NodeJS.WritableStream

  constructor(stream: TextSink) {
    this.#stream = stream as unknown as NodeJS.WritableStream
  }

  async write(bytes: Buffer): Promise<void> {
    if (this.#stream.write(bytes)) return
    await new Promise((resolve) => this.#stream.once('drain', resolve))
  }

  async finish(): Promise<void> {}

  async leave(): Promise<null> {
    return null
  }
}

/** How a file that is there already is dealt with. */
export interface FileOptions {
  resume: boolean
  force: boolean
  /** Of a CSV that has not all of them. */
  columns?: readonly string[] | undefined
}

/**
 * A file: written beside its place as FILE.part, and put there when it is complete, so that a file under its name is always
 * whole. A resumed one goes on after its last whole row.
 */
export class FileTarget implements ExportTarget {
  readonly path: string
  readonly before: { rows: number; lastRow: Buffer | null }
  readonly #file: FileHandle
  #position: number

  private constructor(path: string, file: FileHandle, before: RowTracker | null) {
    this.path = path
    this.#file = file
    this.before = { rows: before?.rows ?? 0, lastRow: before?.lastRow ?? null }
    this.#position = before?.bytes ?? 0
  }

  /**
   * @returns null for a file that is complete already, when resuming
   * @throws CliError when something is in the way
   */
  static async open(
    path: string,
    format: ExportFormat,
    { resume, force, columns }: FileOptions,
  ): Promise<FileTarget | null> {
    const part = partOf(path)
    const [isThere, partIsThere] = await Promise.all([exists(path), exists(part)])
    if (isThere && !force) {
      if (resume && !partIsThere) return null
      throw new CliError(EXIT.badInput, `${path} is there already; --force replaces it.`)
    }
    if (partIsThere && !force && !resume) {
      throw new CliError(
        EXIT.badInput,
        `${part} is there from an export that did not end; --resume goes on with it, --force begins anew.`,
      )
    }
    let rows: RowTracker | null = null
    if (partIsThere && resume) rows = await wholeRows(part, format, columns)
    try {
      const file = await open(part, rows === null ? 'w' : 'r+')
      await file.truncate(rows?.bytes ?? 0)
      return new FileTarget(path, file, rows)
    } catch (error) {
      throw unwritable(part, error)
    }
  }

  async write(bytes: Buffer): Promise<void> {
    try {
      for (let at = 0; at < bytes.length; ) {
        const { bytesWritten } = await this.#file.write(
          bytes,
          at,
          bytes.length - at,
          this.#position,
        )
        at += bytesWritten
        this.#position += bytesWritten
      }
    } catch (error) {
      throw unwritable(this.path, error)
    }
  }

  async finish(): Promise<void> {
    await this.#file.sync()
    await this.#file.close()
    await rename(partOf(this.path), this.path)
  }

  async leave(): Promise<string> {
    await this.#file.close().catch(() => {})
    return `What arrived is in ${partOf(this.path)}; --resume goes on with it.`
  }
}

function partOf(path: string): string {
  return `${path}.part`
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null)) !== null
}

/** The rows of a file that are whole; a file whose last row is none of the format is another's. */
async function wholeRows(
  part: string,
  format: ExportFormat,
  columns: readonly string[] | undefined,
): Promise<RowTracker | null> {
  const rows = new RowTracker(format === 'csv')
  for await (const chunk of createReadStream(part, { highWaterMark: 1 << 20 })) {
    rows.push(chunk as Buffer)
  }
  if (rows.lastRow === null) return null
  try {
    // A header alone is written anew.
    return sampleOfRow(rows.lastRow, format, columns) === null ? null : rows
  } catch {
    throw new CliError(
      EXIT.badInput,
      `${part} is not an export as ${format}: its last row names no sample. --force begins anew.`,
    )
  }
}

function unwritable(path: string, error: unknown): CliError {
  const { code, message } = error as NodeJS.ErrnoException
  const why =
    code === 'ENOENT' ? 'there is no such folder' : code === 'ENOSPC' ? 'the disk is full' : message
  return new CliError(EXIT.badInput, `${path} cannot be written: ${why}.`)
}
