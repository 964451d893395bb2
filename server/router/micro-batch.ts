import type { EngineTarget, MicroBatchProtocol } from '../engines/engine.ts'
import type { Flight } from './flight.ts'
import type { PoolServer } from './pool-server.ts'
import { type CallListener, HttpCall } from './transport.ts'

/** What a flight's owner may do with its call, whether it has one to itself or is one of several in it. */
export interface FlightCall {
  /** HTTP status; 0 until an answer began. */
  readonly status: number
  /** Gives the flight's part of the call up: nothing more is heard of it. */
  abandon(): void
  /** True for the first who asks: what a call did is counted against its server once, however many samples it had. */
  blame(): boolean
}

/**
 * Samples that go to one server in one call. Each has its own slot, attempt and end: one that is aborted, overtaken by its
 * hedge or out of time leaves the others, and only when the last has left is the call itself given up.
 */
export class MicroBatch {
  readonly server: PoolServer
  /** How the server was asked when its samples were bound to it; it may be another's model by the time of the answer. */
  readonly protocol: MicroBatchProtocol
  readonly target: EngineTarget
  /** When it was sent; NaN before. */
  sentAtMs = Number.NaN
  /** Looks of the watch that it has been out for. */
  looks = 0
  /** In the order of the texts sent; null where one has left since. */
  readonly flights: (Flight | null)[] = []
  /** Estimated, of its samples as they are, without regard to what a server has in its cache. */
  tokens = 0
  chars = 0
  #call: HttpCall<MicroBatch> | null = null
  #blamed = false

  constructor(server: PoolServer, protocol: MicroBatchProtocol) {
    this.server = server
    this.protocol = protocol
    this.target = server.target
  }

  /** HTTP status; 0 until an answer began. */
  get status(): number {
    return this.#call?.status ?? 0
  }

  /** Takes a flight in, which has this for its call from then on. Only before it is sent. */
  add(flight: Flight): void {
    this.flights.push(flight)
    this.tokens += flight.sample.tokens
    this.chars += flight.sample.chars
    flight.call = new MicroBatchPart(this, flight)
  }

  /** The call that carries those that are in it now. */
  callFor(listener: CallListener<MicroBatch>): HttpCall<MicroBatch> {
    this.sentAtMs = performance.now()
    this.#call = new HttpCall<MicroBatch>(this, listener)
    return this.#call
  }

  /** A flight is given up. */
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
    const first = !this.#blamed
    this.#blamed = true
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
