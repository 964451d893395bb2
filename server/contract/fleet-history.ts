import { z } from 'zod'

/** Selectable ranges of the fleet over time, in seconds. */
export const HISTORY_RANGES_S = [900, 3_600, 21_600, 86_400, 604_800, 2_592_000] as const
/** Maximum intervals of a range. */
export const MAX_HISTORY_INTERVALS = 180

/** The input of `fleet.history`. */
export const FleetHistoryInput = z.strictObject({
  /** The length of the range in seconds. Up to an hour is read from ten-second rows, longer ranges from minutes. */
  seconds: z.int().min(60).max(2_592_000).default(900),
  /** The end of the range, epoch seconds; left out: now. */
  until: z.int().min(0).max(253_402_300_799).optional(),
})
export type FleetHistoryInput = z.infer<typeof FleetHistoryInput>

/** p50, p95 and p99 of durations in ms, at most 9 % off; null without any. */
export interface QuantilesDto {
  n: number
  p50: number | null
  p95: number | null
  p99: number | null
}

/** A worker by interval. */
export interface WorkerHistoryDto {
  id: string
  scored: number[]
  failed: number[]
  /** Means over the interval; null without a report. */
  inFlight: (number | null)[]
  capacity: (number | null)[]
  /** The highest p99 of the event-loop delay, in ms. */
  loopP99Ms: (number | null)[]
}

/** A server by interval. */
export interface ServerHistoryDto {
  id: string
  name: string
  model: string
  requests: number[]
  /** Failed requests by cause. `fault`: server errors, timeouts and broken connections. */
  failures: { busy: number[]; invalid: number[]; refused: number[]; fault: number[] }
  retries: number[]
  hedges: number[]
  ejections: number[]
  inFlight: (number | null)[]
  /** Maximum requests in flight that the processes may send to the server, in total; 0 while it is ejected. */
  capacity: (number | null)[]
  /** p95 of requests that returned a score, in ms; null without any, and in ranges of more than a day. */
  p95Ms: (number | null)[]
}

/** The output of `fleet.history`: lists have one entry for each interval. */
export interface FleetHistoryDto {
  /** Start of the first interval. */
  from: string
  intervalSeconds: number
  intervals: number
  workers: WorkerHistoryDto[]
  servers: ServerHistoryDto[]
  /** The largest ratio of request share to capacity share within a pool, by model; null without requests. */
  imbalance: { model: string; values: (number | null)[] }[]
  /** `queue`: from acceptance to the first dispatch. `router`: waiting for a slot. `service`: server calls, or rules. */
  latency: { queue: QuantilesDto[]; router: QuantilesDto[]; service: QuantilesDto[] }
}
