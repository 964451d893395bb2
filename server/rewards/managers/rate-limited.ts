import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import { callsPerSample, type JudgeTemplate } from '../judge/judge-template.ts'
import { RATE_LIMITED } from '../limits/limit-settings.ts'
import { type LimitedOutcome, runLimited } from '../limits/limited-run.ts'
import type { RequestGate } from '../limits/request-gate.ts'
import type { RewardManager, RewardOutcome } from './manager.ts'
import { naiveManager } from './naive.ts'

/**
 * verl's `rate_limited` manager: scores like `naive` within limits on concurrent calls, requests and tokens per minute
 * that all workers share. Errors and timeouts fail the sample, where verl scores 0.0. Waiting time is in the extra info
 * (`rate_limit`) and counts as time in the queue, not as scoring time.
 */
export const rateLimitedManager: RewardManager = {
  name: RATE_LIMITED,
  /** Fails a sample whose batch has limits, because this call is synchronous and cannot wait for them. */
  runRule(sample, reward): RewardOutcome {
    if (reward.limiter === undefined) return naiveManager.runRule(sample, reward)
    const detail = 'a limited rule ran in the synchronous path'
    return { ok: false, reason: 'function_error', detail, attempts: null }
  },
  async run(sample, context): Promise<RewardOutcome> {
    const { limiter } = context.reward
    if (limiter === undefined) return naiveManager.run(sample, context)
    const { signal, limits: all, deadlineMs } = context
    const { clock } = all
    const arrivedAtMs = clock.nowMs()
    let gate: RequestGate
    try {
      gate = await all.gate(limiter)
    } catch (error) {
      const detail = `limiter "${limiter.name}": ${(error as Error).message}`
      return { ok: false, reason: 'function_error', detail, attempts: null }
    }
    const requests = requestsOf(context.reward)
    let scoring: Promise<RewardOutcome> | undefined
    const score = (within: AbortSignal): Promise<RewardOutcome> => {
      const left = deadlineMs === undefined ? undefined : deadlineMs - (clock.nowMs() - arrivedAtMs)
      scoring = naiveManager.run(sample, { ...context, signal: within, deadlineMs: left })
      return scoring
    }
    const limited = await runLimited(gate, clock, score, {
      ...(signal ? { signal } : {}),
      timeoutMs: limiter.limits.timeoutMs,
      requests,
      tokens: requests * limiter.limits.estimatedTokens,
      usedRequests: ({ attempts }) => attempts?.length,
      usedTokens: ({ attempts, tokens }) => (attempts?.length === 0 ? 0 : tokens),
    })
    if (limited.ok) return withWaits(limited.value, limited)
    const { reason, detail } = limited
    const attempts = await attemptsSoFar(scoring)
    return { ok: false, reason, detail, attempts, waitedMs: waitedMs(limited) }
  },
}

function withWaits(outcome: RewardOutcome, limited: LimitedOutcome<RewardOutcome>): RewardOutcome {
  const waited = { ...outcome, waitedMs: waitedMs(limited) + (outcome.waitedMs ?? 0) }
  if (!waited.ok) return waited
  const { slotMs, rpmMs, tpmMs } = limited.waits
  const whole = { slotMs: Math.round(slotMs), rpmMs: Math.round(rpmMs), tpmMs: Math.round(tpmMs) }
  return { ...waited, extra: { ...waited.extra, rate_limit: whole } }
}

function waitedMs({ waits: { slotMs, rpmMs, tpmMs } }: LimitedOutcome<RewardOutcome>): number {
  return slotMs + rpmMs + tpmMs
}

/** Returns an aborted call's attempts, or null if the call does not report them within this turn of the event loop. */
async function attemptsSoFar(
  scoring: Promise<RewardOutcome> | undefined,
): Promise<RewardOutcome['attempts']> {
  if (scoring === undefined) return null
  const turn = new Promise<null>((resolve) => setImmediate(() => resolve(null)))
  const outcome = await Promise.race([scoring.catch(() => null), turn])
  return outcome?.attempts ?? null
}

function requestsOf(reward: ResolvedReward): number {
  const components = reward.components ?? []
  if (components.length === 0)
    return reward.judge === undefined ? 1 : callsPerSample(reward.judge as JudgeTemplate)
  const byModel = components.filter(({ reward: { kind } }) => kind === 'model')
  const calls = byModel.reduce((sum, one) => sum + requestsOf(one.reward), 0)
  return Math.max(1, calls)
}
