import { monotonicEpochMs } from '../monotonic-clock.ts'
import type { FlightCall } from './micro-batch.ts'
import type { PoolServer } from './pool-server.ts'
import type { RoutedSample } from './routed-sample.ts'
import type { HedgeKind } from './router-types.ts'

/** One call of a sample to one server, or its part of a micro-batch, from taking a slot to releasing it. */
export class Flight {
  readonly sample: RoutedSample
  readonly server: PoolServer
  /** Null for a normal call; else the reason for sending it while another call of the sample is in flight. */
  readonly hedge: HedgeKind | null
  readonly startedAtMs: number
  readonly startedEpochMs = monotonicEpochMs()
  readonly queueMs: number
  readonly backoffMs: number
  /** Its estimated cost for the server, in tokens. */
  tokens = 0
  /** The server had already received its group's prompt. */
  hasKnownGroup = false
  /** Number from `ServerHealth.begin`. */
  period = 0
  /** Null if the slot's owner makes the call (router address). */
  call: FlightCall | null = null
  /** It has or had a hedge; no further one is sent. */
  isHedged = false

  // Links of its server's list of flights, oldest first.
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
