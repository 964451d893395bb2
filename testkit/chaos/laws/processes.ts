import type { HistoryEvent } from '../history.ts'
import { type Evidence, faultSpans, type Violation } from './law.ts'

/** A server may fail to start for this long after a fault of the database or of its link. */
const AFTER_FAULT_MS = 15_000

/** A process ended by a signal within this time of its start had no handler yet. */
const UNHANDLED_MS = 400

/** A server that stops gets its second signal within this time of its end. */
const STOP_MS = 30_000

/** Checks the processes: none is left over, none ended by itself, and no error was unhandled. */
export function checkProcesses({ events, history }: Evidence): Violation[] {
  const violations: Violation[] = []
  const spans = faultSpans(events)
  const stopAt =
    events.find((event) => event.e === 'phase' && event.name === 'stop')?.at ??
    Number.POSITIVE_INFINITY
  for (const event of events) {
    if (event.e === 'leftover' && event.processes.length > 0) {
      const message = `${event.processes.length} processes live on after ${event.after}: ${event.processes.join('; ')}`
      violations.push({ law: 'leftover', message, evidence: [event] })
    }
    if (event.e !== 'exit' || !/^(server|worker)-/.test(event.who)) continue
    if (event.code === 0) continue
    const isFault = spans.some(
      ({ from, until }) => event.at >= from - 500 && event.at < until + AFTER_FAULT_MS,
    )
    // Node takes 40 ms to the first line that handles signals, several times that on a busy machine.
    const isBySignal = event.signal === 'SIGTERM' && (event.wasUp || event.ageMs > UNHANDLED_MS)
    // A start may fail during an outage of the database; a server that was up stays up.
    const hasDied = event.wasUp && event.signal === null
    if (event.code === 1 && isStoppedTwice(event, events)) continue
    if ((isFault && !isBySignal && !hasDied) || (event.at > stopAt && event.signal === 'SIGKILL'))
      continue
    const how = event.signal === null ? `with code ${event.code}` : `by ${event.signal}`
    violations.push({ law: 'exit', message: `${event.who} ended ${how}`, evidence: [event] })
  }
  if (history.unhandled.length > 0) {
    const message = `the log has errors that nothing handled: ${history.unhandled.slice(0, 3).join(' | ')}`
    violations.push({ law: 'log', message, evidence: [] })
  }
  return violations
}

/** Whether a server got a second SIGTERM while it stopped, which ends it at once with code 1. */
function isStoppedTwice(
  exit: { at: number; who: string },
  events: readonly HistoryEvent[],
): boolean {
  const signals = events.filter(
    (event) =>
      event.e === 'fault' &&
      event.kind === 'server-term' &&
      event.what === exit.who &&
      event.at <= exit.at &&
      event.at > exit.at - STOP_MS,
  )
  return signals.length > 1
}
