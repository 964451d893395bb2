import type { History } from './history.ts'
import { checkCalls } from './laws/calls.ts'
import { checkDelivery } from './laws/delivery.ts'
import type { Evidence, Law, Violation } from './laws/law.ts'
import { checkProcesses } from './laws/processes.ts'
import { checkReadiness } from './laws/readiness.ts'
import { checkStored } from './laws/stored.ts'
import type { Schedule } from './schedule.ts'
import type { Workload } from './workload.ts'

const MAX_EVENTS = 12

/**
 * Checks the history of an episode against every law. `notChecked` lists laws that cannot be checked with this history.
 */
export function checkHistory(
  history: History,
  schedule: Schedule,
  workload: Workload,
): { violations: Violation[]; notChecked: string[] } {
  const slowness = history.events.find((event) => event.e === 'slowness')?.factor ?? 1
  const evidence: Evidence = { history, events: history.events, schedule, workload, slowness }
  const violations: Violation[] = history.events.flatMap((event) =>
    event.e === 'broken'
      ? [{ law: event.law as Law, message: event.message, evidence: [event] }]
      : [],
  )
  const hasStarted = history.events.some((event) => event.e === 'phase' && event.name === 'work')
  if (hasStarted) {
    const laws = [checkDelivery, checkStored, checkCalls, checkProcesses, checkReadiness]
    for (const law of laws) violations.push(...law(evidence))
  }
  for (const violation of violations) violation.evidence.splice(MAX_EVENTS)
  const hasReadiness = history.events.some((event) => event.e === 'ready')
  return { violations, notChecked: hasReadiness || !hasStarted ? [] : ['readiness'] }
}
