import { parentPort, workerData } from 'node:worker_threads'
import type { Cell } from './export-cells.ts'
import { ParquetFile } from './parquet-file.ts'

/** The names of the columns. */
export type ParquetThreadData = readonly string[]
/** Rows as columns of cells, or null after the last row. The reply to each message is the next bytes of the file. */
export type ToParquetThread = readonly (readonly Cell[])[] | null

const port = parentPort
if (port === null) throw new Error('parquet-thread.ts runs as a worker thread')
const file = new ParquetFile(workerData as ParquetThreadData)
port.on('message', (page: ToParquetThread) => {
  const bytes = page === null ? file.end() : file.add(page)
  port.postMessage(bytes, [bytes.buffer])
})
