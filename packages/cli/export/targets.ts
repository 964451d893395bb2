import { constants, createReadStream } from 'node:fs'
import { type FileHandle, open, rename, stat, unlink } from 'node:fs/promises'
import type { ExportFormat } from '../../../server/contract/export.ts'
import { CliError, EXIT } from '../exit-codes.ts'
import type { TextSink } from '../output.ts'
import { sampleOfRow } from './last-sample.ts'
import { RowTracker } from './row-tracker.ts'

export interface ExportTarget {
  /** Number of rows already in the target, including a CSV header, and the last row. */
  readonly before: { rows: number; lastRow: Buffer | null }
  write(bytes: Buffer): Promise<void>
  /** Discards the written data. Returns false if the target cannot do this. */
  restart(): Promise<boolean>
  finish(): Promise<void>
  /** Ends the export early and keeps the written rows. Returns a note for the user, or null. */
  leave(): Promise<string | null>
}

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

  async restart(): Promise<boolean> {
    return false
  }

  async finish(): Promise<void> {}

  async leave(): Promise<null> {
    return null
  }
}

export interface FileOptions {
  resume: boolean
  force: boolean
  columns?: readonly string[] | undefined
}

/**
 * A file, written as FILE.part and renamed when complete, so that a file under its final name is always complete. A
 * resumed export continues after the last complete row. An incomplete Parquet file cannot be read and is removed.
 */
export class FileTarget implements ExportTarget {
  readonly path: string
  readonly before: { rows: number; lastRow: Buffer | null }
  readonly #file: FileHandle
  readonly #format: ExportFormat
  #position: number

  private constructor(
    path: string,
    file: FileHandle,
    format: ExportFormat,
    before: RowTracker | null,
  ) {
    this.path = path
    this.#file = file
    this.#format = format
    this.before = { rows: before?.rows ?? 0, lastRow: before?.lastRow ?? null }
    this.#position = before?.bytes ?? 0
  }

  /**
   * @returns null when a resumed export is already complete
   * @throws CliError when a file exists that must not be replaced, or FILE.part cannot be written
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
      throw new CliError(EXIT.badInput, `${path} already exists; --force replaces it.`)
    }
    if (partIsThere && !force && !resume) {
      throw new CliError(
        EXIT.badInput,
        format === 'parquet'
          ? `${part} exists from an unfinished export; --force starts over.`
          : `${part} exists from an unfinished export; --resume continues it, --force starts over.`,
      )
    }
    let rows: RowTracker | null = null
    if (partIsThere && resume) rows = await wholeRows(part, format, columns)
    try {
      // Only the user can read the file. A symbolic link that another user placed here is not followed.
      const create = rows === null ? constants.O_CREAT | constants.O_TRUNC : 0
      const file = await open(part, constants.O_RDWR | constants.O_NOFOLLOW | create, 0o600)
      await file.truncate(rows?.bytes ?? 0)
      return new FileTarget(path, file, format, rows)
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

  async restart(): Promise<boolean> {
    await this.#file.truncate(0)
    this.#position = 0
    return true
  }

  async finish(): Promise<void> {
    await this.#file.sync()
    await this.#file.close()
    await rename(partOf(this.path), this.path)
  }

  async leave(): Promise<string | null> {
    await this.#file.close().catch(() => {})
    if (this.#format !== 'parquet') {
      return `The rows received are in ${partOf(this.path)}; --resume continues from there.`
    }
    await unlink(partOf(this.path))
    return null
  }
}

function partOf(path: string): string {
  return `${path}.part`
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null)) !== null
}

/**
 * Finds the complete rows of FILE.part. Returns null if it has none besides a CSV header. @throws CliError for a row of
 * another format
 */
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
    // If the file has only a header, the export starts over.
    return sampleOfRow(rows.lastRow, format, columns) === null ? null : rows
  } catch {
    throw new CliError(
      EXIT.badInput,
      `${part} is not an export as ${format}: its last row names no sample. --force starts over.`,
    )
  }
}

const WHY: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such folder',
  ENOSPC: 'the disk is full',
  ELOOP: 'it is a link',
}

function unwritable(path: string, error: unknown): CliError {
  const { code, message } = error as NodeJS.ErrnoException
  const why = WHY[code ?? ''] ?? message
  return new CliError(EXIT.badInput, `${path} cannot be written: ${why}.`)
}
