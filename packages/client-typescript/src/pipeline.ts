import type {
  BatchSummary,
  GroupResult,
  MemberResult,
  SubmitResult,
} from '../../../server/contract/trainer.ts'
import type { RewardOpsApi } from './client.ts'

/** One question waits so long for groups; then it is asked again. */
const POLL_MS = 20_000

/** A mini-batch with its rewards. */
export interface RewardChunk {
  /** Whole groups, in the order they completed. */
  groups: GroupResult[]
  /** Their samples, group after group: `index` in the batch, `score`, `position` in the token row, `advantage`. */
  results: MemberResult[]
  /** Stands behind this chunk: keep it with what was trained on, and a restarted trainer goes on after it. */
  cursor: string
  /** Samples of the batch not yet delivered. */
  remaining: number
  /** It is the last. */
  done: boolean
}

/**
 * A batch's rewards as they become known, mini-batch by mini-batch, while the rest is still being scored. Nothing is
 * consumed by reading: the position is this object's alone.
 */
export class RewardPipeline {
  /** The batch, once it is safe on the service's disk. Rejects when it is refused. */
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
    // Whoever asks for a chunk is told.
    accepted.catch(() => {})
  }

  /** Stands behind the last chunk that was given; null at the beginning. */
  get cursor(): string | null {
    return this.#cursor
  }

  /** Whether the last chunk was given. */
  get done(): boolean {
    return this.#done
  }

  /**
   * The next whole groups of at least `chunkSize` samples together, fewer at the batch's end; null after the last. Waits
   * until they are there. Throws RewardOpsClientError.
   */
  next(chunkSize: number): Promise<RewardChunk | null> {
    // One after the other: two questions at once would be given the same groups.
    const turn = this.#turn.then(() => this.#next(chunkSize))
    this.#turn = turn.catch(() => {})
    return turn
  }

  async #next(chunkSize: number): Promise<RewardChunk | null> {
    const { batchId } = await this.accepted
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

  /** All chunks from here to the batch's end: `for await (const chunk of pipeline.get(256))`. */
  async *get(chunkSize: number): AsyncGenerator<RewardChunk, void, undefined> {
    for (;;) {
      const chunk = await this.next(chunkSize)
      if (chunk === null) return
      yield chunk
    }
  }

  /** Ends what has not been scored; its groups still come. */
  async cancel(): Promise<BatchSummary> {
    const { batchId } = await this.accepted
    return this.#api.batches.cancel.mutate({ batchId })
  }
}
