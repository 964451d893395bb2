import type { AttemptDto } from '../../server/contract/pages.ts'

export type SegmentKind = 'queue' | 'backoff' | 'slot' | 'service' | 'failed'

/** A stage, as shares of the total time. */
interface StageSegment {
  kind: SegmentKind
  from: number
  share: number
  ms: number
}

interface WaterfallRow {
  key: string
  title: string
  segments: StageSegment[]
  ms: number
  attempt: AttemptDto | null
}

interface WaterfallData {
  rows: WaterfallRow[]
  totalMs: number
}

export function prepareWaterfall(sample: {
  submittedAt: string
  queueMs: number | null
  scoreMs: number | null
  attemptLog: readonly AttemptDto[]
}): WaterfallData {
  const startMs = Date.parse(sample.submittedAt)
  const queueMs = sample.queueMs ?? 0
  const rows: {
    key: string
    title: string
    parts: [SegmentKind, number, number][]
    attempt: AttemptDto | null
  }[] = []
  let endMs = queueMs + (sample.scoreMs ?? 0)
  if (sample.queueMs !== null) {
    rows.push({ key: 'queue', title: 'Queue', parts: [['queue', 0, queueMs]], attempt: null })
  }
  // The clock of a worker may differ by seconds from the clock of the accepting server. If an attempt then appears to
  // begin before the queue ends, or to end after the sample, all attempts are shifted by the same time, so that the
  // first attempt begins where the queue ends.
  const claimed = sample.attemptLog.map(({ startedAt }) => Date.parse(startedAt) - startMs)
  const latestMs = sample.scoreMs === null ? Number.POSITIVE_INFINITY : endMs + 50
  const fits = sample.attemptLog.every(({ serviceMs }, i) => {
    const from = claimed[i] as number
    return from >= queueMs - 5 && from + serviceMs <= latestMs
  })
  const shiftMs = fits ? 0 : queueMs - claimed.reduce((a, b) => Math.min(a, b))
  for (const [i, attempt] of sample.attemptLog.entries()) {
    const at = (claimed[i] as number) + shiftMs
    const waited = attempt.backoffMs + attempt.queueMs
    const ended = attempt.outcome === 'scored' || attempt.reason === null ? 'service' : 'failed'
    rows.push({
      key: `attempt-${i}`,
      title: `Attempt ${attempt.attempt}`,
      parts: [
        ['backoff', at - waited, attempt.backoffMs],
        ['slot', at - attempt.queueMs, attempt.queueMs],
        [ended, at, attempt.serviceMs],
      ],
      attempt,
    })
    endMs = Math.max(endMs, at + attempt.serviceMs)
  }
  const total = Math.max(endMs, 0.001)
  return {
    totalMs: endMs,
    rows: rows.map(({ key, title, parts, attempt }) => ({
      key,
      title,
      attempt,
      ms: parts.reduce((sum, [, , ms]) => sum + ms, 0),
      segments: parts
        .filter(([, , ms]) => ms > 0)
        .map(([kind, at, ms]) => ({
          kind,
          from: Math.max(0, at) / total,
          share: ms / total,
          ms,
        })),
    })),
  }
}
