import { createReadStream } from 'node:fs'
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from 'node:zlib'
import {
  type AsyncBuffer,
  asyncBufferFromFile,
  type FileMetaData,
  parquetMetadataAsync,
  parquetReadObjects,
} from 'hyparquet'
import { RolloutFileError, signatureOf } from './lines.ts'
import { type JsonObject, parseJsonValue } from './parse-json.ts'

export interface ParquetRow {
  /** From 1. */
  number: number
  /** By column. Columns without a value are left out. */
  values: JsonObject
}

/** Maximum uncompressed size of the columns of a row group. All of these columns are in memory together. */
const MAX_GROUP_BYTES = 512 << 20

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

const READING = {
  compressors: {
    ZSTD: (bytes: Uint8Array) => zstdDecompressSync(bytes),
    GZIP: (bytes: Uint8Array) => gunzipSync(bytes),
    BROTLI: (bytes: Uint8Array) => brotliDecompressSync(bytes),
  },
  parsers: {
    // hyparquet's own parser removes byte order marks and replaces invalid bytes.
    stringFromBytes: (bytes: Uint8Array | undefined) => bytes && utf8.decode(bytes),
    jsonFromBytes: (bytes: Uint8Array | undefined) => bytes && parseJsonValue(utf8.decode(bytes)),
  },
}

/** @throws RolloutFileError for a gzipped or encrypted Parquet file, which cannot be read */
export async function isParquet(path: string): Promise<boolean> {
  const { signature, isGzip } = await signatureOf(path)
  if (signature === 'PARE') throw new RolloutFileError(path, null, 'is an encrypted Parquet file')
  if (signature === 'PAR1' && isGzip) {
    throw new RolloutFileError(path, null, 'is a gzipped Parquet file; decompress it with gunzip')
  }
  return signature === 'PAR1'
}

/** @throws RolloutFileError when the file is damaged */
export async function parquetColumns(path: string): Promise<string[]> {
  const { metadata } = await openParquet(path)
  const columns: string[] = []
  // The schema is a tree in depth-first order.
  for (let at = 1; at < metadata.schema.length; at += sizeOf(metadata, at)) {
    columns.push(metadata.schema[at]?.name ?? '')
  }
  return columns
}

function sizeOf({ schema }: FileMetaData, at: number): number {
  let size = 1
  for (let left = schema[at]?.num_children ?? 0; left > 0; left--) {
    size += sizeOf({ schema } as FileMetaData, at + size)
  }
  return size
}

/** @throws RolloutFileError when the file is damaged */
export async function parquetRowCount(path: string): Promise<number> {
  return Number((await openParquet(path)).metadata.num_rows)
}

/**
 * Yields the rows as JSON values. 64-bit integers are numbers (strings beyond 2^53), times are ISO strings, and NaN and
 * infinities are null. One row group is in memory at a time.
 * @param onBytes receives the file's bytes; the bytes of a row group arrive before its rows
 * @throws RolloutFileError when the file is damaged, or a value cannot be expressed in JSON
 */
export async function* readParquetRows(
  path: string,
  columns: string[],
  onBytes?: (bytes: Buffer) => void,
): AsyncGenerator<ParquetRow> {
  const { file, metadata } = await openParquet(path)
  let rowStart = 0
  let reported = 0
  const report = async (until: number) => {
    if (onBytes === undefined || until <= reported) return
    const bytes = createReadStream(path, { start: reported, end: until - 1 })
    for await (const chunk of bytes) onBytes(chunk as Buffer)
    reported = until
  }
  for (const [at, group] of metadata.row_groups.entries()) {
    const chunks = group.columns.flatMap(({ meta_data: chunk }) => chunk ?? [])
    const bytes = chunks
      .filter(({ path_in_schema: [name] }) => columns.includes(name ?? ''))
      .reduce((sum, chunk) => sum + Number(chunk.total_uncompressed_size), 0)
    if (bytes > MAX_GROUP_BYTES) {
      throw new RolloutFileError(
        path,
        null,
        `its row group ${at + 1} has ${bytes >> 20} MiB, and at most ${MAX_GROUP_BYTES >> 20} MiB can be read; write smaller row groups (pyarrow: row_group_size=10_000)`,
      )
    }
    const offsets = chunks.map((chunk) =>
      Number(chunk.dictionary_page_offset ?? chunk.data_page_offset),
    )
    const ends = chunks.map((chunk, i) => (offsets[i] ?? 0) + Number(chunk.total_compressed_size))
    await report(Math.min(file.byteLength, Math.max(0, ...ends)))
    const rowEnd = rowStart + Number(group.num_rows)
    const rows = await damagedOr(path, () =>
      parquetReadObjects({ file, metadata, columns, rowStart, rowEnd, ...READING }),
    )
    for (const [i, row] of rows.entries()) {
      const number = rowStart + i + 1
      const values: JsonObject = {}
      for (const [name, value] of Object.entries(row)) {
        const json = jsonOf(value, () => new RolloutFileError(path, number, `${name}: ${NO_JSON}`))
        if (json !== null) values[name] = json
      }
      yield { number, values }
    }
    rowStart = rowEnd
  }
  await report(file.byteLength)
}

const NO_JSON = 'is neither text nor a number, but bytes; write it as a string column'

function jsonOf(value: unknown, refusal: () => Error): unknown {
  if (value === undefined || value === null) return null
  if (typeof value === 'number') return Number.isFinite(value) ? value : null
  if (typeof value === 'bigint')
    return Number.isSafeInteger(Number(value)) ? Number(value) : String(value)
  if (value instanceof Date) return value.toISOString()
  if (value instanceof Uint8Array) throw refusal()
  if (Array.isArray(value) || ArrayBuffer.isView(value)) {
    return Array.from(value as ArrayLike<unknown>, (item) => jsonOf(item, refusal))
  }
  if (typeof value === 'object') {
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [key, jsonOf(item, refusal)]),
    )
  }
  return value
}

async function openParquet(path: string): Promise<{ file: AsyncBuffer; metadata: FileMetaData }> {
  return await damagedOr(path, async () => {
    const file = await asyncBufferFromFile(path)
    return { file, metadata: await parquetMetadataAsync(file) }
  })
}

async function damagedOr<T>(path: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read()
  } catch (error) {
    const { message } = error as Error
    throw new RolloutFileError(path, null, `is a Parquet file that cannot be read: ${message}`)
  }
}
