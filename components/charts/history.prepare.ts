import type {
  FleetHistoryDto,
  ServerHistoryDto,
  WorkerHistoryDto,
} from '../../server/contract/fleet-history.ts'
import { durationTicks, linearTicks, niceTicks, type Tick, timeLabel } from './ticks.ts'

/** One for each of the eight hues; more are summed. */
const MAX_SERIES = 8
const LABELS = 6

/** An interval; `at` is its begin in epoch ms. Values are by series. */
export interface HistoryRow {
  at: number
  /** The newest interval, whose values still grow. */
  isRunning?: boolean
  [series: `of:${string}`]: number | null
}

/** Series over time, prepared for drawing. */
export interface HistoryData {
  rows: HistoryRow[]
  /** Names of the series, in stacking order. */
  names: string[]
  /** The name of the sum of series beyond the hues; null where all are shown. */
  others: string | null
  /** Whether any value is above 0. */
  hasValues: boolean
  timeTicks: Tick[]
  valueTicks: Tick[]
}

type Series = readonly { name: string; values: readonly (number | null)[] }[]
type Times = Pick<FleetHistoryDto, 'from' | 'intervalSeconds' | 'intervals'>

/** Sums over workers or servers, by interval. */
export function sumsOf<T>(
  intervals: number,
  some: readonly T[],
  of: (one: T) => readonly number[],
): number[] {
  const sums = new Array<number>(intervals).fill(0)
  for (const one of some) for (const [at, n] of of(one).entries()) sums[at] = (sums[at] ?? 0) + n
  return sums
}

/** Scored and failed samples of a worker, by interval. */
export function endedOf({ scored, failed }: WorkerHistoryDto): number[] {
  return scored.map((n, at) => n + (failed[at] ?? 0))
}

/** Samples or requests per second, stacked by worker or server; the smallest beyond eight are one series. */
export function prepareRates(
  history: Times,
  series: readonly { name: string; counts: readonly number[] }[],
): HistoryData {
  const rates = series.map(({ name, counts }) => ({
    name,
    values: counts.map((n) => n / history.intervalSeconds),
    total: counts.reduce((sum, n) => sum + n, 0),
  }))
  const bySize = rates.toSorted((a, b) => b.total - a.total || byName(a, b))
  const shown = bySize.slice(0, MAX_SERIES).sort(byName)
  const rest = bySize.slice(MAX_SERIES)
  const others = rest.length === 0 ? null : `${rest.length} more`
  const sums = sumsOf(history.intervals, rest, ({ values }) => values)
  const all = others === null ? shown : [...shown, { name: others, values: sums }]
  return { ...prepared(history, all, 'stacked'), others }
}

/** Failed requests by cause, stacked, over all servers; causes that do not occur are left out. */
export function prepareFailures(history: Times, servers: readonly ServerHistoryDto[]): HistoryData {
  const sums = (of: (server: ServerHistoryDto) => readonly number[]) =>
    sumsOf(history.intervals, servers, of)
  const series = [
    { name: 'fault', values: sums(({ failures }) => failures.fault) },
    { name: 'busy', values: sums(({ failures }) => failures.busy) },
    { name: 'invalid response', values: sums(({ failures }) => failures.invalid) },
    { name: 'refused', values: sums(({ failures }) => failures.refused) },
  ].filter(({ values }) => values.some((n) => n > 0))
  return prepared(history, series, 'stacked')
}

/** Durations in ms as lines. */
export function prepareDurations(history: Times, series: Series): HistoryData {
  return prepared(history, series, 'durations')
}

/** Values as lines, from 0. */
export function prepareLines(history: Times, series: Series): HistoryData {
  return prepared(history, series, 'lines')
}

function prepared(
  { from, intervalSeconds, intervals }: Times,
  series: Series,
  kind: 'stacked' | 'durations' | 'lines',
): HistoryData {
  const fromMs = Date.parse(from)
  const rows = Array.from({ length: intervals }, (_, at): HistoryRow => {
    const row: HistoryRow = { at: fromMs + at * intervalSeconds * 1_000 }
    if (at === intervals - 1) row.isRunning = true
    for (const { name, values } of series) row[`of:${name}`] = values[at] ?? null
    return row
  })
  const values = rows.map((row) => series.map(({ name }) => row[`of:${name}`] ?? 0))
  const most = Math.max(
    0,
    ...values.map((some) =>
      kind === 'stacked' ? some.reduce((sum, n) => sum + n, 0) : Math.max(0, ...some),
    ),
  )
  return {
    rows,
    names: series.map(({ name }) => name),
    others: null,
    hasValues: most > 0,
    timeTicks: timeTicks(rows.map(({ at }) => at)),
    valueTicks:
      kind === 'durations'
        ? durationTicks(most)
        : kind === 'lines' || most < 4
          ? niceTicks(0, most)
          : linearTicks(most),
  }
}

function timeTicks(times: readonly number[]): Tick[] {
  const every = Math.max(1, Math.ceil(times.length / LABELS))
  const span = (times.at(-1) ?? 0) - (times[0] ?? 0)
  return times.flatMap((at, i) => (i % every === 0 ? [{ at, label: timeLabel(at, span) }] : []))
}

function byName(a: { name: string }, b: { name: string }): number {
  return a.name.localeCompare(b.name, 'en', { numeric: true })
}
