import type { EngineTarget, MicroBatchProtocol } from '../engines/engine.ts'
import type { Flight } from './flight.ts'
import type { PoolServer } from './pool-server.ts'
import { type CallListener, HttpCall } from './transport.ts'

/** The operations of a flight on its call, whether the call is its own or shared. */
export interface FlightCall {
  /** HTTP status; 0 until an answer began. */
  readonly status: number
  /** Abandons the flight's part of the call; its result is ignored. */
  abandon(): void
  /** True for the first caller: a call's failure is counted once against its server, however many samples it had. */
  blame(): boolean
}

/**
 * Samples sent to one server in one request. Each has its own slot, attempt and end. A sample that is aborted, superseded
 * by its hedge or out of time leaves the others; the request is cancelled when the last one leaves.
 */
export class MicroBatch {
  readonly server: PoolServer
  /** The protocol and target when the samples were bound; the server may have another model by the time of the answer. */
  readonly protocol: MicroBatchProtocol
  readonly target: EngineTarget
  /** When the request was sent; NaN before. */
  sentAtMs = Number.NaN
  /** Checks of the watch since the request was sent. */
  checks = 0
  /** In the order of the texts sent; null for flights that left since. */
  readonly flights: (Flight | null)[] = []
  /** Estimated size of its samples, regardless of a server's prefix cache. */
  tokens = 0
  chars = 0
  #call: HttpCall<MicroBatch> | null = null
  #isBlamed = false

  constructor(server: PoolServer, protocol: MicroBatchProtocol) {
    this.server = server
    this.protocol = protocol
    this.target = server.target
  }

  get status(): number {
    return this.#call?.status ?? 0
  }

  /** Adds a flight, whose call this becomes. Only before the request is sent. */
  add(flight: Flight): void {
    this.flights.push(flight)
    this.tokens += flight.sample.tokens
    this.chars += flight.sample.chars
    flight.call = new MicroBatchPart(this, flight)
  }

  /** Creates the request for the flights in the micro-batch now. */
  callFor(listener: CallListener<MicroBatch>): HttpCall<MicroBatch> {
    this.sentAtMs = performance.now()
    this.#call = new HttpCall<MicroBatch>(this, listener)
    return this.#call
  }

  /** Removes an abandoned flight. */
  leave(flight: Flight): void {
    const at = this.flights.indexOf(flight)
    if (at < 0) return
    if (this.#call === null) {
      this.flights.splice(at, 1)
      this.tokens -= flight.sample.tokens
      this.chars -= flight.sample.chars
      return
    }
    this.flights[at] = null
    if (this.flights.every((other) => other === null)) this.#call.abandon()
  }

  /** See {@link FlightCall.blame}. */
  blame(): boolean {
    const first = !this.#isBlamed
    this.#isBlamed = true
    return first
  }
}

class MicroBatchPart implements FlightCall {
  readonly #microBatch: MicroBatch
  readonly #flight: Flight

  constructor(microBatch: MicroBatch, flight: Flight) {
    this.#microBatch = microBatch
    this.#flight = flight
  }

  get status(): number {
    return this.#microBatch.status
  }

  abandon(): void {
    this.#microBatch.leave(this.#flight)
  }

  blame(): boolean {
    return this.#microBatch.blame()
  }
}
