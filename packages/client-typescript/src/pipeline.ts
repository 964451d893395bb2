import type { TRPCClient } from '@trpc/client'
import type { AppRouter } from '../../../server/api/root.ts'
import type {
  BatchSummary,
  GroupResult,
  MemberResult,
  SubmitResult,
} from '../../../server/contract/trainer.ts'

/** All procedures, typed: `api.batches.next.query({…})`. docs/api.md describes each. */
export type RewardOpsApi = TRPCClient<AppRouter>

const POLL_MS = 20_000

/** A mini-batch with its rewards. */
export interface RewardChunk {
  /** Whole groups, in the order they completed. */
  groups: GroupResult[]
  /** Samples of these groups, group by group: `index` in the batch, `score`, `position` in the token row, `advantage`. */
  results: MemberResult[]
  /** Position after this chunk. Stored with a checkpoint, it lets a restarted trainer continue after the chunk. */
  cursor: string
  /** Samples of the batch that are not yet delivered. */
  remaining: number
  /** Whether this is the last chunk. */
  done: boolean
}

/**
 * Delivers a batch's rewards in mini-batches while other samples are being scored. Reading consumes nothing in the
 * service, because the pipeline itself keeps the position.
 */
export class RewardPipeline {
  /** Resolves once the batch is stored in the service; rejects if it is refused. */
  readonly accepted: Promise<SubmitResult>
  readonly #api: RewardOpsApi
  readonly #signal: AbortSignal | undefined
  #cursor: string | null
  #done = false
  #turn: Promise<unknown> = Promise.resolve()

  constructor(
    api: RewardOpsApi,
    accepted: Promise<SubmitResult>,
    options: { after?: string | null | undefined; signal?: AbortSignal | undefined },
  ) {
    this.accepted = accepted
    this.#api = api
    this.#cursor = options.after ?? null
    this.#signal = options.signal
    // `next` and `cancel` report the error.
    accepted.catch(() => {})
  }

  /** Position after the last delivered chunk; null before the first chunk. */
  get cursor(): string | null {
    return this.#cursor
  }

  /** Whether the last chunk was delivered. */
  get done(): boolean {
    return this.#done
  }

  /**
   * Waits for the next whole groups with at least `chunkSize` samples in total. The last chunk may have fewer samples.
   * Returns null after the last chunk. Throws RewardOpsClientError.
   */
  next(chunkSize: number): Promise<RewardChunk | null> {
    // Calls run one after the other, because concurrent ones would receive the same groups.
    const turn = this.#turn.then(() => this.#next(chunkSize))
    this.#turn = turn.catch(() => {})
    return turn
  }

  async #next(chunkSize: number): Promise<RewardChunk | null> {
    const { batchId } = await unlessAborted(this.accepted, this.#signal)
    while (!this.#done) {
      const page = await this.#api.batches.next.query(
        { batchId, after: this.#cursor, samples: chunkSize, waitMs: POLL_MS },
        this.#signal ? { signal: this.#signal } : {},
      )
      this.#cursor = page.cursor
      this.#done = page.done
      if (page.groups.length === 0) continue
      return {
        groups: page.groups,
        results: page.groups.flatMap((group) => group.samples),
        cursor: page.cursor,
        remaining: page.remaining,
        done: page.done,
      }
    }
    return null
  }

  /** Iterates over all remaining chunks: `for await (const chunk of pipeline.get(256))`. */
  async *get(chunkSize: number): AsyncGenerator<RewardChunk, void, undefined> {
    for (;;) {
      const chunk = await this.next(chunkSize)
      if (chunk === null) return
      yield chunk
    }
  }

  /** Cancels samples that are not scored yet; their groups are still delivered. */
  async cancel(): Promise<BatchSummary> {
    const { batchId } = await this.accepted
    return this.#api.batches.cancel.mutate({ batchId })
  }
}

/** @throws the reason of the signal, if the signal aborts before the work ends */
function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason)
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}
