import type { TriedAttempt, TriedEnd } from '../../contract/rewards.ts'
import type { AttemptRecord } from '../../router/router-types.ts'
import type { RewardOutcome } from '../managers/manager.ts'

/** Attempts as they are told: in ms after the try began. */
export function attemptsOf(
  attempts: readonly AttemptRecord[],
  startedAtMs: number,
): TriedAttempt[] {
  return attempts.map((one) => ({
    attempt: one.attempt,
    serverName: one.serverName,
    startedMs: Math.max(0, one.startedAtMs - startedAtMs),
    queueMs: one.queueMs,
    backoffMs: one.backoffMs,
    serviceMs: one.serviceMs,
    outcome: one.outcome,
    reason: one.reason,
    statusCode: one.status,
    detail: one.detail,
  }))
}

/** What a scorer gave, before anything its manager added. */
export function scorerEnd(outcome: RewardOutcome): TriedEnd {
  return outcome.ok ? { ok: true, score: outcome.rawScore ?? outcome.score } : failedEnd(outcome)
}

/** A failure as it is told. */
export function failedEnd({ reason, detail }: Extract<TriedEnd, { ok: false }>): TriedEnd {
  return { ok: false, reason, detail }
}
