import { zstdDecompressSync } from 'node:zlib'
import { parquetMetadata, parquetReadObjects, parquetSchema } from 'hyparquet'
import { expect, it } from 'vitest'
import type { Cell } from './export-cells.ts'
import { ParquetFile } from './parquet-file.ts'

const COLUMNS = ['uid', 'step', 'score', 'substituted', 'submittedAt', 'rewardExtraInfo.acc']

function write(pages: number, rows: number, uid: (row: number) => string) {
  const file = new ParquetFile(COLUMNS)
  const parts: Uint8Array[] = []
  for (let page = 0; page < pages; page++) {
    const numbers = Array.from({ length: rows }, (_, i) => page * rows + i)
    const of = (cell: (row: number) => Cell) => numbers.map(cell)
    parts.push(
      file.add([
        of(uid),
        of((row) => row),
        of((row) => (row % 3 === 0 ? null : row / 7)),
        of((row) => row % 2 === 0),
        of((row) => (row % 2 === 0 ? `2026-11-23T11:21:00.80799${row % 10}Z` : null)),
        of((row) => (row % 2 === 0 ? 'true' : null)),
      ]),
    )
  }
  parts.push(file.end())
  const bytes = Buffer.concat(parts)
  return { buffer: bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length), parts }
}

const read = (file: ArrayBuffer) =>
  parquetReadObjects({
    file,
    compressors: { ZSTD: (bytes) => zstdDecompressSync(bytes) },
    parsers: { timestampFromMicroseconds: (micros) => micros },
  })

it('values are read back with their types, times to the microsecond', async () => {
  const { buffer } = write(1, 9, (row) => `q-${row}`)
  const rows = await read(buffer)
  expect(rows).toHaveLength(9)
  expect(rows[8]).toEqual({
    ...{ uid: 'q-8', step: 8, score: 8 / 7, substituted: true, 'rewardExtraInfo.acc': 'true' },
    submittedAt: BigInt(Date.parse('2026-11-23T11:21:00.807Z')) * 1_000n + 998n,
  })
  expect(rows[3]).toMatchObject({ score: null, submittedAt: null, 'rewardExtraInfo.acc': null })
  const types = parquetSchema(parquetMetadata(buffer)).children.map(({ element }) => [
    ...[element.name, element.type, element.converted_type],
  ])
  expect(types).toEqual([
    ['uid', 'BYTE_ARRAY', 'UTF8'],
    ['step', 'INT32', undefined],
    ['score', 'DOUBLE', undefined],
    ['substituted', 'BOOLEAN', undefined],
    ['submittedAt', 'INT64', 'TIMESTAMP_MICROS'],
    ['rewardExtraInfo.acc', 'BYTE_ARRAY', 'UTF8'],
  ])
})

it('row groups are written as soon as they are full, so that memory does not grow with the file', async () => {
  const long = 'x'.repeat(1 << 20)
  const { buffer, parts } = write(40, 1, (row) => `${row} ${long}`)
  const groups = parquetMetadata(buffer).row_groups.map(({ num_rows }) => Number(num_rows))
  expect(groups).toEqual([16, 16, 8])
  expect(parts.flatMap(({ length }, page) => (length > 4 ? [page] : []))).toEqual([15, 31, 40])
  const rows = await read(buffer)
  expect(rows.map(({ step }) => step)).toEqual(Array.from({ length: 40 }, (_, i) => i))
})

it('a file without rows has its columns', async () => {
  const { buffer } = write(0, 0, String)
  expect(await read(buffer)).toEqual([])
  expect(parquetSchema(parquetMetadata(buffer)).children).toHaveLength(6)
})
