import type { ServerEventDto } from '../../server/contract/server-detail.ts'

/** A time range in one state. `from` and `to` are positions along the band, 0 to 1. */
interface BandSegment {
  state: string
  from: number
  to: number
  sinceMs: number
  untilMs: number
}

/** A health change or a process event, at a position along the band, 0 to 1. */
interface BandMark {
  id: number
  kind: 'health' | 'process'
  to: string
  at: number
}

export interface StateBandData {
  segments: BandSegment[]
  marks: BandMark[]
  startMs: number
  endMs: number
  span: string
}

const MIN = 60_000
const HOUR = 60 * MIN
const SPANS: readonly [ms: number, words: string][] = [
  [10 * MIN, 'Last 10 min'],
  [HOUR, 'Last hour'],
  [6 * HOUR, 'Last 6 h'],
  [24 * HOUR, 'Last 24 h'],
  [7 * 24 * HOUR, 'Last 7 d'],
  [30 * 24 * HOUR, 'Last 30 d'],
]
/** The band covers this many of the newest state changes, so that a short outage remains visible. */
const CHANGES_SHOWN = 8

/**
 * Prepares the band from events, newest first, up to `nowMs`. The time before the oldest event is a gap. If there are
 * no state changes, the band shows the current state since it began.
 */
export function prepareStateBand(
  events: readonly ServerEventDto[],
  now: { state: string; sinceMs: number },
  nowMs: number,
): StateBandData {
  const changes = events
    .filter((event) => event.kind === 'state')
    .map((event) => ({ ...event, ms: Date.parse(event.at) }))
    .sort((a, b) => a.ms - b.ms || a.id - b.id)
  const wanted = nowMs - (changes.at(-CHANGES_SHOWN)?.ms ?? changes[0]?.ms ?? now.sinceMs)
  const [spanMs, span] = SPANS.find(([ms]) => ms >= wanted) ?? (SPANS.at(-1) as [number, string])
  const startMs = nowMs - spanMs
  const place = (ms: number) => Math.min(1, Math.max(0, (ms - startMs) / spanMs))
  const starts = changes.map(({ to, ms }) => ({ state: to, ms }))
  const first = changes[0]
  const oldestMs = Math.min(...events.map((event) => Date.parse(event.at)), now.sinceMs)
  // Older changes may have been deleted. The oldest stored change names the state before it.
  if (first?.from && oldestMs < first.ms) starts.unshift({ state: first.from, ms: oldestMs })
  if (starts.length === 0) starts.push({ state: now.state, ms: now.sinceMs })
  const segments = starts.flatMap(({ state, ms }, i): BandSegment[] => {
    const untilMs = Math.min(nowMs, starts[i + 1]?.ms ?? nowMs)
    if (untilMs <= startMs || untilMs < ms) return []
    return [{ state, from: place(ms), to: place(untilMs), sinceMs: ms, untilMs }]
  })
  const marks = events.flatMap((event): BandMark[] => {
    const ms = Date.parse(event.at)
    return event.kind === 'state' || ms < startMs
      ? []
      : [{ id: event.id, kind: event.kind, to: event.to, at: place(ms) }]
  })
  return { segments, marks, startMs, endMs: nowMs, span }
}
