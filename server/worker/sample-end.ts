import type { ResolvedReward } from '../contract/resolved-reward.ts'
import type { RewardOutcome } from '../rewards/managers/manager.ts'
import type { AttemptRecord } from '../router/router-types.ts'
import type { FlushedSample } from '../store/sql/flush.ts'

/** A sample's end, all but where it is stored. */
export type SampleEnd = Omit<FlushedSample, 'batchId' | 'index'>

/** What is written of an outcome: the score or its reason, a substitute where the reward names one, the calls made. */
export function sampleEndOf(
  outcome: RewardOutcome,
  reward: ResolvedReward,
  times: {
    /** By the database's clock, as `dispatchedAtMs`. */
    acceptedAtMs: number
    dispatchedAtMs: number
    scoreMs: number
    /** Database clock minus that of the outcome's attempts. */
    clockOffsetMs: number
  },
): SampleEnd {
  const { onFailure } = reward
  // Accepted by one clock and dispatched by another: stored times are never out of order.
  const dispatchedAtMs = Math.max(times.acceptedAtMs, times.dispatchedAtMs)
  const substituted = !outcome.ok && onFailure.policy === 'constant'
  const log = outcome.attempts
  const last = log?.[log.length - 1]
  return {
    score: outcome.ok ? outcome.score : substituted ? onFailure.value : null,
    rawScore: outcome.ok ? (outcome.rawScore ?? outcome.score) : null,
    reason: outcome.ok ? null : outcome.reason,
    substituted,
    extra: outcome.ok ? outcome.extra : null,
    attempts: log ? attemptsIn(log) : 1,
    queueMs: dispatchedAtMs - times.acceptedAtMs,
    scoreMs: times.scoreMs,
    serverId: last?.serverId ?? null,
    serverName: last?.serverName ?? null,
    dispatchedAtMs,
    attemptLog: attemptLogOf(outcome, { ...times, dispatchedAtMs }),
  }
}

/** Calls made one after the other: what went out twice at one time, or was repeated after a connection race, was one. */
function attemptsIn(log: AttemptRecord[]): number {
  let n = 0
  for (const { hedge, outcome } of log) {
    if (hedge === undefined && outcome !== 'conn_race' && outcome !== 'recalled') n++
  }
  return Math.max(1, n)
}

/** The attempts that the sample's own row cannot tell: more than one, or a failure. */
function attemptLogOf(
  outcome: RewardOutcome,
  times: { acceptedAtMs: number; dispatchedAtMs: number; scoreMs: number; clockOffsetMs: number },
): SampleEnd['attemptLog'] {
  const log = (outcome.attempts ?? []).map((attempt) => ({
    ...attempt,
    startedAtMs: Math.max(times.acceptedAtMs, attempt.startedAtMs + times.clockOffsetMs),
  }))
  if (outcome.ok) return log.length > 1 ? log : null
  // Every call was answered, and what was made of the answers failed: or one of them says it already.
  if (log.some(({ reason }) => reason === outcome.reason)) return log
  return [
    ...log,
    {
      serverId: null as unknown as number,
      attempt: (log.at(-1)?.attempt ?? 0) + 1,
      startedAtMs: times.dispatchedAtMs,
      queueMs: 0,
      backoffMs: 0,
      serviceMs: times.scoreMs,
      outcome: 'fault',
      reason: outcome.reason,
      status: null,
      detail: outcome.detail,
    },
  ]
}
