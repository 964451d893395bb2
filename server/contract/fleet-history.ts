import { z } from 'zod'

/** Selectable lengths of the range of `fleet.history`, in seconds. */
export const HISTORY_RANGES_S = [900, 3_600, 21_600, 86_400, 604_800, 2_592_000] as const
/** Minimum and maximum length of a range, in seconds. */
export const [MIN_HISTORY_S, MAX_HISTORY_S] = [60, 2_592_000]
/** Maximum number of intervals of a range. */
export const MAX_HISTORY_INTERVALS = 180
/** Maximum number of series in a chart: one for each hue. */
export const MAX_HISTORY_SERIES = 8
/** Maximum number of events per answer. */
export const MAX_HISTORY_EVENTS = 200

/** The input of `fleet.history`. */
export const FleetHistoryInput = z.strictObject({
  /**
   * The length of the range in seconds. Ranges of up to an hour within the last day are read from values per ten
   * seconds, others of up to a day from values per minute, and longer ones from values per hour.
   */
  seconds: z.int().min(MIN_HISTORY_S).max(MAX_HISTORY_S).default(900),
  /** The end of the range, epoch seconds. Default: now. */
  until: z.int().min(0).max(253_402_300_799).optional(),
})
export type FleetHistoryInput = z.infer<typeof FleetHistoryInput>

/**
 * p50, p95 and p99 of `n` durations, ms. They come from a logarithmic histogram and are up to 9 % off. Null if there
 * are no durations.
 */
export interface QuantilesDto {
  n: number
  p50: number | null
  p95: number | null
  p99: number | null
}

/** Values of a server, worker, pool or cause, one per interval. */
export interface SeriesDto {
  name: string
  /** Null for an interval without a value. */
  values: (number | null)[]
}

/** Counts of a server, worker or cause, one per interval. */
export interface CountSeriesDto {
  name: string
  values: number[]
}

/** Counts by interval: the eight largest series, sorted by name, and the sum of the others. */
export interface CountsDto {
  series: CountSeriesDto[]
  /** The sum of the `n` other series, or null if all series are listed. */
  others: { n: number; values: number[] } | null
}

/** Values by interval: the eight of `n` series with the highest values, sorted by name. */
export interface LinesDto {
  series: SeriesDto[]
  n: number
}

/** Causes of failed requests and of retries. */
export const CALL_FAILURES = ['fault', 'stall', 'busy', 'corrupt', 'client'] as const
/**
 * `fault`: server errors and broken connections · `stall`: timeouts and abandoned calls · `busy`: 429 and 503 ·
 * `corrupt`: invalid responses · `client`: other 4xx.
 */
export type CallFailure = (typeof CALL_FAILURES)[number]

/** A change of a server or worker. */
export interface FleetEventDto {
  at: string
  /** `ejected`: kept from traffic by its errors · `state`: a server changed its state · `died`: a worker died. */
  kind: 'ejected' | 'state' | 'died'
  /** The server's name or the worker's ID. */
  name: string
  /** The new state of a server; null for a worker. */
  to: string | null
  cause: string
  /** Number of such events in the interval. Each process ejects a server separately, and every ejection counts. */
  n: number
}

/** The output of `fleet.history`: lists have one entry for each interval. */
export interface FleetHistoryDto {
  /** Start of the first interval. */
  from: string
  intervalSeconds: number
  intervals: number
  /** True if the last interval has not ended, so its values still grow. */
  isRunning: boolean
  /** Samples whose results were written, by worker. */
  throughput: CountsDto
  /** Samples in flight and capacity of all workers, means over the interval; null if no worker reported. */
  load: { inFlight: (number | null)[]; capacity: (number | null)[] }
  /** The highest p99 of the event-loop delay, by worker, in ms. */
  loopP99Ms: LinesDto
  /** Requests by server. */
  requests: CountsDto
  /** Failed requests by cause. `fault` includes stalls. */
  failures: Record<Exclude<CallFailure, 'stall'>, number[]>
  /**
   * Retries, by cause and by the server whose call failed, and hedges. A retry is counted when that call fails, a hedge
   * when it starts. The sums equal the numbers of stored attempts.
   */
  retries: { byCause: Record<CallFailure, number[]>; byServer: CountsDto; hedges: number[] }
  /** The largest ratio of request share to capacity share within a pool, by model; null if there were no requests. */
  imbalance: LinesDto
  /** p95 of requests that returned a score, by server, in ms; null if there were none. */
  p95Ms: LinesDto
  /**
   * `queue`: from acceptance to the first dispatch. `router`: waiting for a slot. `service`: server call or rule
   * evaluation.
   */
  latency: { queue: QuantilesDto[]; router: QuantilesDto[]; service: QuantilesDto[] }
  /** The newest 200 events, oldest first: ejections, outages and returns of servers, and deaths of workers. */
  events: FleetEventDto[]
}
