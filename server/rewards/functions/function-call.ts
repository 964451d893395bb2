import type { RewardOutcome, RewardSample } from '../managers/manager.ts'
import type { FunctionCallOptions, MethodOutcome } from './function-caller.ts'
import { type CallEnd, type CallWork, unpackValue } from './protocol.ts'

/**
 * One call of user code, from its request to its end.
 *
 *   waiting ──dispatched──▶ in a process ──end──▶ settled
 *      ▲                        │ the process was ended for another's fault
 *      └────────────────────────┘
 */
export interface FunctionCall {
  work: CallWork
  options: FunctionCallOptions
  /** Scores what the manager wraps, in the worker. */
  wrapped: ((sample: RewardSample) => Promise<RewardOutcome>) | null
  /** On the clock of `performance.now()`. */
  arrivedAtMs: number
  /** On the same clock; null until it has begun in a process. */
  startedAtMs: number | null
  /** Number of processes that ended with this call inside and without a known culprit. */
  incidents: number
  /** Number of processes that exited before any call in them had begun. */
  unstarted: number
  settled: boolean
  settle: (end: CallEnd['end']) => void
  /** Aborts its requests to the router once it is settled. */
  routerCalls: AbortController | null
  /** Ends it when its signal is aborted; removed once it is settled. */
  onAbort: (() => void) | null
}

/** How a call ended, and how long it waited for a process. */
export interface EndedCall {
  end: CallEnd['end']
  waitedMs: number
}

/** The sample's outcome of an ended call. */
export function outcomeOf({ end, waitedMs }: EndedCall): RewardOutcome {
  const rest = { attempts: null, waitedMs }
  if (!end.ok) return { ok: false, reason: end.reason, detail: end.detail, ...rest }
  if (!('score' in end)) {
    return { ok: false, reason: 'function_error', detail: 'the call returned no score', ...rest }
  }
  return { ...end, ...rest }
}

/** The outcomes of a group's members: a failed call fails all of them. */
export function groupOutcomesOf(ended: EndedCall, members: number): RewardOutcome[] {
  const { end, waitedMs } = ended
  if (end.ok && 'results' in end) {
    return end.results.map((one) => ({ ...one, attempts: null, waitedMs }))
  }
  const failed = outcomeOf(ended)
  return Array.from({ length: members }, () => failed)
}

/** The outcome of a further method's call. */
export function methodOutcomeOf({ end }: EndedCall): MethodOutcome {
  if (!end.ok) return end
  if ('score' in end) return { ok: true, value: end.score }
  return { ok: true, value: 'results' in end ? end.results : unpackValue(end.value) }
}
