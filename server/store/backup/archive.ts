import { type FileHandle, open } from 'node:fs/promises'

/**
 * Thrown if a backup cannot be written, read or restored. The message gives the reason and the remedy. Nothing was
 * changed.
 */
export class BackupError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'BackupError'
  }
}

export interface Entry {
  name: string
  /** Position of the first byte of the file in the archive. */
  offset: number
  bytes: number
}

const BLOCK = 512
/** Two empty blocks end an archive. */
const END = Buffer.alloc(2 * BLOCK)
const MAGIC = 'ustar\x0000'

/** Offset and length of the header fields that this program uses (POSIX.1-1988, ustar). */
const FIELDS = {
  name: [0, 100],
  mode: [100, 8],
  uid: [108, 8],
  gid: [116, 8],
  size: [124, 12],
  mtime: [136, 12],
  checksum: [148, 8],
  type: [156, 1],
  magic: [257, 8],
} as const

export class ArchiveWriter {
  readonly #file: FileHandle

  constructor(file: FileHandle) {
    this.#file = file
  }

  /** Appends a file. `name` has at most 100 ASCII characters. */
  async add(name: string, content: Buffer): Promise<void> {
    const padding = Buffer.alloc(-content.length & (BLOCK - 1))
    await this.#append(headerOf(name, content.length), content, padding)
  }

  /** Ends the archive and waits until it is on the disk. */
  async end(): Promise<void> {
    await this.#append(END)
    await this.#file.sync()
  }

  async #append(...parts: Buffer[]): Promise<void> {
    for (const part of parts) {
      for (let written = 0; written < part.length; ) {
        written += (await this.#file.write(part, written)).bytesWritten
      }
    }
  }
}

function headerOf(name: string, bytes: number): Buffer {
  const header = Buffer.alloc(BLOCK)
  const put = (field: keyof typeof FIELDS, text: string) => header.write(text, FIELDS[field][0])
  const octal = (value: number, digits: number) => `${value.toString(8).padStart(digits, '0')}\0`
  put('name', name)
  put('mode', octal(0o600, 7))
  put('uid', octal(0, 7))
  put('gid', octal(0, 7))
  put('size', octal(bytes, 11))
  put('mtime', octal(Math.floor(Date.now() / 1_000), 11))
  put('type', '0')
  put('magic', MAGIC)
  put('checksum', `${octal(checksumOf(header), 6)} `)
  return header
}

/** The sum of the header's bytes, with spaces in place of the checksum. */
function checksumOf(header: Buffer): number {
  const [from, length] = FIELDS.checksum
  let sum = 32 * length
  for (const [at, byte] of header.entries()) if (at < from || at >= from + length) sum += byte
  return sum
}

export class ArchiveReader {
  readonly #file: FileHandle
  readonly path: string

  private constructor(path: string, file: FileHandle) {
    this.path = path
    this.#file = file
  }

  /** @throws BackupError if the file cannot be opened */
  static async open(path: string): Promise<ArchiveReader> {
    try {
      return new ArchiveReader(path, await open(path, 'r'))
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      throw new BackupError(`${path} cannot be read (${code}). Name the file of a backup.`, error)
    }
  }

  /**
   * Lists the files without reading their contents.
   * @throws BackupError if the archive is incomplete, damaged or not a backup
   */
  async entries(): Promise<Entry[]> {
    const size = (await this.#file.stat()).size
    const entries: Entry[] = []
    for (let at = 0; ; ) {
      if (at + BLOCK > size) throw this.#cutOff(at, size)
      const header = await this.#read(at, BLOCK)
      if (header.every((byte) => byte === 0)) {
        if (entries.length === 0) throw this.#isNone()
        return entries
      }
      const entry = this.#parse(header, at)
      at = entry.offset + Math.ceil(entry.bytes / BLOCK) * BLOCK
      if (at > size) throw this.#cutOff(at, size)
      entries.push(entry)
    }
  }

  read({ offset, bytes }: Entry): Promise<Buffer> {
    return this.#read(offset, bytes)
  }

  async close(): Promise<void> {
    await this.#file.close()
  }

  #parse(header: Buffer, at: number): Entry {
    const text = (field: keyof typeof FIELDS) => {
      const [from, length] = FIELDS[field]
      return header.toString('latin1', from, from + length).replace(/\0.*$/s, '')
    }
    if (text('magic') !== 'ustar' || Number.parseInt(text('checksum'), 8) !== checksumOf(header)) {
      throw at === 0 ? this.#isNone() : this.#damaged(at)
    }
    return { name: text('name'), offset: at + BLOCK, bytes: Number.parseInt(text('size'), 8) }
  }

  async #read(at: number, bytes: number): Promise<Buffer> {
    const buffer = Buffer.allocUnsafe(bytes)
    for (let read = 0; read < bytes; ) {
      const { bytesRead } = await this.#file.read(buffer, read, bytes - read, at + read)
      if (bytesRead === 0) throw this.#cutOff(at + bytes, at + read)
      read += bytesRead
    }
    return buffer
  }

  #isNone(): BackupError {
    return new BackupError(
      `${this.path} is not a backup. Name a file that "npm run backup" has written.`,
    )
  }

  #damaged(at: number): BackupError {
    return new BackupError(`${this.path} is damaged at byte ${at}. Use another backup.`)
  }

  #cutOff(needed: number, size: number): BackupError {
    return size === 0
      ? this.#isNone()
      : new BackupError(
          `${this.path} is incomplete: it ends at byte ${size}, and needs at least ${needed}. ` +
            'The backup did not finish, or the file was not copied whole. Use another copy or another backup.',
        )
  }
}
