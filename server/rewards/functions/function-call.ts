import type { RewardOutcome, RewardSample } from '../managers/manager.ts'
import type { FunctionCallOptions, MethodOutcome } from './function-caller.ts'
import { type CallEnd, type CallWork, unpackValue } from './protocol.ts'

/**
 * One call of user code, from its request to its end.
 *
 *   waiting ──dispatched──▶ in a process ──end──▶ settled
 *      ▲                        │ the process was ended because of another call
 *      └────────────────────────┘
 */
export interface FunctionCall {
  work: CallWork
  options: FunctionCallOptions
  /** The scorer that a manager class wraps, which is called in the worker. Null for other calls. */
  wrapped: ((sample: RewardSample) => Promise<RewardOutcome>) | null
  /** Time when the call arrived, by `performance.now()`. */
  arrivedAtMs: number
  /** Time when the call began in a process, by `performance.now()`; null before that. */
  startedAtMs: number | null
  /** Number of processes that ended while they ran this call, if the end could not be attributed to a single call. */
  incidents: number
  /** Number of processes that were given this call but exited before they began any call. */
  unstarted: number
  settled: boolean
  settle: (end: CallEnd['end']) => void
  routerCalls: AbortController | null
  /** Listener that cancels the call when its signal is aborted; removed when the call is settled. */
  onAbort: (() => void) | null
}

/** The end of a call. `waitedMs` is how long the call waited for a process. */
export interface EndedCall {
  end: CallEnd['end']
  waitedMs: number
}

export function outcomeOf({ end, waitedMs }: EndedCall): RewardOutcome {
  const rest = { attempts: null, waitedMs }
  if (!end.ok) return { ok: false, reason: end.reason, detail: end.detail, ...rest }
  if (!('score' in end)) {
    return { ok: false, reason: 'function_error', detail: 'the call returned no score', ...rest }
  }
  return { ...end, ...rest }
}

export function groupOutcomesOf(ended: EndedCall, members: number): RewardOutcome[] {
  const { end, waitedMs } = ended
  if (end.ok && 'results' in end) {
    return end.results.map((one) => ({ ...one, attempts: null, waitedMs }))
  }
  const failed = outcomeOf(ended)
  return Array.from({ length: members }, () => failed)
}

export function methodOutcomeOf({ end }: EndedCall): MethodOutcome {
  if (!end.ok) return end
  if ('score' in end) return { ok: true, value: end.score }
  return { ok: true, value: 'results' in end ? end.results : unpackValue(end.value) }
}
