import type {
  CallFailure,
  CountsDto,
  FleetEventDto,
  FleetHistoryDto,
  LinesDto,
  SeriesDto,
} from '../../server/contract/fleet-history.ts'
import { clockTime, dateTime } from '../format/time.ts'
import { durationTicks, linearTicks, niceTicks, type Tick, timeLabel } from './ticks.ts'

const LABELS = 6
const HOUR_MS = 3_600_000

/** An interval with one value per series. `at` is its start, epoch ms. */
export interface HistoryRow {
  at: number
  isRunning?: boolean
  [series: `of:${string}`]: number | null
}

export interface EventMark {
  /** The start of the interval, epoch ms. */
  at: number
  /** Whether any of the events is an ejection, an outage or the death of a worker. */
  isBad: boolean
  events: { label: string; note: string }[]
}

export interface HistoryData {
  rows: HistoryRow[]
  /** Names of the series, in stacking order. */
  names: string[]
  /** The name of the sum of all further series; null if every series is shown. */
  others: string | null
  /** Names of the series that are lines over the stack. */
  lines: string[]
  hasValues: boolean
  events: EventMark[]
  timeTicks: Tick[]
  valueTicks: Tick[]
}

type Times = Pick<
  FleetHistoryDto,
  'from' | 'intervalSeconds' | 'intervals' | 'isRunning' | 'events'
>
export type EventKinds = readonly FleetEventDto['kind'][]

const CAUSE_WORDS: Record<CallFailure, string> = {
  fault: 'Fault',
  stall: 'Timeout',
  busy: 'Busy',
  corrupt: 'Invalid response',
  client: 'Refused',
}

export function sumsOf(intervals: number, some: readonly (readonly number[])[]): number[] {
  const sums = new Array<number>(intervals).fill(0)
  for (const values of some) for (const [at, n] of values.entries()) sums[at] = (sums[at] ?? 0) + n
  return sums
}

export function allOf(intervals: number, { series, others }: CountsDto): number[] {
  return sumsOf(intervals, [
    ...series.map(({ values }) => values),
    ...(others === null ? [] : [others.values]),
  ])
}

/**
 * Prepares counts as a stack. Each count is divided by `per`. If `per` is the length of an interval in seconds, the
 * results are rates per second.
 */
export function prepareCounts(
  history: Times,
  { series, others }: CountsDto,
  kinds: EventKinds,
  { per = 1, lines = [] }: { per?: number; lines?: readonly SeriesDto[] } = {},
): HistoryData {
  const rest = others === null ? null : `${others.n} more`
  const all = others === null || rest === null ? series : [...series, { name: rest, ...others }]
  const scaled = all.map(({ name, values }) => ({ name, values: values.map((n) => n / per) }))
  return { ...prepared(history, scaled, 'stacked', kinds, lines), others: rest }
}

export function prepareCauses(
  history: Times,
  byCause: Partial<Record<CallFailure, number[]>>,
  kinds: EventKinds,
  lines: readonly SeriesDto[] = [],
): HistoryData {
  const series = Object.entries(byCause)
    .map(([cause, values]) => ({ name: CAUSE_WORDS[cause as CallFailure], values }))
    .filter(({ values }) => values.some((n) => n > 0))
  return prepared(history, series, 'stacked', kinds, lines)
}

export function prepareDurations(
  history: Times,
  series: readonly SeriesDto[],
  kinds: EventKinds,
): HistoryData {
  return prepared(history, series, 'durations', kinds)
}

export function prepareLines(
  history: Times,
  series: readonly SeriesDto[],
  kinds: EventKinds,
): HistoryData {
  return prepared(history, series, 'lines', kinds)
}

export function omittedText({ series, n }: LinesDto, what: string): string {
  return n > series.length ? `; the ${series.length} highest of ${n} ${what}` : ''
}

function prepared(
  history: Times,
  series: readonly SeriesDto[],
  kind: 'stacked' | 'durations' | 'lines',
  kinds: EventKinds,
  lines: readonly SeriesDto[] = [],
): HistoryData {
  const { from, intervalSeconds, intervals } = history
  const fromMs = Date.parse(from)
  const rows = Array.from({ length: intervals }, (_, at): HistoryRow => {
    const row: HistoryRow = { at: fromMs + at * intervalSeconds * 1_000 }
    if (history.isRunning && at === intervals - 1) row.isRunning = true
    for (const { name, values } of [...series, ...lines]) row[`of:${name}`] = values[at] ?? null
    return row
  })
  const valuesOf = (some: readonly SeriesDto[], row: HistoryRow) =>
    some.map(({ name }) => row[`of:${name}`] ?? 0)
  const most = Math.max(
    0,
    ...rows.map((row) => {
      const values = valuesOf(series, row)
      const top = kind === 'stacked' ? [values.reduce((sum, n) => sum + n, 0)] : values
      return Math.max(0, ...top, ...valuesOf(lines, row))
    }),
  )
  // A 0 in a line is a reported value; a 0 in a stack means that nothing happened.
  const hasValues =
    most > 0 || (kind !== 'stacked' && series.some(({ values }) => values.some((n) => n !== null)))
  return {
    rows,
    names: series.map(({ name }) => name),
    others: null,
    lines: lines.map(({ name }) => name),
    hasValues,
    events: eventMarks(history, kinds),
    timeTicks: timeTicks(rows.map(({ at }) => at)),
    valueTicks:
      kind === 'durations'
        ? durationTicks(most || 1)
        : kind === 'lines' || most < 4
          ? niceTicks(0, most)
          : linearTicks(most),
  }
}

function eventMarks({ from, intervalSeconds, events }: Times, kinds: EventKinds): EventMark[] {
  const [fromMs, lengthMs] = [Date.parse(from), intervalSeconds * 1_000]
  const shown = events.filter(({ kind }) => kinds.includes(kind))
  const slotOf = ({ at }: FleetEventDto) => Math.floor((Date.parse(at) - fromMs) / lengthMs)
  return [...Map.groupBy(shown, slotOf)].map(([slot, some]) => ({
    at: fromMs + slot * lengthMs,
    isBad: some.some(({ to }) => to !== 'ready'),
    events: some.map(({ at, kind, name, to, cause, n }) => ({
      label: `${lengthMs > HOUR_MS ? dateTime(Date.parse(at)).slice(5, 16) : clockTime(Date.parse(at))} ${name} ${
        kind === 'died' ? 'died' : to
      }${n > 1 ? `, ${n} times` : ''}`,
      note: cause,
    })),
  }))
}

function timeTicks(times: readonly number[]): Tick[] {
  const every = Math.max(1, Math.ceil(times.length / LABELS))
  const span = (times.at(-1) ?? 0) - (times[0] ?? 0)
  return times.flatMap((at, i) => (i % every === 0 ? [{ at, label: timeLabel(at, span) }] : []))
}
