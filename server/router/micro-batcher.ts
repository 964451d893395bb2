import { type EventLoopUtilization, performance } from 'node:perf_hooks'
import { clip, failure } from '../engines/answer.ts'
import type {
  EngineFailure,
  EngineRequest,
  EngineScore,
  MicroBatchProtocol,
  ScoreInput,
} from '../engines/engine.ts'
import { classifyCallError } from './call-error.ts'
import type { Flight } from './flight.ts'
import { MicroBatch } from './micro-batch.ts'
import type { PoolServer } from './pool-server.ts'
import type { MicroBatchOptions } from './router-types.ts'
import type { CallListener, HttpCall } from './transport.ts'

const SAMPLES_PER_CALL = 8
const WORK_MS = 20
const SPLIT_CHECKS = 2
/** Number of scored samples after which a server's speed is known. */
const SEEN_SAMPLES = 64
/**
 * A micro-batch has at most as many samples as the server's slots divided by this number, so that the server has
 * further requests to process while it answers one.
 */
const MIN_CALLS = 4
/** Maximum number of characters per request. text-embeddings-inference accepts bodies of 2 MB. */
const MAX_CHARS = 400_000
/** While at least half of a server's slots are in use, a micro-batch waits this long for more samples, ms. */
const WAIT_MS = 2

/**
 * Interval between measurements of the process's load, ms. It is short because a step of a fast model takes only a
 * second.
 */
const CHECK_MS = 20
/** Measurements over a longer interval than this are ignored, ms. */
const STALE_MS = 500
/**
 * The process counts as busy once its event-loop utilization reaches {@link BUSY_FROM}, and until it falls below {@link
 * BUSY_UNTIL}. The bounds differ because micro-batching itself lowers the utilization.
 */
const BUSY_FROM = 0.7
const BUSY_UNTIL = 0.4

export interface MicroBatcherOwner {
  sendAlone(flight: Flight): void
  scored(
    flight: Flight,
    status: number,
    tokens: number | null,
    serviceMs: number,
    nowMs: number,
  ): void
  /**
   * Handles a failed attempt of the sample. `blamed` is true for only one sample of a request, so that the failure
   * counts once towards the server's ejection. The server's error count includes every sample.
   */
  failed(flight: Flight, failed: EngineFailure, serviceMs: number, blamed: boolean): void
  /** Handles a request that was not sent, because this process's share of the limit has expired. */
  recalled(flight: Flight, nowMs: number): void
  /**
   * Sends the sample again alone, without charging an attempt. `blamed` is true if the failure is added to the server's
   * error count.
   */
  apart(flight: Flight, failed: EngineFailure, serviceMs: number, blamed: boolean): void
}

/**
 * Combines samples that are bound to the same server within a few milliseconds into one request, if the server is so
 * fast and this process so busy that the requests themselves limit throughput. Only the first attempts of a step's
 * samples are combined. Failed or slow samples are retried alone.
 */
export class MicroBatcher implements CallListener<MicroBatch> {
  readonly #owner: MicroBatcherOwner
  readonly #options: Omit<MicroBatchOptions, 'slowMs'>
  /**
   * Micro-batches not sent yet. Each is sent when it is full, at the end of this turn of the event loop, or after
   * {@link WAIT_MS} if the server has enough work. Without that wait, a request with only one sample would immediately
   * take each slot that becomes free.
   */
  readonly #open = new Map<PoolServer, MicroBatch>()
  readonly #sent = new Set<MicroBatch>()
  #immediate: NodeJS.Immediate | null = null
  #timer: NodeJS.Timeout | null = null
  readonly #flush = () => this.#sendAll()

  constructor(owner: MicroBatcherOwner, options: Partial<MicroBatchOptions> = {}) {
    this.#owner = owner
    const load = new OwnLoad()
    this.#options = {
      samplesPerRequest: options.samplesPerRequest ?? SAMPLES_PER_CALL,
      isBusy: options.isBusy ?? ((nowMs) => load.isBusy(nowMs)),
      workMs: options.workMs ?? WORK_MS,
      splitChecks: options.splitChecks ?? SPLIT_CHECKS,
    }
  }

  /**
   * Adds the flight to a micro-batch, which is sent even if no other flight joins. Returns false if the flight must be
   * sent alone now.
   */
  take(flight: Flight, nowMs: number): boolean {
    const { server } = flight
    const maxSamples = this.#maxSamples(flight, nowMs)
    if (maxSamples < 2) return false
    const protocol = server.microBatch as MicroBatchProtocol
    let microBatch = this.#open.get(server)
    if (
      microBatch !== undefined &&
      (microBatch.chars + flight.sample.chars > MAX_CHARS || microBatch.target !== server.target)
    ) {
      this.#send(microBatch)
      microBatch = undefined
    }
    if (microBatch === undefined) {
      microBatch = new MicroBatch(server, protocol)
      this.#open.set(server, microBatch)
    }
    microBatch.add(flight)
    if (microBatch.flights.length >= maxSamples) this.#send(microBatch)
    else if ((server.inFlight - microBatch.flights.length) * 2 >= server.slots) {
      this.#timer ??= setTimeout(this.#flush, WAIT_MS)
    } else this.#immediate ??= setImmediate(this.#flush)
    return true
  }

  #maxSamples({ sample, server, hedge }: Flight, nowMs: number): number {
    const { samplesPerRequest, isBusy, workMs } = this.#options
    if (samplesPerRequest < 2 || hedge !== null || sample.input === null) return 1
    if (sample.attempts.length > 0 || sample.priorityClass === 'interactive') return 1
    if (server.microBatch === null || nowMs < server.apartUntilMs) return 1
    // A sample longer than any that its server has scored is sent alone, because it may exceed the context.
    if (sample.tokens > server.longestTokens) return 1
    const { rating } = server
    if (rating.samples < SEEN_SAMPLES || !isBusy(nowMs)) return 1
    const sampleMs = (rating.expectedMs(sample.tokens) as number) / server.inFlight
    return Math.min(
      samplesPerRequest,
      Math.floor(server.slots / MIN_CALLS),
      Math.floor(workMs / sampleMs),
    )
  }

  /** Splits requests that a slow sample delays. Called every 100 ms while there are samples. */
  look(nowMs: number): void {
    for (const microBatch of this.#sent) {
      const isLeft = microBatch.flights.every((flight) => flight === null)
      if (!isLeft && ++microBatch.checks < this.#options.splitChecks) continue
      this.#sent.delete(microBatch)
      if (isLeft) continue
      const serviceMs = nowMs - microBatch.sentAtMs
      const detail = `no answer within ${Math.round(serviceMs)} ms`
      microBatch.server.apart('slow', nowMs)
      const flights = microBatch.flights.slice()
      for (const flight of flights) if (flight !== null) microBatch.leave(flight)
      this.#end('apart', microBatch, flights, failure('stall', 'timeout', detail), serviceMs)
    }
  }

  /** Called from inside the HTTP parser, so it must not begin a call. */
  onCallEnd(call: HttpCall<MicroBatch>): void {
    const microBatch = call.context
    this.#sent.delete(microBatch)
    const { server, flights } = microBatch
    const nowMs = performance.now()
    const serviceMs = nowMs - microBatch.sentAtMs
    if (call.isUnsent) {
      for (const flight of flights) if (flight !== null) this.#owner.recalled(flight, nowMs)
      return
    }
    const answer =
      call.error === null
        ? microBatch.protocol.parse(
            call.status,
            call.headers,
            call.bodyText(),
            flights.length,
            microBatch.target,
          )
        : classifyCallError(call, serviceMs)
    if (!answer.ok) {
      const isRefused = answer.class === 'client' || answer.class === 'corrupt'
      if (answer.class !== 'conn_race') server.apart(isRefused ? 'refused' : 'slow', nowMs)
      // A refusal or an invalid response does not show which sample caused it, so each sample is sent again alone. Any
      // other failure is handled for each sample as if the sample had been sent alone.
      this.#end(isRefused ? 'apart' : 'failed', microBatch, flights, answer, serviceMs)
      return
    }
    const { scores, promptTokens } = answer
    flights.forEach((flight, i) => {
      if (flight === null) return
      const score = scores[i] as EngineScore | EngineFailure
      if (!score.ok) {
        // The sample may get a score when sent alone: its result must not depend on the other samples of the request.
        server.apart('slow', nowMs)
        this.#owner.apart(flight, ofMicroBatch(score, flights), serviceMs, true)
        return
      }
      flight.sample.accept(score)
      // The server counts the tokens of all samples together. Each sample gets its estimated share.
      const tokens =
        promptTokens === null ? null : (promptTokens * flight.sample.tokens) / microBatch.tokens
      this.#owner.scored(flight, call.status, tokens, serviceMs, nowMs)
    })
  }

  #end(
    how: 'apart' | 'failed',
    microBatch: MicroBatch,
    flights: readonly (Flight | null)[],
    failed: EngineFailure,
    serviceMs: number,
  ): void {
    const detailed = ofMicroBatch(failed, flights)
    for (const flight of flights) {
      if (flight !== null) this.#owner[how](flight, detailed, serviceMs, microBatch.blame())
    }
  }

  #sendAll(): void {
    if (this.#immediate !== null) clearImmediate(this.#immediate)
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#immediate = null
    this.#timer = null
    for (const microBatch of this.#open.values()) this.#send(microBatch)
  }

  #send(microBatch: MicroBatch): void {
    const { server, protocol, target } = microBatch
    this.#open.delete(server)
    // Flights that left before now were removed from the list, so no entry is null.
    const flights = microBatch.flights as Flight[]
    let request: EngineRequest | null = null
    if (flights.length > 1) {
      const inputs = flights.map(({ sample }) => sample.input as ScoreInput)
      try {
        request = protocol.build(inputs, target)
      } catch {
        // The model's template rejects one of the prompts. That sample fails with the reason when it is sent alone.
      }
    }
    if (request === null) {
      for (const flight of flights) this.#owner.sendAlone(flight)
      return
    }
    this.#sent.add(microBatch)
    // A request has one trace context: that of its first traced sample.
    const traced = flights.find(({ callNo }) => callNo !== null)
    server.post(microBatch.callFor(this), traced?.traced(request) ?? request)
  }
}

function ofMicroBatch(failed: EngineFailure, flights: readonly unknown[]): EngineFailure {
  const detail = `in one request with ${flights.length - 1} other samples: ${failed.detail}`
  return { ...failed, detail: clip(detail) }
}

/** Measures whether this process is short of CPU time, by the utilization of its event loop. */
class OwnLoad {
  #at = 0
  #last: EventLoopUtilization = performance.eventLoopUtilization()
  #isBusy = false

  isBusy(nowMs: number): boolean {
    if (nowMs - this.#at < CHECK_MS) return this.#isBusy
    const now = performance.eventLoopUtilization()
    const { utilization } = performance.eventLoopUtilization(now, this.#last)
    const isRecent = nowMs - this.#at < STALE_MS
    this.#isBusy = isRecent && utilization >= (this.#isBusy ? BUSY_UNTIL : BUSY_FROM)
    this.#at = nowMs
    this.#last = now
    return this.#isBusy
  }
}
