import type { RewardOutcome, RewardSample } from '../managers/manager.ts'
import type { FunctionCallOptions, MethodOutcome } from './function-caller.ts'
import type { CallEnd, CallWork } from './protocol.ts'

/**
 * One call of user code, from being asked for until it has its end.
 *
 *   waiting ──dispatched──▶ in a process ──end──▶ settled
 *      ▲                        │ the process was ended for another's fault
 *      └────────────────────────┘
 */
export interface FunctionCall {
  work: CallWork
  options: FunctionCallOptions
  /** What its manager wraps, scored by the worker. */
  wrapped: ((sample: RewardSample) => Promise<RewardOutcome>) | null
  /** Processes that ended with it inside and without a culprit named. */
  incidents: number
  settled: boolean
  settle: (end: CallEnd['end']) => void
  /** Ends what it asked of the router, once it is settled. */
  asked: AbortController | null
  /** Ends it when its signal is aborted; taken off once it is settled. */
  onAbort: (() => void) | null
}

/** A sample's outcome of how its call ended. */
export function outcomeOf(end: CallEnd['end']): RewardOutcome {
  if (!end.ok) return { ok: false, reason: end.reason, detail: end.detail, attempts: null }
  if (!('score' in end)) {
    const detail = 'the function was asked for no score'
    return { ok: false, reason: 'function_error', detail, attempts: null }
  }
  return { ...end, attempts: null }
}

/** The same of a further method. */
export function methodOutcomeOf(end: CallEnd['end']): MethodOutcome {
  if (!end.ok) return end
  return { ok: true, value: 'value' in end ? end.value : end.score }
}
