import { clip, failure } from '../engines/answer.ts'
import type {
  EngineFailure,
  EngineRequest,
  EngineScore,
  ScoreInput,
  ScoreJoin,
} from '../engines/engine.ts'
import { classifyCallError } from './call-error.ts'
import type { Flight } from './flight.ts'
import { OwnLoad } from './own-load.ts'
import type { PoolServer } from './pool-server.ts'
import type { JoinOptions } from './router-types.ts'
import { RowBundle } from './micro-batch.ts'
import type { CallListener, HttpCall } from './transport.ts'

/** See {@link JoinOptions}. */
const ROWS_PER_CALL = 8
const WORK_MS = 20
const SPLIT_LOOKS = 2
/** So many rows must have told. */
const SEEN_ROWS = 64
/** Calls that the slots are left for: a server must have the next while it answers one. */
const MIN_CALLS = 4
/** Characters of a call: text-embeddings-inference takes bodies of 2 MB. */
const MAX_CHARS = 400_000
/** While at least half of its slots are at work, a server's next call waits so long for more rows, ms. */
const HOLD_MS = 2

/** Who knows what becomes of a row. */
export interface RowBundlesOwner {
  sendAlone(flight: Flight): void
  scored(
    flight: Flight,
    status: number,
    tokens: number | null,
    serviceMs: number,
    nowMs: number,
  ): void
  /** An attempt of the row's is lost. `blamed`: the first row of its call, for which the server is counted at fault. */
  failed(flight: Flight, failed: EngineFailure, serviceMs: number, blamed: boolean): void
  /** It goes again by itself, for free. `blamed`: the first row of its call, for which the failure is told of. */
  apart(flight: Flight, failed: EngineFailure, serviceMs: number, blamed: boolean): void
}

/**
 * Rows begun in the same turn of the loop for the same server, put into one call where the server is so fast, and this
 * process so busy, that the calls themselves are what takes the time. Only a step's rows, at their first attempt: what
 * failed, or was out for long, is tried again alone, so that a row which breaks or stops a call breaks one.
 */
export class RowBundles implements CallListener<RowBundle> {
  readonly #owner: RowBundlesOwner
  readonly #options: Omit<JoinOptions, 'slowMs'>
  /**
   * Not sent yet: until they are full, or this turn of the loop has heard of every call that ended, or, where the server
   * has enough to do, a moment longer. Calls that end one by one would else go out again one by one.
   */
  readonly #open = new Map<PoolServer, RowBundle>()
  readonly #out = new Set<RowBundle>()
  #immediate: NodeJS.Immediate | null = null
  #timer: NodeJS.Timeout | null = null
  readonly #flush = () => this.#sendAll()

  constructor(owner: RowBundlesOwner, options: Partial<JoinOptions> = {}) {
    this.#owner = owner
    const load = new OwnLoad()
    this.#options = {
      rowsPerCall: options.rowsPerCall ?? ROWS_PER_CALL,
      isBusy: options.isBusy ?? ((nowMs) => load.isBusy(nowMs)),
      workMs: options.workMs ?? WORK_MS,
      splitLooks: options.splitLooks ?? SPLIT_LOOKS,
    }
  }

  /** True: the flight will be sent with others, or alone if none joins it. */
  take(flight: Flight, nowMs: number): boolean {
    const { server } = flight
    const most = this.#mostRows(flight, nowMs)
    if (most < 2) return false
    const join = server.join as ScoreJoin
    let bundle = this.#open.get(server)
    if (
      bundle !== undefined &&
      (bundle.chars + flight.row.chars > MAX_CHARS || bundle.target !== server.target)
    ) {
      this.#send(bundle)
      bundle = undefined
    }
    if (bundle === undefined) {
      bundle = new RowBundle(server, join)
      this.#open.set(server, bundle)
    }
    bundle.add(flight)
    if (bundle.flights.length >= most) this.#send(bundle)
    else if ((server.inFlight - bundle.flights.length) * 2 >= server.slots) {
      this.#timer ??= setTimeout(this.#flush, HOLD_MS)
    } else this.#immediate ??= setImmediate(this.#flush)
    return true
  }

  /** Rows that may go in one call with this one; 1: it goes alone. */
  #mostRows({ row, server, hedge }: Flight, nowMs: number): number {
    const { rowsPerCall, isBusy, workMs } = this.#options
    if (rowsPerCall < 2 || hedge !== null || row.input === null) return 1
    if (row.attempts.length > 0 || row.priorityClass === 'interactive') return 1
    if (server.join === null || nowMs < server.apartUntilMs) return 1
    // Over-long rows are found one by one: no row goes in company that is longer than what its server has scored.
    if (row.tokens > server.longestTokens) return 1
    const { rating } = server
    if (rating.samples < SEEN_ROWS || !isBusy(nowMs)) return 1
    const rowMs = (rating.expectedMs(row.tokens) as number) / server.inFlight
    return Math.min(rowsPerCall, Math.floor(server.slots / MIN_CALLS), Math.floor(workMs / rowMs))
  }

  /** Called about every tenth of a second while there are rows: splits a call that one of its rows holds up. */
  look(nowMs: number): void {
    for (const bundle of this.#out) {
      const isLeft = bundle.flights.every((flight) => flight === null)
      if (!isLeft && ++bundle.looks < this.#options.splitLooks) continue
      this.#out.delete(bundle)
      if (isLeft) continue
      const serviceMs = nowMs - bundle.sentAtMs
      const detail = `no answer within ${Math.round(serviceMs)} ms`
      bundle.server.apart('slow', nowMs)
      const flights = bundle.flights.slice()
      for (const flight of flights) if (flight !== null) bundle.leave(flight)
      this.#end('apart', bundle, flights, failure('stall', 'timeout', detail), serviceMs)
    }
  }

  /** Told from inside the HTTP parser: no call may begin in here. */
  onCallEnd(call: HttpCall<RowBundle>): void {
    const bundle = call.context
    this.#out.delete(bundle)
    const { server, flights } = bundle
    const nowMs = performance.now()
    const serviceMs = nowMs - bundle.sentAtMs
    const answer =
      call.error === null
        ? bundle.join.parse(
            call.status,
            call.headers,
            call.bodyText(),
            flights.length,
            bundle.target,
          )
        : classifyCallError(call, serviceMs)
    if (!answer.ok) {
      const isRefused = answer.class === 'client' || answer.class === 'corrupt'
      if (answer.class !== 'conn_race') server.apart(isRefused ? 'refused' : 'slow', nowMs)
      // What was refused, or is no score, says nothing of any one of them; the rest is each one's lost attempt.
      this.#end(isRefused ? 'apart' : 'failed', bundle, flights, answer, serviceMs)
      return
    }
    const { rows, promptTokens } = answer
    flights.forEach((flight, i) => {
      if (flight === null) return
      const score = rows[i] as EngineScore | EngineFailure
      if (!score.ok) {
        // Alone it may have one: what a server makes of a row must not depend on its company.
        server.apart('slow', nowMs)
        this.#owner.apart(flight, told(score, flights), serviceMs, true)
        return
      }
      flight.row.accept(score)
      // The server counted them together: each is taken for its share.
      const tokens =
        promptTokens === null ? null : (promptTokens * flight.row.tokens) / bundle.tokens
      this.#owner.scored(flight, call.status, tokens, serviceMs, nowMs)
    })
  }

  /** A call ended for all that are left in it; what the server has to do with that is counted once. */
  #end(
    how: 'apart' | 'failed',
    bundle: RowBundle,
    flights: readonly (Flight | null)[],
    failed: EngineFailure,
    serviceMs: number,
  ): void {
    const said = told(failed, flights)
    for (const flight of flights) {
      if (flight !== null) this.#owner[how](flight, said, serviceMs, bundle.blame())
    }
  }

  #sendAll(): void {
    if (this.#immediate !== null) clearImmediate(this.#immediate)
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#immediate = null
    this.#timer = null
    for (const bundle of this.#open.values()) this.#send(bundle)
  }

  #send(bundle: RowBundle): void {
    const { server, join, target } = bundle
    this.#open.delete(server)
    // None has left of one that was not sent: who leaves it then was never in it.
    const flights = bundle.flights as Flight[]
    let request: EngineRequest | null = null
    if (flights.length > 1) {
      const inputs = flights.map(({ row }) => row.input as ScoreInput)
      try {
        request = join.build(inputs, target)
      } catch {
        // One of them has a shape that the model's template does not take: alone it will be told so.
      }
    }
    if (request === null) {
      for (const flight of flights) this.#owner.sendAlone(flight)
      return
    }
    this.#out.add(bundle)
    server.post(bundle.callFor(this), request)
  }
}

function told(failed: EngineFailure, flights: readonly unknown[]): EngineFailure {
  const detail = `with ${flights.length - 1} others in one call: ${failed.detail}`
  return { ...failed, detail: clip(detail) }
}
