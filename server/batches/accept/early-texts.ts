import { CopyIn } from '../../store/copy-in.ts'
import type { Client, Database } from '../../store/database.ts'
import { nextBatchId } from '../../store/sql/accept.ts'
import { stageImages } from '../../store/sql/images.ts'
import { currentTextBucket, textPartition } from '../../store/text-partitions.ts'
import type { AcceptContext, EarlyTexts } from './accept-batch.ts'
import { type BatchDraft, TEXT_COPY_COLUMNS } from './batch-draft.ts'

/** When the images in memory take this many bytes, they are sent to Postgres even if the body is not complete. */
const STAGED_BYTES = 16 << 20

/**
 * Sends the texts of a large body to Postgres while the rest of the body still arrives. Parsing then overlaps with
 * Postgres's work (150 ms and 190 ms for 8,192 rollouts of 3 kB), and memory holds a few blocks instead of the body.
 * All writes belong to the batch's one transaction, so a body that is refused later stores nothing.
 */
export class EarlyTextCopy implements EarlyTexts {
  /**
   * Connection pools with a copy in progress. A copy holds its connection until the body has arrived, so each pool runs
   * one copy at a time.
   */
  static readonly #underWay = new WeakSet<Database>()

  readonly client: Client
  readonly batchId: number
  readonly bucket: string
  readonly #db: Database
  #copy: CopyIn
  readonly #onError: (error: Error) => void
  #broken: Error | undefined
  #copying = true

  private constructor(db: Database, client: Client, batchId: number, bucket: string) {
    this.#db = db
    this.client = client
    this.batchId = batchId
    this.bucket = bucket
    this.#onError = (error) => {
      this.#broken = error
    }
    client.on('error', this.#onError)
    this.#copy = this.#newCopy()
  }

  /**
   * Opens the transaction and reserves the batch's number. Returns null while the connection pool is copying another
   * body.
   */
  static async begin({ db }: AcceptContext): Promise<EarlyTextCopy | null> {
    if (EarlyTextCopy.#underWay.has(db)) return null
    EarlyTextCopy.#underWay.add(db)
    try {
      const bucket = await currentTextBucket(db)
      const client = await db.pool.connect()
      try {
        await client.query('begin')
        return new EarlyTextCopy(db, client, await nextBatchId(client), bucket)
      } catch (error) {
        client.release(error as Error)
        throw error
      }
    } catch (error) {
      EarlyTextCopy.#underWay.delete(db)
      throw error
    }
  }

  #newCopy(): CopyIn {
    return new CopyIn(this.client, `${textPartition(this.bucket)} (${TEXT_COPY_COLUMNS})`)
  }

  async send(draft: BatchDraft): Promise<void> {
    for (const block of draft.takeTextBlocks(this.bucket, this.batchId))
      await this.#copy.write(block)
    if (draft.imageBytes < STAGED_BYTES) return
    await this.#endCopy()
    await stageImages(this.client, draft.takeImages())
    this.#copy = this.#newCopy()
    this.#copying = true
  }

  async finish(draft: BatchDraft): Promise<void> {
    for (const block of draft.textBlocks(this.bucket, this.batchId, 0))
      await this.#copy.write(block)
    await this.#endCopy()
  }

  async #endCopy(): Promise<void> {
    await this.#copy.end()
    this.#copying = false
  }

  async commit(): Promise<void> {
    await this.client.query('commit')
    this.#release()
  }

  /** Rolls back. If the copy is unfinished, its connection is closed. */
  async rollback(): Promise<void> {
    if (this.#copying) {
      await this.#copy.abort().catch(() => {})
      this.#broken ??= new Error('copy abandoned')
    } else await this.client.query('rollback').catch((error: Error) => (this.#broken = error))
    this.#release()
  }

  #release(): void {
    EarlyTextCopy.#underWay.delete(this.#db)
    this.client.off('error', this.#onError)
    this.client.release(this.#broken)
  }
}
