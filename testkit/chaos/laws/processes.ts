import type { HistoryEvent } from '../history.ts'
import { type Evidence, faultSpans, type Violation } from './law.ts'

/** A process may fail to start during a fault and this long after it. */
const AFTER_FAULT_MS = 15_000

/** A process that SIGTERM ends within this time of its start may not have set its signal handlers yet. */
const UNHANDLED_MS = 400

/** Two SIGTERMs within this time before a server's exit count as a forced stop. */
const STOP_MS = 30_000

export function checkProcesses({ events, history }: Evidence): Violation[] {
  const violations: Violation[] = []
  const spans = faultSpans(events)
  const stopAt =
    events.find((event) => event.e === 'phase' && event.name === 'stop')?.at ??
    Number.POSITIVE_INFINITY
  for (const event of events) {
    if (event.e === 'leftover' && event.processes.length > 0) {
      const message = `${event.processes.length} processes still run after ${event.after}: ${event.processes.join('; ')}`
      violations.push({ law: 'leftover', message, evidence: [event] })
    }
    if (event.e !== 'exit' || !/^(server|worker)-/.test(event.who)) continue
    if (event.code === 0) continue
    const isFault = spans.some(
      ({ from, until }) => event.at >= from - 500 && event.at < until + AFTER_FAULT_MS,
    )
    // Node needs 40 ms until the signal handlers are set, and several times that on a busy machine.
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
    const message = `the log has unhandled errors or defects: ${history.unhandled.slice(0, 3).join(' | ')}`
    violations.push({ law: 'log', message, evidence: [] })
  }
  return violations
}

/** Whether a server received a second SIGTERM while it stopped. It then exits immediately with code 1. */
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
