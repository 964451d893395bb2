import { SHOWN_MINUTES } from '../../server/contract/server-detail.ts'
import { durationText, significant } from '../format/numbers.ts'
import { clockTime, dateTime, minuteTime } from '../format/time.ts'

export const LOG_OPTIONS = [
  { value: 'linear', label: 'Linear' },
  { value: 'log', label: 'Log' },
] as const

export interface Tick {
  at: number
  label: string
}

/**
 * Adds an extra step between two steps that are further apart than the median distance, so that lines have a gap
 * there.
 * @param lastOf returns the last step of a bin, from which the distance to the next point is measured
 */
export function withGaps(
  steps: readonly number[],
  lastOf: (step: number) => number = (step) => step,
): number[] {
  const ends = steps.map(lastOf)
  const distances = steps.slice(1).map((step, at) => step - (ends[at] as number))
  const usual = distances.toSorted((a, b) => a - b)[(distances.length - 1) >> 1] ?? 1
  return steps.flatMap((step, at) => {
    const before = ends[at - 1]
    return before !== undefined && step - before > usual ? [before + usual, step] : [step]
  })
}

/** An even selection of at most `most` steps. */
export function pickTicks(steps: readonly number[], most: number): number[] {
  if (steps.length <= most) return [...steps]
  const every = Math.ceil((steps.length - 1) / (most - 1))
  return steps.filter((_, at) => at % every === 0)
}

/** At most six evenly spaced round values, from at most `low` to at least `high`. */
export function niceTicks(low: number, high: number): { at: number; label: string }[] {
  if (!Number.isFinite(low) || !Number.isFinite(high)) return [{ at: 0, label: '0' }]
  const span = high - low || Math.abs(high) || 1
  const raw = span / 4
  const power = 10 ** Math.floor(Math.log10(raw))
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((one) => one >= raw) ?? raw
  const first = Math.floor(low / step)
  const last = Math.max(first + 1, Math.ceil(high / step))
  return Array.from({ length: last - first + 1 }, (_, at) => {
    const value = (first + at) * step
    return {
      at: value,
      label: significant(Math.abs(value) < step / 1e6 ? 0 : value, 4).replace('-', '−'),
    }
  })
}

/** At most six round integer ticks from 0 to at least `most`. */
export function linearTicks(most: number): { at: number; label: string }[] {
  if (most <= 0) return [{ at: 0, label: '0' }]
  const rough = most / 4
  const magnitude = 10 ** Math.floor(Math.log10(rough))
  const step = Math.max(
    1,
    ([1, 2, 2.5, 5, 10].find((m) => m * magnitude >= rough) ?? 10) * magnitude,
  )
  const whole = Math.ceil(step)
  const ticks: { at: number; label: string }[] = []
  for (let at = 0; ; at += whole) {
    ticks.push({ at, label: at.toLocaleString('en-US') })
    if (at >= most) return ticks
  }
}

/** At most six round durations from 0 to at least `mostMs`. */
export function durationTicks(mostMs: number): { at: number; label: string }[] {
  if (!(mostMs > 0)) return [{ at: 0, label: '0' }]
  const [unit] = [60_000, 1_000, 1].filter((each) => mostMs >= 2 * each || each === 1)
  const rough = mostMs / (unit as number) / 4
  const magnitude = 10 ** Math.floor(Math.log10(rough))
  const step =
    ([1, 2, 5, 10].find((m) => m * magnitude >= rough * 0.999) ?? 10) * magnitude * (unit as number)
  const ticks: { at: number; label: string }[] = []
  for (let i = 0; ; i++) {
    const at = Number((i * step).toPrecision(12))
    ticks.push({
      at,
      label: at === 0 ? '0' : durationText(at).replace(/\.0+(?=\D)|(\.\d*?)0+(?=\D)/, '$1'),
    })
    if (at >= mostMs) return ticks
  }
}

/** At most eight round durations that span `leastMs` to `mostMs`, both above 0, for a logarithmic axis. */
export function logDurationTicks(leastMs: number, mostMs: number): Tick[] {
  const rounds = LOG_DURATIONS_MS
  const first = Math.max(
    0,
    rounds.findLastIndex((at) => at <= leastMs),
  )
  const end = rounds.findIndex((at) => at >= mostMs)
  const shown = rounds.slice(first, end < 0 ? undefined : Math.max(end, first + 1) + 1)
  const every = Math.ceil(shown.length / 8)
  // The last tick is above all values, so it is kept.
  return shown
    .filter((_, at) => (shown.length - 1 - at) % every === 0 || at === 0)
    .map((at) => ({ at, label: durationText(at).replace(/\.0+(?=\D)/, '') }))
}

const LOG_DURATIONS_MS = [0.01, 0.1, 1, 10, 100, 1_000, 10_000, 60_000, 600_000].concat(
  [1, 10, 100, 1_000, 10_000].map((h) => h * 3_600_000),
)

/** Ticks at round local times between two times, epoch ms; about as many as `labels`. */
export function localTimeTicks(firstMs: number, lastMs: number, labels = 6): Tick[] {
  const span = lastMs - firstMs
  const step =
    TIME_STEPS_MS.find((each) => each >= 1_000 && span / each <= labels) ??
    (TIME_STEPS_MS.at(-1) as number)
  const zoneMs = new Date(firstMs).getTimezoneOffset() * 60_000
  const ticks: Tick[] = []
  for (let at = Math.ceil((firstMs - zoneMs) / step) * step + zoneMs; at <= lastMs; at += step)
    ticks.push({ at, label: timeLabel(at, span) })
  return ticks
}

/** Possible distances between ticks at round times, ms. */
export const TIME_STEPS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500]
  .concat([1, 2, 5, 10, 15, 30].map((s) => s * 1000))
  .concat([1, 2, 5, 10, 15, 30].map((m) => m * 60_000))
  .concat([1, 2, 4, 6, 12, 24, 48, 120, 240, 720].map((h) => h * 3_600_000))

const DAY_MS = 86_400_000

/** A time of day. In ranges of more than a day, it includes the date. */
export function timeLabel(at: number, spanMs: number): string {
  if (spanMs > DAY_MS) return dateTime(at).slice(5, 16)
  return spanMs <= DAY_MS / 24 ? clockTime(at) : minuteTime(at)
}

/** Round percent ticks from 0 to at least `most`, capped at 100 %. */
export function shareTicks(most: number): Tick[] {
  const percent = Math.max(most, 0.001) * 100
  const step = [0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 25].find((one) => percent / one <= 4) ?? 25
  const last = Math.min(Math.ceil(percent / step), Math.round(100 / step))
  return Array.from({ length: last + 1 }, (_, at) => ({
    at: (at * step) / 100,
    label: `${Number((at * step).toFixed(2))} %`,
  }))
}

const MINUTE_MS = 60_000

/**
 * The starts of the `SHOWN_MINUTES` minutes up to `nowMs`, oldest first. If the service's clock is ahead of the
 * browser's, the list ends with the newest minute in `stored`.
 */
export function minutesOfHour(stored: readonly number[], nowMs: number): number[] {
  const last = Math.floor(Math.max(nowMs, ...stored) / MINUTE_MS)
  return Array.from({ length: SHOWN_MINUTES }, (_, i) => (last - SHOWN_MINUTES + 1 + i) * MINUTE_MS)
}

export function minuteTicks(minutes: readonly number[]): Tick[] {
  return minutes
    .filter((at) => new Date(at).getMinutes() % 10 === 0)
    .map((at) => ({ at, label: minuteTime(at) }))
}
