import type { SampleFailureReason } from './sample-reason.ts'

/**
 * The server asks one of its workers to score a sample that is not stored yet: a model that answers in a millisecond has
 * done so before the sample could have been stored, announced and fetched. It is stored together with its score.
 */
export interface DirectScoreMessage {
  type: 'score'
  id: number
  batchId: number
  sample: {
    dataSource: string
    prompt: string | { role: string; content?: string | null | undefined }[]
    response: string
    groundTruth: unknown
    extraInfo: Record<string, unknown>
    responseLength: number | null
  }
  /** When it came, on the database's clock, epoch ms. */
  acceptedAtMs: number
}

/** It took too long: the sample takes the usual way. */
export interface ForgetScoreMessage {
  type: 'forget'
  id: number
}

/** What a worker made of it; `end` is null where it could not begin. */
export interface DirectEndMessage {
  type: 'scored'
  id: number
  workerId: number
  end: DirectEnd | null
}

/** A sample's end, all but where it will be stored. */
export interface DirectEnd {
  score: number | null
  rawScore: number | null
  reason: SampleFailureReason | null
  substituted: boolean
  extra: Record<string, unknown> | null
  attempts: number
  queueMs: number
  scoreMs: number
  serverId: number | null
  serverName: string | null
  dispatchedAtMs: number
  attemptLog:
    | {
        serverId: number
        attempt: number
        startedAtMs: number
        queueMs: number
        backoffMs: number
        serviceMs: number
        outcome: string
        reason: SampleFailureReason | null
        status: number | null
        detail: string | null
      }[]
    | null
}
