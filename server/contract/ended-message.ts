import type { SampleFailureReason } from './sample-reason.ts'
import type { PartRewards } from './trainer.ts'

/**
 * Reports committed results that a call waits for. A local worker sends this message, because it arrives sooner than a
 * database notification followed by a query. The message may be lost, so waiting calls also query the database.
 */
export interface EndedMessage {
  type: 'ended'
  workerId: number
  samples: {
    batchId: number
    index: number
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
    serverName: string | null
  }[]
}
