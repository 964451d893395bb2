import { createHash } from 'node:crypto'
import type { AppendResult, BatchSummary, SubmitResult } from '../../../server/contract/trainer.ts'
import { CliError, EXIT } from '../exit-codes.ts'
import type { CallOptions, ServiceClient } from '../service-client.ts'
import type { ImportOptions, ImportStep } from './import-options.ts'

export interface UploadContext {
  client: ServiceClient
  options: ImportOptions
  identity: string
  call: CallOptions
}

/**
 * Uploads one step into one batch: submits the first chunk with an idempotency key, appends the other chunks by their
 * start index, and closes the batch. A repeated upload or call stores nothing twice.
 */
export class StepUpload {
  readonly step: ImportStep
  readonly rows: number
  batchId: string | null = null
  /** Rows passed to {@link send} so far. */
  sent = 0
  stored = 0
  /** Rows stored by an earlier attempt. */
  before = 0
  closed = false
  /** The rows of the next chunk, as JSON. */
  readonly pending: string[] = []
  pendingChars = 0
  readonly #context: UploadContext

  constructor(step: ImportStep, rows: number, context: UploadContext) {
    this.step = step
    this.rows = rows
    this.#context = context
  }

  add(json: string): void {
    this.pending.push(json)
    this.pendingChars += json.length + 1
  }

  /** Stores the next rows of the step, each as JSON, and closes the batch after the last row. @throws CliError */
  async send(samples: readonly string[]): Promise<void> {
    const from = this.sent
    this.sent += samples.length
    if (this.batchId === null) await this.#begin(samples)
    else if (this.sent > this.stored) await this.#append(from, samples)
    if (this.sent === this.rows) await this.#close()
  }

  async #begin(samples: readonly string[]): Promise<void> {
    const { client, options, identity, call } = this.#context
    const { run, step, split } = this.step
    const open = samples.length < this.rows
    const envelope = {
      run,
      step,
      split,
      groupSize: options.groupSize,
      reward: options.reward,
      open,
      idempotencyKey: `import-${createHash('sha256')
        .update(JSON.stringify([identity, run, step, split]))
        .digest('hex')
        .slice(0, 40)}`,
    }
    const result = await client.mutate<SubmitResult>(
      'batches.submit',
      withSamples(envelope, samples),
      call,
    )
    this.batchId = result.batchId
    this.stored = result.accepted
    if (result.duplicate) this.before = result.accepted
  }

  async #append(from: number, samples: readonly string[]): Promise<void> {
    const { client, call } = this.#context
    // `stored` lies inside this chunk only if an earlier version of the CLI cut the chunks differently.
    const startIndex = Math.max(from, Math.min(this.stored, this.sent))
    const result = await client.mutate<AppendResult>(
      'batches.append',
      withSamples({ batchId: this.batchId, startIndex }, samples.slice(startIndex - from)),
      call,
    )
    this.stored = Math.max(this.stored, Math.min(result.samples, this.rows))
    if (result.samples < this.sent) {
      throw new CliError(
        EXIT.refused,
        `The service reports ${result.samples} rows in ${this.batchId} after ${this.sent} were sent.`,
      )
    }
  }

  async #close(): Promise<void> {
    const { client, call } = this.#context
    const batchId = this.batchId as string
    if (this.rows > this.stored) return
    // The batch may have ended or been cancelled since an earlier attempt.
    if (this.before === this.rows) {
      const summary = await client.query<BatchSummary>('batches.get', { batchId }, call)
      this.closed = summary.status !== 'open'
    }
    if (!this.closed) await client.mutate<BatchSummary>('batches.close', { batchId }, call)
    this.closed = true
  }
}

/** The samples are JSON already, so they are joined as text. */
function withSamples(envelope: object, samples: readonly string[]): string {
  return `${JSON.stringify(envelope).slice(0, -1)},"samples":[${samples.join(',')}]}`
}
