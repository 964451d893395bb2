import { monotonicEpochMs } from '../monotonic-clock.ts'
import type { FlightCall } from './micro-batch.ts'
import type { PoolServer } from './pool-server.ts'
import type { RoutedSample } from './routed-sample.ts'
import type { HedgeKind } from './router-types.ts'

/** One call of a sample to one server, or its part in one, from the slot it takes to the slot it gives back. */
export class Flight {
  readonly sample: RoutedSample
  readonly server: PoolServer
  /** Null for the usual call; else why it goes out while another is out for the same sample. */
  readonly hedge: HedgeKind | null
  readonly startedAtMs: number
  readonly startedEpochMs = monotonicEpochMs()
  readonly queueMs: number
  readonly backoffMs: number
  /** What it costs its server, in tokens, as estimated. */
  tokens = 0
  /** Its group's prompt was known to the server. */
  knownGroup = false
  /** Number from `ServerHealth.begin`. */
  period = 0
  /** Null where somebody else makes the call (a slot of the router address). */
  call: FlightCall | null = null
  /** It has a hedge, or had: none is made again. */
  isHedged = false

  // Links of its server's list, oldest first.
  older: Flight | null = null
  newer: Flight | null = null

  constructor(sample: RoutedSample, server: PoolServer, hedge: HedgeKind | null, nowMs: number) {
    this.sample = sample
    this.server = server
    this.hedge = hedge
    this.startedAtMs = nowMs
    this.backoffMs = Math.max(0, Math.min(nowMs, sample.backoffUntilMs) - sample.waitingSinceMs)
    this.queueMs = Math.max(0, nowMs - Math.max(sample.waitingSinceMs, sample.backoffUntilMs))
  }
}
