import type { SampleFailureReason } from './sample-reason.ts'
import type { PartRewards } from './trainer.ts'
import type { SentTurn } from './turn-text.ts'

/**
 * A request to a local worker to score a sample before the sample is stored. A fast reward takes less time than storing
 * and fetching the sample. The sample is then stored together with its score.
 */
export interface DirectScoreMessage {
  type: 'score'
  id: number
  batchId: number
  sample: {
    dataSource: string
    prompt: string | SentTurn[]
    response: string | SentTurn[]
    groundTruth: unknown
    extraInfo: Record<string, unknown>
    responseLength: number | null
  }
  /** The time of acceptance on the database's clock, epoch ms. */
  acceptedAtMs: number
}

/** Cancels a {@link DirectScoreMessage} that took too long; the sample is queued as usual. */
export interface ForgetScoreMessage {
  type: 'forget'
  id: number
}

/** The worker's answer to a {@link DirectScoreMessage}; `end` is null if the worker did not score the sample. */
export interface DirectEndMessage {
  type: 'scored'
  id: number
  workerId: number
  end: DirectEnd | null
}

/** The outcome of a sample, without its batch and index. */
export interface DirectEnd {
  score: number | null
  rawScore: number | null
  reason: SampleFailureReason | null
  substituted: boolean
  extra: Record<string, unknown> | null
  verdict: string | null
  extracted: string | null
  rewards: PartRewards | null
  attempts: number
  queueMs: number
  scoreMs: number
  serverId: number | null
  serverName: string | null
  /** Epoch ms. */
  dispatchedAtMs: number
  /** Null if the only attempt is stored in the sample's table row. */
  attemptLog:
    | {
        serverId: number
        attempt: number
        startedAtMs: number
        queueMs: number
        backoffMs: number
        serviceMs: number
        outcome: string
        /** The server whose request this attempt hedges. Absent if the attempt is not a hedge. */
        hedgeOf?: number
        /** The number of the call. Absent if the sample is not traced. */
        callNo?: number
        reason: SampleFailureReason | null
        status: number | null
        detail: string | null
      }[]
    | null
}
