import type { TimelineRow } from './timeline.prepare.ts'

/** A stretch of time, in milliseconds since the batch was accepted. */
export interface Stretch {
  fromMs: number
  toMs: number
}

/** Idle time shorter than this, or than a tenth of the whole, is left as it is: it hides nothing. */
const LEAST_IDLE_MS = 2_000
const LEAST_IDLE_SHARE = 0.1
/** A collapsed stretch has this share of what is left. */
const BREAK_SHARE = 0.025
/** As many as a screen has columns: what is idle for a tenth of the time is some 200 of them. */
const BUCKETS = 2_048

/**
 * Stretches in which nothing of any group was under way: no sample between its dispatch and its end, none held by a
 * worker. What lies between the last end and now is not among them: it is not over.
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
    if (track.heldSinceMs !== null) busy(track.heldSinceMs, nowMs)
    if (endMs !== null) busy(endMs, endMs)
  }
  const least = Math.max(LEAST_IDLE_MS, spanMs * LEAST_IDLE_SHARE)
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

/** Time laid out on a line of length `length`, collapsed stretches shortened. */
export interface TimeScale {
  length: number
  spanMs: number
  breaks: readonly Stretch[]
  /** Where a moment lies, 0 to `length`. */
  at(ms: number): number
  /** The moment at a place. */
  ms(at: number): number
}

/** A scale from 0 to `spanMs` with `breaks` collapsed; they are in order and do not touch. */
export function timeScale(spanMs: number, breaks: readonly Stretch[]): TimeScale {
  const span = Math.max(spanMs, 1)
  const collapsed = breaks.reduce((sum, each) => sum + each.toMs - each.fromMs, 0)
  const kept = span - collapsed
  const width = Math.max(kept * BREAK_SHARE, 0.001)
  // Pieces: from these moments on, at these places, so much of the line a millisecond.
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

/** What is looked at; milliseconds since the batch was accepted. */
export interface TimeWindow {
  fromMs: number
  toMs: number
}

/** No closer than this. */
const CLOSEST_MS = 5

/** A window within the span, not narrower than 5 ms; null when it is the whole. */
export function clampWindow(window: TimeWindow | null, scale: TimeScale): TimeWindow | null {
  if (window === null) return null
  const widest = scale.length
  const from = scale.at(Math.max(0, window.fromMs))
  const to = scale.at(Math.min(scale.spanMs, window.toMs))
  const size = Math.min(widest, Math.max(to - from, Math.min(CLOSEST_MS, widest)))
  const start = Math.max(0, Math.min(from, widest - size))
  if (size >= widest * 0.999) return null
  return { fromMs: scale.ms(start), toMs: scale.ms(start + size) }
}

/** Zooms by `factor` (less than 1: closer) around a moment that stays where it is. */
export function zoomWindow(
  window: TimeWindow | null,
  scale: TimeScale,
  factor: number,
  aroundMs?: number,
): TimeWindow | null {
  const from = scale.at(window?.fromMs ?? 0)
  const to = scale.at(window?.toMs ?? scale.spanMs)
  const around = aroundMs === undefined ? (from + to) / 2 : scale.at(aroundMs)
  const size = Math.max((to - from) * factor, CLOSEST_MS)
  const start = around - ((around - from) / Math.max(to - from, 1e-9)) * size
  return clampWindow({ fromMs: scale.ms(start), toMs: scale.ms(start + size) }, scale)
}

/** Moves the window by a share of its width. */
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
