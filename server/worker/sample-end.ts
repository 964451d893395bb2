import { partRewardsProblem } from '../contract/part-rewards.ts'
import type { ResolvedReward } from '../contract/resolved-reward.ts'
import { MAX_VERDICT_CHARS } from '../contract/trainer.ts'
import type { RewardOutcome } from '../rewards/managers/manager.ts'
import type { AttemptRecord } from '../router/router-types.ts'
import type { FlushedSample } from '../store/sql/flush.ts'
import { storableText } from '../store/stored-texts.ts'

export type SampleEnd = Omit<FlushedSample, 'batchId' | 'index'>

export function sampleEndOf(
  outcome: RewardOutcome,
  reward: ResolvedReward,
  times: {
    /** Time on the database's clock, like `dispatchedAtMs`. */
    acceptedAtMs: number
    dispatchedAtMs: number
    scoreMs: number
    /** The database's clock minus the clock of the attempts, ms. */
    clockOffsetMs: number
  },
): SampleEnd {
  const { onFailure } = reward
  // Acceptance and dispatch come from different clocks; stored times must stay in order.
  const dispatchedAtMs = Math.max(times.acceptedAtMs, times.dispatchedAtMs)
  const substituted = !outcome.ok && onFailure.policy === 'constant'
  const log = outcome.attempts
  const last = log?.[log.length - 1]
  const verdict = outcome.ok ? outcome.verdict : undefined
  return {
    score: outcome.ok ? outcome.score : substituted ? onFailure.value : null,
    rawScore: outcome.ok ? (outcome.rawScore ?? outcome.score) : null,
    reason: outcome.ok ? null : outcome.reason,
    substituted,
    extra: outcome.ok ? outcome.extra : null,
    verdict: storable(verdict?.verdict),
    extracted: storable(verdict?.extracted),
    rewards: outcome.ok ? (outcome.rewards ?? null) : null,
    attempts: log ? attemptsIn(log) : 1,
    queueMs: dispatchedAtMs - times.acceptedAtMs,
    scoreMs: times.scoreMs,
    serverId: last?.serverId ?? null,
    serverName: last?.serverName ?? null,
    dispatchedAtMs,
    attemptLog: attemptLogOf(outcome, { ...times, dispatchedAtMs }),
  }
}

/**
 * Returns the outcome, or a failure if one of its rewards refers to a turn or span that the response does not have.
 * Such rewards come from user code.
 * @param response called only if the outcome has rewards of turns or spans
 */
export function checkedParts(
  outcome: RewardOutcome,
  response: () => Parameters<typeof partRewardsProblem>[1],
): RewardOutcome {
  if (!outcome.ok || outcome.rewards === undefined) return outcome
  const problem = partRewardsProblem(outcome.rewards, response())
  if (problem === null) return outcome
  const { attempts } = outcome
  return { ok: false, reason: 'function_error', detail: `its rewards ${problem}`, attempts }
}

function storable(text: string | null | undefined): string | null {
  return text == null ? null : storableText(text, MAX_VERDICT_CHARS)
}

/** Returns the calls of a scoring whose slot another process took over. Cancelled calls are marked as `recalled`. */
export function recalledCalls({ attempts }: RewardOutcome): AttemptRecord[] {
  const detail = "abandoned: this process's share of the batch's concurrency ended"
  return (attempts ?? []).map((one) =>
    one.reason === 'cancelled' ? { ...one, outcome: 'recalled', reason: null, detail } : one,
  )
}

/** Adds the calls of earlier, recalled scorings to an outcome. The attempts of each scoring are numbered from 1. */
export function afterCalls(
  earlier: readonly AttemptRecord[],
  outcome: RewardOutcome,
): RewardOutcome {
  if (earlier.length === 0) return outcome
  return { ...outcome, attempts: [...earlier, ...(outcome.attempts ?? [])] }
}

/**
 * 1 plus the retries of all calls for the sample. A reward may make several calls, such as votes of a judge or
 * components. Hedged requests, recalled calls and repeats after a connection race are not retries.
 */
function attemptsIn(log: AttemptRecord[]): number {
  let n = 1
  for (const { attempt, hedgeOf, outcome } of log) {
    if (attempt > 1 && hedgeOf === undefined && outcome !== 'conn_race' && outcome !== 'recalled')
      n++
  }
  return n
}

/**
 * The attempts to store in addition to the sample's table row. All are stored if there are several or the sample
 * failed, otherwise none.
 */
function attemptLogOf(
  outcome: RewardOutcome,
  times: { acceptedAtMs: number; dispatchedAtMs: number; scoreMs: number; clockOffsetMs: number },
): SampleEnd['attemptLog'] {
  const log = (outcome.attempts ?? []).map((attempt) => ({
    ...attempt,
    startedAtMs: Math.max(times.acceptedAtMs, attempt.startedAtMs + times.clockOffsetMs),
  }))
  if (outcome.ok) return log.length > 1 ? log : null
  // If no attempt has the failure's reason, for example because all calls were answered, an attempt with that reason is
  // added.
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
