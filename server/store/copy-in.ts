import type { ClientBase } from 'pg'
import { type CopyStreamQuery, from as copyFrom } from 'pg-copy-streams'
import type { Client } from './database.ts'

/** A running COPY. Blocks of the binary format are written as they are made, with back-pressure. */
export class CopyIn {
  readonly #stream: CopyStreamQuery
  #error: Error | null = null

  /**
   * Begins `copy <target> from stdin`, e.g. `sample (batch_id, idx)`. The client is busy until the COPY ends. `frozen`:
   * the rows are stored as if vacuumed, which Postgres allows only in the transaction that creates the table.
   */
  constructor(client: ClientBase, target: string, frozen = false) {
    const options = frozen ? 'format binary, freeze' : 'format binary'
    this.#stream = client.query(copyFrom(`copy ${target} from stdin (${options})`))
    this.#stream.on('error', (error) => {
      this.#error = error
    })
  }

  /** Resolves when the connection accepts more data. Throws Postgres's error if it refused the data. */
  async write(block: Buffer): Promise<void> {
    if (this.#error) throw this.#error
    if (this.#stream.write(block)) return
    await new Promise<void>((resolve, reject) => {
      const settle = (error?: Error) => {
        this.#stream.off('drain', settle)
        this.#stream.off('error', settle)
        if (error) reject(error)
        else resolve()
      }
      this.#stream.once('drain', settle)
      this.#stream.once('error', settle)
    })
  }

  /** Resolves when Postgres has stored everything. */
  async end(): Promise<void> {
    if (this.#error) throw this.#error
    await new Promise<void>((resolve, reject) => {
      this.#stream.once('finish', resolve)
      this.#stream.once('error', reject)
      this.#stream.end()
    })
  }

  /** The number of stored rows; valid after `end`. */
  get rows(): number {
    return this.#stream.rowCount
  }

  /** Cancels the COPY; the caller rolls the transaction back. */
  async abort(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#stream.once('close', resolve)
      this.#stream.once('error', () => resolve())
      this.#stream.destroy()
      setTimeout(resolve, 1_000).unref()
    })
  }
}

export async function copyIn(client: Client, target: string, blocks: Buffer[]): Promise<void> {
  const copy = new CopyIn(client, target)
  for (const block of blocks) await copy.write(block)
  await copy.end()
}
