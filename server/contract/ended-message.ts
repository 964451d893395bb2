import type { SampleFailureReason } from './sample-reason.ts'

/**
 * What a local worker tells its server of samples somebody waits for, once they are committed: the same that the
 * server would read from the table, two hops earlier. Only a hint that may be lost; whoever waits reads as well.
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
    attempts: number
    queueMs: number
    scoreMs: number
    serverName: string | null
  }[]
}
