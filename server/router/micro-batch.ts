import type { EngineTarget, MicroBatchProtocol } from '../engines/engine.ts'
import type { Flight } from './flight.ts'
import type { PoolServer } from './pool-server.ts'
import { type CallListener, HttpCall } from './transport.ts'

/** Controls a flight's HTTP request, which other samples of a micro-batch may share. */
export interface FlightCall {
  /** HTTP status of the answer; 0 until it begins. */
  readonly status: number
  /** Abandons the flight. Its result is then ignored, even if the request goes on for other samples. */
  abandon(): void
  /** Returns true only for the first caller, so that a request's failure is counted once against its server. */
  blame(): boolean
}

/**
 * Samples sent to one server in one request. Each has its own slot, attempt and result. A sample leaves the micro-batch
 * when it is aborted, superseded by its hedge or out of time. The request is cancelled when its last sample leaves.
 */
export class MicroBatch {
  readonly server: PoolServer
  /** The server's protocol and target when the samples were bound to it. Both may change before the answer arrives. */
  readonly protocol: MicroBatchProtocol
  readonly target: EngineTarget
  /** Time at which the request was sent; NaN before. */
  sentAtMs = Number.NaN
  /** Number of checks since the request was sent, one every 100 ms. See `MicroBatcher.look`. */
  checks = 0
  /** The flight of each text, in the order of the request. An entry is null once its flight has left the micro-batch. */
  readonly flights: (Flight | null)[] = []
  /** Estimated tokens of the samples, ignoring the server's prefix cache. */
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

  add(flight: Flight): void {
    this.flights.push(flight)
    this.tokens += flight.sample.tokens
    this.chars += flight.sample.chars
    flight.call = new MicroBatchPart(this, flight)
  }

  callFor(listener: CallListener<MicroBatch>): HttpCall<MicroBatch> {
    this.sentAtMs = performance.now()
    this.#call = new HttpCall<MicroBatch>(this, listener)
    return this.#call
  }

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
