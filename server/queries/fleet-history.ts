import {
  CALL_FAILURES,
  type CallFailure,
  type CountsDto,
  type FleetHistoryDto,
  type FleetHistoryInput,
  type LinesDto,
  MAX_HISTORY_EVENTS,
  MAX_HISTORY_INTERVALS,
  MAX_HISTORY_SERIES,
  type QuantilesDto,
  type SeriesDto,
} from '../contract/fleet-history.ts'
import { Memo } from '../memo.ts'
import { LatencyHistogram } from '../router/latency-histogram.ts'
import type { DatabaseClock } from '../store/clock.ts'
import type { Database } from '../store/database.ts'
import {
  type DurationsRow,
  fleetEvents,
  type HistoryRange,
  latencyHistory,
  retryHistory,
  type ServerHistoryRow,
  serverHistory,
  serverLatencyHistory,
  type WorkerHistoryRow,
  workerHistory,
} from '../store/sql/fleet-history.ts'
import { HEDGE } from '../store/sql/retries.ts'
import { LATENCY_KINDS } from '../store/sql/server-reports.ts'

/** Time for which an answer is cached. It is shorter than the 10 s that a row covers. */
const TTL_MS = 2_000
const DAY_S = 86_400
/**
 * Ranges up to this length are read from ten-second rows. A day of such rows would have five million latency buckets.
 */
const FINE_S = 3_600

/** Throughput, balance, retries and latency of the fleet over time. Answers have at most eight series for each chart. */
export class FleetHistory {
  readonly #db: Database
  readonly #clock: DatabaseClock
  readonly #memo = new Memo<FleetHistoryDto>(TTL_MS)

  constructor(db: Database, clock: DatabaseClock) {
    this.#db = db
    this.#clock = clock
  }

  get(input: FleetHistoryInput): Promise<FleetHistoryDto> {
    return this.#memo.get(JSON.stringify(input), () => this.#compute(input))
  }

  async #compute({ seconds, until }: FleetHistoryInput): Promise<FleetHistoryDto> {
    const nowS = this.#clock.nowMs() / 1_000
    const range = rangeOf(seconds, until, nowS)
    const [workers, servers] = await Promise.all([
      workerHistory(this.#db, range),
      serverHistory(this.#db, range),
    ])
    const [retries, events] = await Promise.all([
      retryHistory(this.#db, range),
      fleetEvents(this.#db, range, MAX_HISTORY_EVENTS),
    ])
    const latency = await latencyHistory(this.#db, range)
    const { intervals, intervalS } = range
    const byWorker = Map.groupBy(workers, ({ worker_id }) => `w${worker_id}`)
    const byServer = Map.groupBy(servers, ({ name }) => name)
    return {
      from: new Date(range.fromS * 1_000).toISOString(),
      intervalSeconds: intervalS,
      intervals,
      isRunning: range.fromS + intervals * intervalS > nowS,
      throughput: countsOf(byWorker, range, ({ scored, failed }) => scored + failed),
      load: {
        inFlight: meansOf(workers, range, (row) => row.in_flight_seconds),
        capacity: meansOf(workers, range, (row) => row.capacity_seconds),
      },
      loopP99Ms: linesOf(
        [...byWorker].map(([name, rows]) => {
          const values = new Array<number | null>(intervals).fill(null)
          for (const row of within(rows, range)) values[row.slot] = row.loop_p99_ms
          return { name, values }
        }),
      ),
      requests: countsOf(byServer, range, (row) => row.requests),
      failures: {
        fault: sumsOf(servers, range, (r) => Math.max(0, r.errors - r.busy - r.corrupt - r.client)),
        busy: sumsOf(servers, range, (row) => row.busy),
        corrupt: sumsOf(servers, range, (row) => row.corrupt),
        client: sumsOf(servers, range, (row) => row.client),
      },
      retries: {
        byCause: Object.fromEntries(
          CALL_FAILURES.map((cause) => [
            cause,
            sumsOf(retries, range, (row) => (row.cause === cause ? row.n : 0)),
          ]),
        ) as Record<CallFailure, number[]>,
        byServer: countsOf(
          Map.groupBy(
            retries.filter(({ cause }) => cause !== HEDGE),
            ({ name }) => name,
          ),
          range,
          (row) => row.n,
        ),
        hedges: sumsOf(retries, range, (row) => (row.cause === HEDGE ? row.n : 0)),
      },
      imbalance: linesOf(
        [...Map.groupBy(servers, ({ model }) => model)].map(([name, pool]) => ({
          name,
          values: imbalanceOf(pool, range),
        })),
      ),
      p95Ms: await this.#p95(range, servers),
      latency: Object.fromEntries(
        LATENCY_KINDS.map((kind) => [
          kind,
          quantilesBySlot(
            latency.filter((row) => row.kind === kind),
            range,
          ),
        ]),
      ) as FleetHistoryDto['latency'],
      events: events.map(({ at, ...event }) => ({ ...event, at: at.toISOString() })).reverse(),
    }
  }

  async #p95(range: HistoryRange, servers: readonly ServerHistoryRow[]): Promise<LinesDto> {
    const names = new Map(servers.map(({ server_id, name }) => [server_id, name]))
    const rows = await serverLatencyHistory(this.#db, range)
    return linesOf(
      [...Map.groupBy(rows, ({ server_id }) => server_id)].map(([id, own]) => ({
        name: names.get(id) ?? `s${id}`,
        values: quantilesBySlot(own, range).map(({ p95 }) => p95),
      })),
    )
  }
}

/**
 * Returns the range that ends at `until`, or now if it is undefined. The range is divided into at most {@link
 * MAX_HISTORY_INTERVALS} intervals that begin at multiples of their length.
 */
function rangeOf(seconds: number, until: number | undefined, nowS: number): HistoryRange {
  // Ten-second rows are kept for a day; those of the oldest hour may be missing already.
  const isFine = seconds <= FINE_S && (until === undefined || until > nowS - DAY_S + 2 * FINE_S)
  const rowS = isFine ? 10 : seconds > DAY_S ? 3_600 : 60
  const intervalS = Math.ceil(seconds / MAX_HISTORY_INTERVALS / rowS) * rowS
  const intervals = Math.ceil(seconds / intervalS)
  const endS = Math.ceil((until ?? nowS) / intervalS) * intervalS
  return { fromS: endS - intervals * intervalS, intervalS, intervals, rowS }
}

/** The rows within the range. A process may add a later row while the query runs. */
function within<Row extends { slot: number }>(rows: readonly Row[], range: HistoryRange): Row[] {
  return rows.filter(({ slot }) => slot < range.intervals)
}

function sumsOf<Row extends { slot: number }>(
  rows: readonly Row[],
  range: HistoryRange,
  of: (row: Row) => number,
): number[] {
  const sums = new Array<number>(range.intervals).fill(0)
  for (const row of within(rows, range)) sums[row.slot] = (sums[row.slot] as number) + of(row)
  return sums
}

/** Returns each interval's mean of the sum over all workers, or null if no worker reported in the interval. */
function meansOf(
  workers: readonly WorkerHistoryRow[],
  range: HistoryRange,
  of: (row: WorkerHistoryRow) => number,
): (number | null)[] {
  const reported = new Set(workers.map(({ slot }) => slot))
  return sumsOf(workers, range, of).map((sum, slot) =>
    reported.has(slot) ? sum / range.intervalS : null,
  )
}

function countsOf<Row extends { slot: number }>(
  groups: ReadonlyMap<string, readonly Row[]>,
  range: HistoryRange,
  of: (row: Row) => number,
): CountsDto {
  const all = [...groups].map(([name, rows]) => {
    const values = sumsOf(rows, range, of)
    return { name, values, total: values.reduce((sum, n) => sum + n, 0) }
  })
  const largest = all.toSorted((a, b) => b.total - a.total || byName(a, b))
  const rest = largest.splice(MAX_HISTORY_SERIES)
  const others = new Array<number>(range.intervals).fill(0)
  for (const { values } of rest)
    for (const [at, n] of values.entries()) others[at] = (others[at] as number) + n
  return {
    series: largest.sort(byName).map(({ name, values }) => ({ name, values })),
    others: rest.length === 0 ? null : { n: rest.length, values: others },
  }
}

function linesOf(all: readonly SeriesDto[]): LinesDto {
  const most = ({ values }: SeriesDto) => Math.max(...values.map((value) => value ?? 0))
  const highest = all.toSorted((a, b) => most(b) - most(a) || byName(a, b))
  return { series: highest.slice(0, MAX_HISTORY_SERIES).sort(byName), n: all.length }
}

/** Sorts w9 before w10. */
function byName(a: { name: string }, b: { name: string }): number {
  return a.name.localeCompare(b.name, 'en', { numeric: true })
}

/**
 * Returns, for each interval, the largest ratio of a server's share of its pool's requests to its share of the pool's
 * capacity, or null if there are no requests or no capacity.
 */
function imbalanceOf(pool: readonly ServerHistoryRow[], range: HistoryRange): (number | null)[] {
  const requests = sumsOf(pool, range, (row) => row.requests)
  const capacity = sumsOf(pool, range, (row) => row.capacity_seconds)
  const most = new Array<number | null>(range.intervals).fill(null)
  for (const { slot, requests: own, capacity_seconds } of within(pool, range)) {
    const [all, total] = [requests[slot] as number, capacity[slot] as number]
    if (all === 0 || capacity_seconds === 0) continue
    most[slot] = Math.max(most[slot] ?? 0, own / all / (capacity_seconds / total))
  }
  return most
}

function quantilesBySlot(
  rows: readonly DurationsRow[],
  { intervals }: HistoryRange,
): QuantilesDto[] {
  const bySlot = new Map(rows.map((row) => [row.slot, row]))
  return Array.from({ length: intervals }, (_, slot) => quantilesOf(bySlot.get(slot)))
}

function quantilesOf(row: DurationsRow | undefined): QuantilesDto {
  if (row === undefined) return { n: 0, p50: null, p95: null, p99: null }
  const histogram = new LatencyHistogram()
  for (const [at, bucket] of row.buckets.entries()) {
    histogram.counts[bucket - 1] = row.counts[at] as number
  }
  return {
    n: histogram.total,
    p50: histogram.quantile(0.5),
    p95: histogram.quantile(0.95),
    p99: histogram.quantile(0.99),
  }
}
