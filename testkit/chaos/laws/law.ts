import type { History, HistoryEvent } from '../history.ts'
import type { Schedule } from '../schedule.ts'
import type { Workload } from '../workload.ts'

/** A law that a history breaks, with the events that show it. */
export interface Violation {
  law: Law
  message: string
  evidence: HistoryEvent[]
}

/**
 * - `ended`: every acknowledged sample ends within a bound
 * - `once`: a sample counts once, in its batch, its group and the database
 * - `score`: a score is a function of the text
 * - `failures`: a sample fails only for a reason that a fault explains
 * - `delivery`: a cursor chain delivers every group once, numbers dense, and again the same
 * - `duplicates`: an idempotency key names one batch, or one result
 * - `refusals`: a call is refused only in a typed way that passes
 * - `limit`: calls in flight stay within the limit at every moment
 * - `calls`: no call is made twice without a cause
 * - `readiness`: `/readyz` follows whether the service can write
 * - `idle`: no lease, claim, job or call remains once all has ended
 * - `log`: no error is unhandled, the sweep for orphaned samples finds none, and the database refuses no result
 * - `leftover`: no process outlives its service
 * - `exit`: a server or worker ends only when it is told to, and with 0
 * - `start`: the service comes up
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

/** What every law is checked against. */
export interface Evidence {
  history: History
  events: HistoryEvent[]
  schedule: Schedule
  workload: Workload
  /** How many times slower than usual the machine was. */
  slowness: number
}

/** When a fault strikes and when it is healed, epoch ms. */
export interface FaultSpan {
  kind: string
  from: number
  until: number
  what: string
}

/** The faults as they happened: those of a kind are healed in the order in which they struck. */
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
