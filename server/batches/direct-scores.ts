import type {
  DirectEnd,
  DirectEndMessage,
  DirectScoreMessage,
  ForgetScoreMessage,
} from '../contract/direct-score.ts'
import type { SampleInput } from '../contract/trainer.ts'
import type { BatchSpec } from '../store/sql/worker-reads.ts'

/**
 * Rewards that take longer than this on average, in ms, are not scored directly. Direct scoring saves only about this
 * time, which is the time to store and fetch a sample.
 */
const QUICK_MS = 3
/** Direct scoring is cancelled after this time, and the sample is queued as usual. */
export const DIRECT_WITHIN_MS = 8
/** After one direct score that took too long, the batch's samples are queued as usual for this long. */
const SLOW_FOR_MS = 10_000
/**
 * Maximum number of concurrent direct scores. For more samples, queueing is faster because it stores and fetches
 * samples together.
 */
const MAX_CONCURRENT = 4
const MAX_REMEMBERED = 1_000

export interface WorkerChannel {
  /** Sends to one of the workers, chosen by `turn`; returns false if there is none. */
  send(message: DirectScoreMessage | ForgetScoreMessage, turn: number): boolean
}

export interface DirectlyScored {
  workerId: number
  end: DirectEnd
}

interface Waiting {
  turn: number
  timer: NodeJS.Timeout
  settle: (scored: DirectlyScored | null) => void
}

/**
 * Lets a local worker score a single sample before it is stored, if that takes a millisecond or two. One transaction
 * then stores sample and score, instead of two with a fetch between them. Slower calls are cancelled, and their samples
 * are queued as usual. Until one reward of a batch has been timed, all samples of the batch are queued.
 */
export class DirectScores {
  readonly #channel: WorkerChannel
  readonly #nowMs: () => number
  readonly #waiting = new Map<number, Waiting>()
  readonly #scoreMs = new Map<number, number>()
  readonly #slowUntilMs = new Map<number, number>()
  #next = 0

  /** `nowMs` returns the time of the database's clock. */
  constructor(channel: WorkerChannel, nowMs: () => number) {
    this.#channel = channel
    this.#nowMs = nowMs
  }

  /** Returns the sample's result, or null if the sample must be queued as usual. */
  async score(batch: BatchSpec, sample: SampleInput): Promise<DirectlyScored | null> {
    if (this.#waiting.size >= MAX_CONCURRENT || sample.score != null) return null
    if (batch.reward.maxConcurrency !== null || batch.reward.limiter !== undefined) return null
    const tookMs = this.#scoreMs.get(batch.id)
    if (tookMs === undefined || tookMs > QUICK_MS) return null
    if (performance.now() < (this.#slowUntilMs.get(batch.id) ?? 0)) return null
    const acceptedAtMs = this.#nowMs()
    const id = ++this.#next
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(id)
        this.#slowUntilMs.set(batch.id, performance.now() + SLOW_FOR_MS)
        this.#channel.send({ type: 'forget', id }, id)
        resolve(null)
      }, DIRECT_WITHIN_MS)
      this.#waiting.set(id, { turn: id, timer, settle: resolve })
      const { dataSource, prompt, response } = sample
      const isSent = this.#channel.send(
        {
          type: 'score',
          id,
          batchId: batch.id,
          sample: {
            dataSource,
            prompt,
            response,
            groundTruth: sample.groundTruth ?? null,
            extraInfo: sample.extraInfo ?? {},
            responseLength: sample.responseLength ?? null,
          },
          acceptedAtMs,
        },
        id,
      )
      if (isSent) return
      clearTimeout(timer)
      this.#waiting.delete(id)
      resolve(null)
    })
  }

  onScored(message: DirectEndMessage): void {
    const waiting = this.#waiting.get(message.id)
    if (waiting === undefined) return
    this.#waiting.delete(message.id)
    clearTimeout(waiting.timer)
    const { workerId, end } = message
    waiting.settle(end === null ? null : { workerId, end })
  }

  /** Records the time that one reward of the batch took, scored directly or from the queue. */
  timed(batchId: number, scoreMs: number): void {
    if (this.#scoreMs.size > MAX_REMEMBERED) {
      this.#scoreMs.clear()
      this.#slowUntilMs.clear()
    }
    const before = this.#scoreMs.get(batchId) ?? scoreMs
    this.#scoreMs.set(batchId, before + 0.3 * (scoreMs - before))
  }
}
