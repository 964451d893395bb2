import type { TriedAttempt, TriedEnd } from '../../contract/rewards.ts'
import type { AttemptRecord } from '../../router/router-types.ts'
import type { RewardOutcome } from '../managers/manager.ts'

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

/** The scorer's result, before the manager's additions. */
export function scorerEnd(outcome: RewardOutcome): TriedEnd {
  return outcome.ok ? { ok: true, score: outcome.rawScore ?? outcome.score } : failedEnd(outcome)
}

export function failedEnd({ reason, detail }: Extract<TriedEnd, { ok: false }>): TriedEnd {
  return { ok: false, reason, detail }
}
