import { zstdCompressSync } from 'node:zlib'
import type { SchemaElement } from 'hyparquet'
import { ByteWriter, ParquetWriter } from 'hyparquet-writer'
import { type ColumnType, columnType } from '../contract/csv-cells.ts'
import type { Cell } from './export-cells.ts'

const GROUP_ROWS = 50_000
const GROUP_CHARS = 16 << 20
/**
 * A row group of a slow export ends after this time, in ms, so that its reader and proxies get data before they time
 * out.
 */
const GROUP_MS = 10_000

const TYPES: Readonly<Record<ColumnType, Omit<SchemaElement, 'name'>>> = {
  integer: { type: 'INT32' },
  number: { type: 'DOUBLE' },
  boolean: { type: 'BOOLEAN' },
  text: { type: 'BYTE_ARRAY', converted_type: 'UTF8', logical_type: { type: 'STRING' } },
  time: {
    type: 'INT64',
    converted_type: 'TIMESTAMP_MICROS',
    logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MICROS' },
  },
}

/**
 * Encodes samples as a Parquet file, row group by row group, so memory use does not grow with the file. Every column
 * has one type in every file. Values without a fixed type are text, as in CSV, because the column types are fixed
 * before the first row is written. Pages are compressed with zstd, which Arrow, DuckDB, Polars and Spark read.
 */
export class ParquetFile {
  readonly #columns: readonly string[]
  readonly #bytes = new ByteWriter(1 << 20)
  readonly #file: ParquetWriter
  #waiting: Cell[][]
  #waitingChars = 0
  #groupBegunAt = performance.now()

  constructor(columns: readonly string[]) {
    this.#columns = columns
    this.#waiting = columns.map(() => [])
    this.#file = new ParquetWriter({
      writer: this.#bytes,
      codec: 'ZSTD',
      compressors: { ZSTD: (page) => zstdCompressSync(page) },
      schema: [
        { name: 'sample', num_children: columns.length },
        ...columns.map((name) => ({
          name,
          repetition_type: 'OPTIONAL' as const,
          ...TYPES[columnType(name)],
        })),
      ],
    })
  }

  /**
   * Adds rows, given as columns of cells. Returns the bytes that are complete, or no bytes while a row group is still
   * being filled.
   */
  add(page: readonly (readonly Cell[])[]): Uint8Array<ArrayBuffer> {
    for (const [at, cells] of page.entries()) {
      const waiting = this.#waiting[at] as Cell[]
      for (const cell of cells) {
        waiting.push(cell)
        if (typeof cell === 'string') this.#waitingChars += cell.length
      }
    }
    const rows = this.#waiting[0]?.length ?? 0
    const isOld = performance.now() - this.#groupBegunAt > GROUP_MS
    if (isOld || rows >= GROUP_ROWS || this.#waitingChars >= GROUP_CHARS) this.#endGroup()
    return this.#take()
  }

  end(): Uint8Array<ArrayBuffer> {
    this.#endGroup()
    void this.#file.finish()
    return this.#take()
  }

  #endGroup(): void {
    const rows = this.#waiting[0]?.length ?? 0
    this.#groupBegunAt = performance.now()
    if (rows === 0) return
    void this.#file.write({
      rowGroupSize: rows,
      columnData: this.#columns.map((name, at) => {
        const cells = this.#waiting[at] as Cell[]
        return { name, data: columnType(name) === 'time' ? cells.map(microseconds) : cells }
      }),
    })
    this.#waiting = this.#columns.map(() => [])
    this.#waitingChars = 0
  }

  #take(): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(this.#bytes.buffer.slice(0, this.#bytes.index))
    this.#bytes.index = 0
    return bytes
  }
}

/**
 * Returns the microseconds since 1970 of a time such as `2026-11-23T11:21:00.807998Z`, or null if the cell is not a
 * text.
 */
function microseconds(cell: Cell): bigint | null {
  if (typeof cell !== 'string') return null
  return BigInt(Date.parse(`${cell.slice(0, 23)}Z`)) * 1_000n + BigInt(cell.slice(23, 26))
}
