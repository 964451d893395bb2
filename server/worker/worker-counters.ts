import type { RewardOutcome } from '../rewards/managers/manager.ts'
import { LatencyHistogram } from '../router/latency-histogram.ts'
import type { LatencyKind } from '../store/sql/server-reports.ts'

/**
 * Failure reasons of samples that may never have been dispatched. Such samples have durations only if calls were
 * recorded.
 */
const UNTIMED: ReadonlySet<string> = new Set(['cancelled', 'deadline', 'worker_lost'])

export class WorkerCounters {
  /** Samples scored here, including those that still wait for post-processing. */
  scored = 0
  failed = 0
  /** `queue`: times until the first dispatch. `router`: waits for a slot. `service`: durations of calls. */
  readonly latency: Readonly<Record<LatencyKind, LatencyHistogram>> = {
    queue: new LatencyHistogram(),
    router: new LatencyHistogram(),
    service: new LatencyHistogram(),
  }

  /**
   * Counts a scored or failed sample. Without recorded calls, its whole scoring time counts as the duration of calls.
   */
  ended(outcome: RewardOutcome, times: { queueMs: number; scoreMs: number }): void {
    if (outcome.ok) this.scored++
    else this.failed++
    if (!wasDispatched(outcome)) return
    const { queue, router, service } = this.latency
    queue.add(times.queueMs)
    if (outcome.attempts === null) service.add(times.scoreMs)
    for (const { queueMs, serviceMs } of outcome.attempts ?? []) {
      router.add(queueMs)
      service.add(serviceMs)
    }
  }
}

function wasDispatched(outcome: RewardOutcome): boolean {
  if (outcome.ok) return true
  return outcome.attempts === null ? !UNTIMED.has(outcome.reason) : outcome.attempts.length > 0
}
