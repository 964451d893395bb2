import type { EngineRequest, EngineScore } from '../engines/engine.ts'
import { monotonicEpochMs } from '../monotonic-clock.ts'
import type { FlightCall } from './micro-batch.ts'
import type { PoolServer } from './pool-server.ts'
import type { RoutedSample } from './routed-sample.ts'
import type { HedgeKind } from './router-types.ts'

/** One call to one server for a sample, alone or in a micro-batch, from taking a slot to releasing it. */
export class Flight {
  readonly sample: RoutedSample
  readonly server: PoolServer
  readonly hedge: HedgeKind | null
  /** Id of the server whose call this one hedges, or null for a normal call. */
  readonly hedgeOf: number | null
  readonly startedAtMs: number
  readonly startedEpochMs = monotonicEpochMs()
  readonly queueMs: number
  readonly backoffMs: number
  tokens = 0
  /** Whether the server had already received the prompt of the sample's group. */
  hasKnownGroup = false
  /** Number among the calls of a traced sample, or null if the sample is not traced. */
  readonly callNo: number | null
  /** The server's health period when the flight began, from `ServerHealth.begin`. */
  period = 0
  /** The HTTP call; null if the owner of the slot, such as the proxy of the router address, sends the request itself. */
  call: FlightCall | null = null
  /** The received score, while the offsets of its tokens are requested, or null if no score was received yet. */
  scored: EngineScore | null = null
  /** True if no further hedge is sent, because the sample was hedged during this call or it is too late for a hedge. */
  isHedged = false

  // Neighbors in the server's list of flights, which is ordered by start.
  older: Flight | null = null
  newer: Flight | null = null

  constructor(sample: RoutedSample, server: PoolServer, hedge: HedgeKind | null, nowMs: number) {
    this.sample = sample
    this.server = server
    this.hedge = hedge
    this.hedgeOf = hedge === null ? null : (sample.flight?.server ?? server).id
    this.startedAtMs = nowMs
    this.callNo = sample.request.trace?.nextCall() ?? null
    this.backoffMs = Math.max(0, Math.min(nowMs, sample.backoffUntilMs) - sample.waitingSinceMs)
    this.queueMs = Math.max(0, nowMs - Math.max(sample.waitingSinceMs, sample.backoffUntilMs))
  }

  traced(request: EngineRequest): EngineRequest {
    const { trace } = this.sample.request
    if (trace === undefined || this.callNo === null) return request
    return { ...request, headers: { ...request.headers, ...trace.headersOf(this.callNo) } }
  }
}
