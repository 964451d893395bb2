import type { RewardOutcome, RewardSample } from '../managers/manager.ts'
import type { FunctionCallOptions, MethodOutcome } from './function-caller.ts'
import { type CallEnd, type CallWork, unpackValue } from './protocol.ts'

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
  /** On the clock of `performance.now()`. */
  cameAtMs: number
  /** The same; null: it has not begun in any process. */
  startedAtMs: number | null
  /** Processes that ended with it inside and without a culprit named. */
  incidents: number
  /** Processes that ended by themselves before any call in them had begun. */
  unstarted: number
  settled: boolean
  settle: (end: CallEnd['end']) => void
  /** Ends what it asked of the router, once it is settled. */
  asked: AbortController | null
  /** Ends it when its signal is aborted; taken off once it is settled. */
  onAbort: (() => void) | null
}

/** How a call ended, and how long it waited for a process before it began there. */
export interface EndedCall {
  end: CallEnd['end']
  waitedMs: number
}

/** A sample's outcome of how its call ended. */
export function outcomeOf({ end, waitedMs }: EndedCall): RewardOutcome {
  const told = { attempts: null, waitedMs }
  if (!end.ok) return { ok: false, reason: end.reason, detail: end.detail, ...told }
  if (!('score' in end)) {
    return { ok: false, reason: 'function_error', detail: 'it was asked for no score', ...told }
  }
  return { ...end, ...told }
}

/** The outcomes of a group's members: a failed call is the failure of them all. */
export function groupOutcomesOf(ended: EndedCall, members: number): RewardOutcome[] {
  const { end, waitedMs } = ended
  if (end.ok && 'results' in end) {
    return end.results.map((one) => ({ ...one, attempts: null, waitedMs }))
  }
  const failed = outcomeOf(ended)
  return Array.from({ length: members }, () => failed)
}

/** The same of a further method. */
export function methodOutcomeOf({ end }: EndedCall): MethodOutcome {
  if (!end.ok) return end
  if ('score' in end) return { ok: true, value: end.score }
  return { ok: true, value: 'results' in end ? end.results : unpackValue(end.value) }
}
