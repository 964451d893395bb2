import type { SampleFailureReason } from './sample-reason.ts'

/**
 * Samples that a call waits for and whose results a local worker has committed. The message holds what the server would
 * read from the table, two hops earlier. It may be lost, so waiting calls also read the table.
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
    attempts: number
    queueMs: number
    scoreMs: number
    serverName: string | null
  }[]
}
