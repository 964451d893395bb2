import { afterReads } from '../../with-timeout.ts'
import type { RewardContext, RewardOutcome, RewardSample } from '../managers/manager.ts'
import { RuleServiceError } from '../rules/async-rule.ts'
import { asyncRuleByName, asyncRuleForDataSource } from '../rules/registry.ts'
import { scoreByRule, verdictOf } from './by-rule.ts'

/**
 * Scores by the rule that the reward names or the sample's data source selects, if that rule calls a service; other
 * samples are scored by their rules as usual. The timeout starts with the first call, because waiting for a slot at
 * the service counts as time in the queue.
 */
export async function scoreByService(
  sample: RewardSample,
  context: RewardContext,
): Promise<RewardOutcome> {
  const { reward, signal } = context
  const { rule: name } = reward
  const rule =
    name === undefined ? asyncRuleForDataSource(sample.dataSource) : asyncRuleByName(name)
  if (rule === undefined) return scoreByRule(sample, reward)
  const arrivedAtMs = performance.now()
  let startedMs: number | null = null
  const stop = new AbortController()
  const cancel = () => stop.abort(signal?.reason)
  signal?.addEventListener('abort', cancel, { once: true })
  if (signal?.aborted) cancel()
  let cancelTimer = () => {}
  let isLate = false
  const onFirstCall = () => {
    startedMs = performance.now()
    cancelTimer = afterReads(reward.timeoutMs, () => {
      isLate = true
      stop.abort(new Error('out of time'))
    })
  }
  const { dataSource, solutionStr, groundTruth, extraInfo } = sample
  const input = { dataSource, solutionStr, groundTruth, extraInfo, kwargs: reward.kwargs }
  const waited = () => ({ waitedMs: (startedMs ?? performance.now()) - arrivedAtMs })
  try {
    const service = await context.sandboxes.of(reward)
    const timed: typeof fetch = (url, init) => {
      if (startedMs === null) onFirstCall()
      return service.fetch(url, init)
    }
    const result = await rule.score(input, {
      signal: stop.signal,
      service: { ...service, fetch: timed },
    })
    const { score, extra } = result
    if (Number.isFinite(score)) {
      return { ok: true, score, extra, verdict: verdictOf(result), attempts: null, ...waited() }
    }
    const detail = `rule ${rule.name} returned ${score}`
    return { ok: false, reason: 'non_finite', detail, attempts: null, ...waited() }
  } catch (error) {
    const failed = (reason: 'timeout' | 'cancelled', detail: string): RewardOutcome => ({
      ok: false,
      reason,
      detail,
      attempts: null,
      ...waited(),
    })
    if (signal?.aborted) return failed('cancelled', 'cancelled while its rule called a service')
    if (isLate)
      return failed('timeout', `rule ${rule.name} took longer than ${reward.timeoutMs} ms`)
    const reason = error instanceof RuleServiceError ? error.reason : 'function_error'
    return { ok: false, reason, detail: (error as Error).message, attempts: null, ...waited() }
  } finally {
    cancelTimer()
    signal?.removeEventListener('abort', cancel)
  }
}
