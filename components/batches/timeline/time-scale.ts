import type { TimelineRow } from './timeline.prepare.ts'

/** A time range, in milliseconds since acceptance. */
interface Stretch {
  fromMs: number
  toMs: number
}

/** An idle range is collapsed if it is at least this long and at least this share of the whole time. */
const MIN_IDLE_MS = 2_000
const MIN_IDLE_SHARE = 0.1
/** The length of a collapsed range, as a share of the length of all other ranges. */
const BREAK_SHARE = 0.025
/** The number of time buckets used to find idle ranges. The shortest collapsed range covers about 200 buckets. */
const BUCKETS = 2_048

/**
 * Returns the time ranges in which no group was in progress: no sample was between dispatch and result, and none was
 * claimed by a worker. Excludes the range since the last result, because it is still open.
 */
export function idleStretches(
  rows: readonly TimelineRow[],
  spanMs: number,
  nowMs: number,
): Stretch[] {
  if (spanMs <= 0) return []
  const perBucket = spanMs / BUCKETS
  const steps = new Int32Array(BUCKETS + 1)
  const busy = (from: number, to: number) => {
    const first = Math.max(0, Math.min(BUCKETS - 1, Math.floor(from / perBucket)))
    const last = Math.max(first, Math.min(BUCKETS - 1, Math.floor(to / perBucket)))
    steps[first] = (steps[first] as number) + 1
    steps[last + 1] = (steps[last + 1] as number) - 1
  }
  for (const { track, endMs } of rows) {
    for (const { dispatchedMs, endedMs } of track.samples) busy(dispatchedMs ?? endedMs, endedMs)
    if (track.claimedSinceMs !== null) busy(track.claimedSinceMs, nowMs)
    if (endMs !== null) busy(endMs, endMs)
  }
  const least = Math.max(MIN_IDLE_MS, spanMs * MIN_IDLE_SHARE)
  const found: Stretch[] = []
  let inFlight = 0
  let idleFrom = 0
  for (let i = 0; i < BUCKETS; i++) {
    inFlight += steps[i] as number
    if (inFlight > 0) {
      if ((i - idleFrom) * perBucket >= least)
        found.push({ fromMs: idleFrom * perBucket, toMs: i * perBucket })
      idleFrom = i + 1
    }
  }
  return found
}

/** Maps times to positions on a line that shortens collapsed ranges. */
export interface TimeScale {
  length: number
  spanMs: number
  breaks: readonly Stretch[]
  /** The position of a time, 0 to `length`. */
  at(ms: number): number
  ms(at: number): number
}

/** Creates a scale from 0 to `spanMs` with `breaks` collapsed. Breaks are sorted and disjoint. */
export function timeScale(spanMs: number, breaks: readonly Stretch[]): TimeScale {
  const span = Math.max(spanMs, 1)
  const collapsed = breaks.reduce((sum, each) => sum + each.toMs - each.fromMs, 0)
  const kept = span - collapsed
  const width = Math.max(kept * BREAK_SHARE, 0.001)
  // Segments: start time, start position, and length per millisecond.
  const from: number[] = [0]
  const places: number[] = [0]
  const slopes: number[] = [1]
  for (const each of breaks) {
    const start = (places.at(-1) as number) + (each.fromMs - (from.at(-1) as number))
    const slope = Math.min(1, width / (each.toMs - each.fromMs))
    from.push(each.fromMs, each.toMs)
    places.push(start, start + (each.toMs - each.fromMs) * slope)
    slopes.push(slope, 1)
  }
  const piece = (list: readonly number[], value: number) => {
    let i = list.length - 1
    while (i > 0 && (list[i] as number) > value) i--
    return i
  }
  return {
    spanMs: span,
    breaks,
    length: (places.at(-1) as number) + (span - (from.at(-1) as number)),
    at(ms) {
      const i = piece(from, ms)
      return (places[i] as number) + (ms - (from[i] as number)) * (slopes[i] as number)
    },
    ms(at) {
      const i = piece(places, at)
      return (from[i] as number) + (at - (places[i] as number)) / (slopes[i] as number)
    },
  }
}

export interface TimeWindow {
  fromMs: number
  toMs: number
}

const MIN_WINDOW_MS = 5

/** Clamps a window to the span and widens it to at least 5 ms. Returns null if it is the whole span. */
export function clampWindow(window: TimeWindow | null, scale: TimeScale): TimeWindow | null {
  if (window === null) return null
  const widest = scale.length
  const from = scale.at(Math.max(0, window.fromMs))
  const to = scale.at(Math.min(scale.spanMs, window.toMs))
  const size = Math.min(widest, Math.max(to - from, Math.min(MIN_WINDOW_MS, widest)))
  const start = Math.max(0, Math.min(from, widest - size))
  if (size >= widest * 0.999) return null
  return { fromMs: scale.ms(start), toMs: scale.ms(start + size) }
}

/** Zooms around a fixed time, by default the middle. A `factor` below 1 zooms in. */
export function zoomWindow(
  window: TimeWindow | null,
  scale: TimeScale,
  factor: number,
  aroundMs?: number,
): TimeWindow | null {
  const from = scale.at(window?.fromMs ?? 0)
  const to = scale.at(window?.toMs ?? scale.spanMs)
  const around = aroundMs === undefined ? (from + to) / 2 : scale.at(aroundMs)
  const size = Math.max((to - from) * factor, MIN_WINDOW_MS)
  const start = around - ((around - from) / Math.max(to - from, 1e-9)) * size
  return clampWindow({ fromMs: scale.ms(start), toMs: scale.ms(start + size) }, scale)
}

export function panWindow(
  window: TimeWindow | null,
  scale: TimeScale,
  share: number,
): TimeWindow | null {
  if (window === null) return null
  const from = scale.at(window.fromMs)
  const size = scale.at(window.toMs) - from
  const start = Math.max(0, Math.min(scale.length - size, from + size * share))
  return { fromMs: scale.ms(start), toMs: scale.ms(start + size) }
}
