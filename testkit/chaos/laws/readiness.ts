import type { HistoryEvent } from '../history.ts'
import { type Evidence, faultSpans, type Violation } from './law.ts'

/** `/readyz` follows the first failed or successful write within this time. */
const FOLLOWS_MS = 2_000
/** Probes are 250 ms apart, and a machine is busy. */
const SLACK_MS = 1_000
/** Writes follow one another within 0.6 s unless one hangs. */
const HANGS_MS = 700

type Ready = Extract<HistoryEvent, { e: 'ready' }>

/** Calls that write at least a row. */
const WRITING = new Set(['batches.submit', 'batches.append', 'samples.score'])

/** Faults that take the database away from the server. */
const OUTAGES = /^(postgres|backend)-|^(net-postgres|failover|read-only|disk-full)$/

interface Write {
  at: number
  ok: boolean
}

/** `/readyz` says within 2 s whether the service can write. Not checked where the service has no `/readyz`. */
export function checkReadiness({ events, slowness, schedule }: Evidence): Violation[] {
  const writes = events.filter((event) => event.e === 'write')
  const found = [wrongProbe(events, slowness, writes)]
  if (schedule.setup.servers === 1) {
    // A disk that is full takes the probe's row into a page that it has, and refuses the trainer's.
    const calls = events.flatMap((event) => {
      if (event.e !== 'answer' || !WRITING.has(event.op)) return []
      const { at, status, reason } = event
      if (status === 200) return [{ at, ok: true }]
      return reason === 'database_unavailable' ? [{ at, ok: false }] : []
    })
    found.push(wrongProbe(events, slowness, calls, true))
  }
  return found.filter((violation) => violation !== null).slice(0, 1)
}

/** The first probe that says otherwise than all writes before it and the next one. */
function wrongProbe(
  events: readonly HistoryEvent[],
  slowness: number,
  writes: readonly Write[],
  onlyReady = false,
): Violation | null {
  const slackMs = SLACK_MS * slowness
  const followsMs = FOLLOWS_MS * slowness
  const probes = events.filter((event): event is Ready => event.e === 'ready')
  // While the server itself is struck it need not be ready, and the end of its start is its own affair.
  const excused = faultSpans(events).filter(({ kind }) => /^(server|all|worker)-/.test(kind))
  // An outage may fall between two writes of the harness, or hang one: while the database is struck and until the server
  // must have followed, it need not be ready.
  const outages = faultSpans(events).filter(({ kind }) => OUTAGES.test(kind))
  for (const probe of probes) {
    const recent = writes.filter(({ at }) => at <= probe.at && at > probe.at - followsMs - slackMs)
    if (recent.length < 3 || (recent[0]?.at ?? 0) > probe.at - followsMs) continue
    const isReady = probe.status === 200
    if (onlyReady && !isReady) continue
    const isAway = outages.some(
      ({ from, until }) => probe.at >= from && probe.at < until + followsMs,
    )
    if (isAway && !isReady) continue
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
    const seen = events.filter(({ at, e }) => e !== 'rm-start' && e !== 'rm-end' && at <= probe.at)
    return { law: 'readiness', message, evidence: seen.slice(-20) }
  }
  return null
}
