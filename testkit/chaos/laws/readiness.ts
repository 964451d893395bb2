import type { HistoryEvent } from '../history.ts'
import { type Evidence, faultSpans, type Violation } from './law.ts'

/** `/readyz` follows the first failed or successful write within this time. */
const FOLLOWS_MS = 2_000
/** Tolerance for probes, which are 250 ms apart, on a busy machine. */
const SLACK_MS = 1_000
/** A longer time since the last write means that a write hangs. */
const HANGS_MS = 700

type Ready = Extract<HistoryEvent, { e: 'ready' }>

const WRITING = new Set(['batches.submit', 'batches.append', 'samples.score'])

const OUTAGES = /^(postgres|backend)-|^(net-postgres|failover|read-only|disk-full)$/

interface Write {
  at: number
  ok: boolean
}

/** Checks that `/readyz` shows within 2 s whether the service can write. Skipped if the service has no `/readyz`. */
export function checkReadiness({ events, slowness, schedule }: Evidence): Violation[] {
  const writes = events.filter((event) => event.e === 'write')
  const found = [wrongProbe(events, slowness, writes)]
  if (schedule.setup.servers === 1) {
    const hasSmallDisk = schedule.setup.diskMb !== null
    const calls = events.flatMap((event) => {
      // A write of the harness shows that the database was back between two outages. On a full disk, such a write may
      // fit in an existing page while the trainer's writes are refused.
      if (event.e === 'write' && event.ok && !hasSmallDisk) return [event]
      if (event.e !== 'answer' || !WRITING.has(event.op)) return []
      const { at, status, reason } = event
      if (status === 200) return [{ at, ok: true }]
      return reason === 'database_unavailable' ? [{ at, ok: false }] : []
    })
    found.push(wrongProbe(events, slowness, calls, true))
  }
  return found.filter((violation) => violation !== null).slice(0, 1)
}

/**
 * The first probe that contradicts all recent writes and the next write. `onlyReady` skips probes that were not ready.
 */
function wrongProbe(
  events: readonly HistoryEvent[],
  slowness: number,
  writes: readonly Write[],
  onlyReady = false,
): Violation | null {
  const slackMs = SLACK_MS * slowness
  const followsMs = FOLLOWS_MS * slowness
  const probes = events.filter((event): event is Ready => event.e === 'ready')
  // A server need not be ready during its own faults and starts.
  const excused = faultSpans(events).filter(({ kind }) => /^(server|all|worker)-/.test(kind))
  // The writes below do not show every outage: a write can fall outside a short outage, or hang during it. A server
  // therefore need not be ready during an injected outage and for `followsMs` after it.
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
    // A hanging write is recorded when it ends, so the state before it is unknown.
    if (!isReady && (recent.at(-1)?.at ?? 0) < probe.at - HANGS_MS * slowness) continue
    // The probe may detect the end of an outage before a write does, so the next write counts too.
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
    const message = `/readyz answered ${probe.status}, ${state} for ${FOLLOWS_MS / 1_000} s`
    const seen = events.filter(({ at, e }) => e !== 'rm-start' && e !== 'rm-end' && at <= probe.at)
    return { law: 'readiness', message, evidence: seen.slice(-20) }
  }
  return null
}
