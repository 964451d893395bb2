import { Worker } from 'node:worker_threads'
import { type Cell, cellsOf, type ExportPage } from './export-cells.ts'
import type { ParquetThreadData, ToParquetThread } from './parquet-thread.ts'

/** The texts that retention removes. CSV has `json:null` for them, to distinguish null from an empty text. */
const REMOVED = ['prompt', 'response']

/**
 * Encodes the pages of an export as Parquet in a separate thread, because a row group takes up to 0.5 s, during which
 * the event loop could answer no other call. The thread gets one page at a time.
 */
export class ParquetEncoder {
  readonly #columns: readonly string[]
  /** Null before the first page, because a HEAD request needs no thread. */
  #thread: Worker | null = null

  constructor(columns: readonly string[]) {
    this.#columns = columns
  }

  /** Adds the samples of a page. Returns the bytes of the file that are complete, which may be none. */
  page({ batch, rows, annotations }: ExportPage): Promise<Uint8Array> {
    const columns: Cell[][] = this.#columns.map(() => [])
    for (const row of rows) {
      const cells = cellsOf(this.#columns, batch, row, annotations.get(row.idx) ?? [])
      for (const [at, cell] of cells.entries()) {
        const name = this.#columns[at] as string
        columns[at]?.push(row.prompt === null && REMOVED.includes(name) ? null : cell)
      }
    }
    return this.#encode(columns)
  }

  end(): Promise<Uint8Array> {
    return this.#encode(null)
  }

  async close(): Promise<void> {
    await this.#thread?.terminate()
  }

  #start(): Worker {
    const thread = new Worker(new URL('./parquet-thread.ts', import.meta.url), {
      workerData: this.#columns satisfies ParquetThreadData,
      resourceLimits: { maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 32 },
    })
    return thread.on('error', () => {})
  }

  #encode(page: ToParquetThread): Promise<Uint8Array> {
    this.#thread ??= this.#start()
    const thread = this.#thread
    return new Promise((resolve, reject) => {
      const settle = () => {
        thread.off('message', done).off('error', failed).off('exit', ended)
      }
      const done = (bytes: Uint8Array) => {
        settle()
        resolve(bytes)
      }
      const failed = (error: Error) => {
        settle()
        reject(error)
      }
      const ended = () => failed(new Error('the Parquet thread ended'))
      thread.on('message', done).on('error', failed).on('exit', ended)
      thread.postMessage(page)
    })
  }
}
