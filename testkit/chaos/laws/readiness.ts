import type { HistoryEvent } from '../history.ts'
import { type Evidence, faultSpans, type Violation } from './law.ts'

/** `/readyz` follows the first failed or successful write within this time. */
const FOLLOWS_MS = 2_000
/** Probes are 250 ms apart, and a machine is busy. */
const SLACK_MS = 1_000
/** Writes follow one another within 0.6 s unless one hangs. */
const HANGS_MS = 700

type Ready = Extract<HistoryEvent, { e: 'ready' }>

/** `/readyz` says within 2 s whether the service can write. Not checked where the service has no `/readyz`. */
export function checkReadiness({ events, slowness }: Evidence): Violation[] {
  const violations: Violation[] = []
  const slackMs = SLACK_MS * slowness
  const followsMs = FOLLOWS_MS * slowness
  const probes = events.filter((event): event is Ready => event.e === 'ready')
  const writes = events.filter((event) => event.e === 'write')
  // While the server itself is struck it need not be ready, and the end of its start is its own affair.
  const excused = faultSpans(events).filter(({ kind }) => /^(server|all|worker)-/.test(kind))
  for (const probe of probes) {
    const recent = writes.filter(({ at }) => at <= probe.at && at > probe.at - followsMs - slackMs)
    if (recent.length < 3 || (recent[0]?.at ?? 0) > probe.at - followsMs) continue
    const isReady = probe.status === 200
    // A write that hangs is written down when it ends: of the moment before it nothing is known.
    if (!isReady && (recent.at(-1)?.at ?? 0) < probe.at - HANGS_MS * slowness) continue
    // Either of the two may see first that the database is back: the next write decides with the last ones.
    const next = writes.find(({ at }) => at > probe.at)
    const wrong = [...recent, ...(next ? [next] : [])].every(({ ok }) => ok !== isReady)
    if (!wrong) continue
    const isExcused = excused.some(
      ({ from, until }) => probe.at > from - 500 && probe.at < until + 10_000,
    )
    if (isExcused && !isReady) continue
    const state = isReady
      ? 'ready although every write failed'
      : 'not ready although every write succeeded'
    const message = `/readyz says ${probe.status}, ${state} for ${FOLLOWS_MS / 1_000} s`
    violations.push({ law: 'readiness', message, evidence: [...recent, probe] })
    break
  }
  return violations
}
