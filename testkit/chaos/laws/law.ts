import type { History, HistoryEvent } from '../history.ts'
import type { Schedule } from '../schedule.ts'
import type { Workload } from '../workload.ts'

export interface Violation {
  law: Law
  message: string
  evidence: HistoryEvent[]
}

/**
 * The product's invariants that the checker verifies:
 * - `ended`: every acknowledged sample is scored or fails within a bound
 * - `once`: a sample counts once, in its batch, its group and the database
 * - `score`: a score is a function of the text
 * - `failures`: a sample fails only for a reason that a fault explains
 * - `delivery`: a cursor chain delivers every group once, numbered without gaps, and a second chain delivers the same
 * - `duplicates`: an idempotency key leads to one batch or one result
 * - `refusals`: refusals have a reason and are temporary
 * - `limit`: calls in flight stay within the limit at every moment
 * - `calls`: no call is repeated without a cause
 * - `readiness`: `/readyz` shows whether the service can write
 * - `idle`: no lease, claim, job or call remains after all work has ended
 * - `log`: no error is unhandled, no sample is orphaned, and the database refuses no result
 * - `leftover`: no process outlives its service
 * - `exit`: a server or worker ends only on request, with exit code 0
 * - `start`: the service starts
 */
export type Law =
  | 'ended'
  | 'once'
  | 'score'
  | 'failures'
  | 'delivery'
  | 'duplicates'
  | 'refusals'
  | 'limit'
  | 'calls'
  | 'readiness'
  | 'idle'
  | 'log'
  | 'leftover'
  | 'exit'
  | 'start'

export interface Evidence {
  history: History
  events: HistoryEvent[]
  schedule: Schedule
  workload: Workload
  /** How many times slower the machine is than an idle one. */
  slowness: number
}

/** Start and end of a fault, epoch ms. */
export interface FaultSpan {
  kind: string
  from: number
  until: number
  what: string
}

/** The faults of a history. Of two faults of one kind, the one that started first is assumed to end first. */
export function faultSpans(events: readonly HistoryEvent[]): FaultSpan[] {
  const spans: FaultSpan[] = []
  for (const event of events) {
    if (event.e === 'fault') {
      spans.push({
        kind: event.kind,
        from: event.at,
        until: Number.POSITIVE_INFINITY,
        what: event.what,
      })
    } else if (event.e === 'healed') {
      const open = spans.find(
        (span) => span.kind === event.kind && span.until === Number.POSITIVE_INFINITY,
      )
      if (open) open.until = event.at
    }
  }
  return spans
}
