import {
  type FleetHistoryDto,
  type FleetHistoryInput,
  MAX_HISTORY_INTERVALS,
  type QuantilesDto,
  type ServerHistoryDto,
  type WorkerHistoryDto,
} from '../contract/fleet-history.ts'
import { Memo } from '../memo.ts'
import { LatencyHistogram } from '../router/latency-histogram.ts'
import type { DatabaseClock } from '../store/clock.ts'
import type { Database } from '../store/database.ts'
import {
  type HistoryRange,
  latencyHistory,
  type ServerHistoryRow,
  serverHistory,
  serverLatencyHistory,
  workerHistory,
} from '../store/sql/fleet-history.ts'
import type { LatencyKind } from '../store/sql/server-reports.ts'

/** Time that an answer is cached, shorter than the 10 s of a row. */
const TTL_MS = 2_000
const DAY_S = 86_400
/** Ranges up to this are read from ten-second rows; a day of them would be five million latency buckets. */
const FINE_S = 3_600

/** Throughput, balance, failures and latency of the fleet over time. */
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
    const range = rangeOf(seconds, until ?? this.#clock.nowMs() / 1_000)
    const [workers, servers] = await Promise.all([
      workerHistory(this.#db, range),
      serverHistory(this.#db, range),
    ])
    const latency = await latencyHistory(this.#db, range)
    const byServer = seconds > DAY_S ? [] : await serverLatencyHistory(this.#db, range)
    const quantiles = (kind: LatencyKind): QuantilesDto[] => {
      const found = new Map(
        latency.filter((row) => row.kind === kind).map((row) => [row.slot, row.counts]),
      )
      return Array.from({ length: range.intervals }, (_, slot) => quantilesOf(found.get(slot)))
    }
    const p95 = new Map(
      byServer.map(({ server_id, slot, counts }) => [
        `${server_id}/${slot}`,
        LatencyHistogram.from(counts).quantile(0.95),
      ]),
    )
    const described = [...Map.groupBy(servers, ({ server_id }) => server_id).values()].map((rows) =>
      serverOf(rows, range, (id, slot) => p95.get(`${id}/${slot}`) ?? null),
    )
    return {
      from: new Date(range.fromS * 1_000).toISOString(),
      intervalSeconds: range.intervalS,
      intervals: range.intervals,
      workers: [...Map.groupBy(workers, ({ worker_id }) => worker_id)].map(
        ([id, rows]): WorkerHistoryDto => ({
          id: `w${id}`,
          scored: filled(rows, range, (row) => row.scored, 0),
          failed: filled(rows, range, (row) => row.failed, 0),
          inFlight: filled(rows, range, (row) => row.in_flight_seconds / range.intervalS, null),
          capacity: filled(rows, range, (row) => row.capacity_seconds / range.intervalS, null),
          loopP99Ms: filled(rows, range, (row) => row.loop_p99_ms, null),
        }),
      ),
      servers: described,
      imbalance: [...Map.groupBy(described, ({ model }) => model)].map(([model, pool]) => ({
        model,
        values: Array.from({ length: range.intervals }, (_, slot) => imbalanceAt(pool, slot)),
      })),
      latency: {
        queue: quantiles('queue'),
        router: quantiles('router'),
        service: quantiles('service'),
      },
    }
  }
}

/** The range up to a time, in at most {@link MAX_HISTORY_INTERVALS} intervals that begin at multiples of their length. */
function rangeOf(seconds: number, untilS: number): HistoryRange {
  const isFine = seconds <= FINE_S
  const unit = isFine ? 10 : seconds > DAY_S ? 3_600 : 60
  const intervalS = Math.ceil(seconds / MAX_HISTORY_INTERVALS / unit) * unit
  const intervals = Math.ceil(seconds / intervalS)
  const endS = (Math.floor(untilS / intervalS) + 1) * intervalS
  return { fromS: endS - intervals * intervalS, intervalS, intervals, isFine }
}

function filled<Row extends { slot: number }, T>(
  rows: readonly Row[],
  { intervals }: HistoryRange,
  of: (row: Row) => T,
  empty: T | null,
): T[] {
  const values = new Array<T>(intervals).fill(empty as T)
  for (const row of rows) if (row.slot < intervals) values[row.slot] = of(row)
  return values
}

function serverOf(
  rows: readonly ServerHistoryRow[],
  range: HistoryRange,
  p95Of: (id: number, slot: number) => number | null,
): ServerHistoryDto {
  const { server_id, name, model } = rows[0] as ServerHistoryRow
  const counts = (of: (row: ServerHistoryRow) => number) => filled(rows, range, of, 0)
  return {
    ...{ id: `s${server_id}`, name, model },
    requests: counts((row) => row.requests),
    failures: {
      busy: counts((row) => row.busy),
      invalid: counts((row) => row.corrupt),
      refused: counts((row) => row.client),
      fault: counts((row) => Math.max(0, row.errors - row.busy - row.corrupt - row.client)),
    },
    retries: counts((row) => row.retries),
    hedges: counts((row) => row.hedges),
    ejections: counts((row) => row.ejections),
    inFlight: filled(rows, range, (row) => row.in_flight_seconds / range.intervalS, null),
    capacity: filled(rows, range, (row) => row.capacity_seconds / range.intervalS, null),
    p95Ms: Array.from({ length: range.intervals }, (_, slot) => p95Of(server_id, slot)),
  }
}

/** The largest ratio of request share to capacity share in a pool; null without requests or capacity. */
function imbalanceAt(pool: readonly ServerHistoryDto[], slot: number): number | null {
  const requests = pool.map((server) => server.requests[slot] as number)
  const capacity = pool.map((server) => server.capacity[slot] ?? 0)
  const all = requests.reduce((sum, n) => sum + n, 0)
  const total = capacity.reduce((sum, n) => sum + n, 0)
  if (all === 0 || total === 0) return null
  const ratios = requests.flatMap((n, at) =>
    (capacity[at] as number) > 0 ? [n / all / ((capacity[at] as number) / total)] : [],
  )
  return Math.max(...ratios)
}

function quantilesOf(counts: readonly number[] | undefined): QuantilesDto {
  if (counts === undefined) return { n: 0, p50: null, p95: null, p99: null }
  const histogram = LatencyHistogram.from(counts)
  return {
    n: histogram.total,
    p50: histogram.quantile(0.5),
    p95: histogram.quantile(0.95),
    p99: histogram.quantile(0.99),
  }
}
