import type { SampleFailureReason } from '../contract/sample-reason.ts'
import { failure } from '../engines/answer.ts'
import type { EngineFailure, EngineRequest, FailureClass } from '../engines/engine.ts'
import { AbortRegistry } from './abort-registry.ts'
import { classifyCallError } from './call-error.ts'
import { CanarySample } from './canary-sample.ts'
import { Flight } from './flight.ts'
import { MicroBatcher, type MicroBatcherOwner } from './micro-batcher.ts'
import type { ModelPool } from './model-pool.ts'
import type { PoolServer } from './pool-server.ts'
import { Refusals, type RefusalsOwner } from './refusals.ts'
import { backoffMs } from './retries.ts'
import type { RoutedSample } from './routed-sample.ts'
import type { HedgeKind, RouterOptions, SlotEnd } from './router-types.ts'
import { SharedSamples } from './shared-samples.ts'
import { SwapList } from './swap-list.ts'
import { TimerWheel } from './timer-wheel.ts'
import { type CallListener, HttpCall } from './transport.ts'

/** A timeout counts as the server's fault if its call had at least this share of the sample's time limit. */
const BLAMED_SHARE = 0.5

export interface SampleLifecycleOwner {
  onServerIdle(server: PoolServer): void
  /** Called when the pool's last unfinished sample has ended. */
  onPoolIdle(pool: ModelPool): void
}

/**
 * The states of a sample (in flight it may be part of a micro-batch, see {@link MicroBatcher}):
 *
 *     score ─▶ waiting ──slot free──▶ in flight ──score──▶ done
 *                 ▲                     │  │ ▲ hedge: a second, concurrent call; the first score counts
 *                 │                     │  └─┘
 *                 ├──── back-off ◀──────┤ retryable failure, and no other call in flight
 *                 └────── held ◀────────┘ refused, and no untried server ──its server's canary scored──▶ done
 *     following an identical sample ──its score──▶ done
 *     any state ──timeout · deadline · aborted · closed──▶ done
 *
 * Slots are taken only in `start` and released only in `#endFlight`.
 */
export class SampleLifecycle implements CallListener<Flight>, MicroBatcherOwner, RefusalsOwner {
  readonly #owner: SampleLifecycleOwner
  readonly #microBatcher: MicroBatcher
  readonly #refusals = new Refusals(this)
  readonly #wheel = new TimerWheel<RoutedSample>((sample) => this.#timeIsUp(sample))
  readonly #aborts = new AbortRegistry<RoutedSample>((sample) =>
    this.#fail(sample, 'cancelled', 'aborted'),
  )
  readonly #samples = new SwapList<RoutedSample>(
    (sample) => sample.lifeIndex,
    (sample, index) => {
      sample.lifeIndex = index
    },
  )
  readonly #shared = new SharedSamples((sample) => sample.pool.admit(sample, performance.now()))

  constructor(owner: SampleLifecycleOwner, options: RouterOptions = {}) {
    this.#owner = owner
    this.#microBatcher = new MicroBatcher(this, options.microBatching)
  }

  /**
   * Admits a sample to its pool. The sample's time limit starts at its first dispatch. Until then, it limits only the
   * time during which no server is healthy.
   */
  begin(sample: RoutedSample, nowMs: number): void {
    sample.pool.sampleCount++
    this.#samples.add(sample)
    this.#wheel.add(sample)
    if (sample.request.signal !== undefined) this.#aborts.add(sample.request.signal, sample)
    if (!this.#shared.follow(sample)) sample.pool.admit(sample, nowMs)
  }

  cancelAll(detail: string): void {
    for (const sample of this.#samples.all()) this.#fail(sample, 'cancelled', detail)
  }

  /** Splits slow micro-batches. Called every 100 ms while there are samples. */
  look(nowMs: number): void {
    this.#microBatcher.look(nowMs)
  }

  /** Called from inside the HTTP parser, so it must not start a call. */
  onCallEnd(call: HttpCall<Flight>): void {
    const flight = call.context
    const nowMs = performance.now()
    const serviceMs = nowMs - flight.startedAtMs
    if (call.isUnsent) this.recalled(flight, nowMs)
    else if (call.error !== null) {
      this.failed(flight, classifyCallError(call, serviceMs), serviceMs)
    } else {
      const answer = flight.sample.read(flight.server, call)
      if (answer.ok && answer.next !== undefined) this.#sendNext(flight, answer.next)
      else if (answer.ok) this.scored(flight, call.status, answer.tokens, serviceMs, nowMs)
      else this.failed(flight, answer, serviceMs)
    }
  }

  /** Called after the sample has stored its score. */
  scored(
    flight: Flight,
    status: number,
    tokens: number | null,
    serviceMs: number,
    nowMs: number,
  ): void {
    const { sample, server } = flight
    const other = sample.flight === flight ? sample.second : sample.flight
    if (other !== null) this.#supersede(other, nowMs)
    this.#endFlight(flight, 'ok', null, status, null, serviceMs)
    server.succeeded(flight, tokens, serviceMs, nowMs)
    // The score shows that the servers that refused the sample are at fault.
    if (sample.refusals !== null) this.#refusals.overruled(sample, server, nowMs)
    this.#release(sample)
    sample.succeed(server)
    this.#shared.scored(sample, server, (follower) => this.#release(follower))
    if (sample.pool.waiting > 0 || server.canary.isWanted) sample.pool.pumpSoon()
  }

  probe(pool: ModelPool, server: PoolServer, nowMs: number): void {
    this.#refusals.probe(pool, server, nowMs)
  }

  beginCanary(canary: CanarySample, server: PoolServer, nowMs: number): void {
    canary.pool.canaries.add(canary)
    this.#samples.add(canary)
    this.#wheel.add(canary)
    this.start(canary, server, null, nowMs)
  }

  confirmed(sample: RoutedSample, reason: SampleFailureReason, detail: string): void {
    this.#fail(sample, reason, detail, true)
  }

  start(sample: RoutedSample, server: PoolServer, hedge: HedgeKind | null, nowMs: number): void {
    sample.stopTimer()
    if (sample.deadlineAtMs < nowMs + sample.pool.fastestMs(sample.tokens, nowMs)) {
      if (sample.flight !== null) {
        // A hedge would be too late, but the call in flight may still end in time.
        sample.flight.isHedged = true
        if (hedge !== 'stall') sample.pool.hedgeBudget.forgone()
        return
      }
      this.#fail(sample, 'deadline', 'not sent: less time was left than a request takes')
      return
    }
    const flight = new Flight(sample, server, hedge, nowMs)
    if (sample.flight === null) sample.flight = flight
    else {
      sample.second = flight
      sample.flight.isHedged = true
      flight.isHedged = true
    }
    if (hedge === null) {
      if (sample.attempts.length === 0) this.#setDue(sample, sample.dueFrom(nowMs))
      if (sample.attemptsUsed > 0 && !sample.isRetry) sample.isRetry = true
      sample.attemptsUsed++
      if (sample.isRetry) sample.pool.retryBudget.begun()
    }
    sample.pool.hedgeBudget.begun(nowMs, hedge !== null)
    server.begin(flight, sample.attemptsUsed > 1 && hedge === null)
    sample.pool.began(sample, flight.tokens)
    if (!this.#microBatcher.take(flight, nowMs)) this.sendAlone(flight)
  }

  sendAlone(flight: Flight): void {
    const { sample, server } = flight
    let request: EngineRequest | null
    try {
      request = sample.build(server)
    } catch (error) {
      // The prompt has an invalid shape. Only this sample fails, and its slot is released.
      const refusal = failure('client', 'rejected', `the request cannot be built: ${error}`)
      this.failed(flight, refusal, 0)
      return
    }
    if (request === null) {
      // From now on, the owner of the slot enforces the time limit.
      this.#wheel.remove(sample)
      sample.granted(flight)
      return
    }
    const call = new HttpCall<Flight>(flight, this)
    flight.call = call
    server.post(call, flight.traced(request))
  }

  /** Sends a further request of a flight after the current callback, in the same slot. */
  #sendNext(flight: Flight, request: EngineRequest): void {
    queueMicrotask(() => {
      const { sample, server } = flight
      if (sample.flight !== flight && sample.second !== flight) return
      const call = new HttpCall<Flight>(flight, this)
      flight.call = call
      server.post(call, flight.traced(request))
    })
  }

  /** Handles the end of a call that the owner of a slot sent. */
  slotEnded(flight: Flight, end: SlotEnd): void {
    const { sample, server } = flight
    if (sample.done) return
    const nowMs = performance.now()
    const serviceMs = nowMs - flight.startedAtMs
    const { outcome } = end
    const detail = server.withoutKey(end.detail ?? '')
    this.#endFlight(
      flight,
      outcome === 'cancelled' ? 'client' : outcome,
      null,
      null,
      detail,
      serviceMs,
    )
    if (outcome === 'ok') server.succeeded(flight, end.tokens ?? null, serviceMs, nowMs)
    else if (outcome === 'cancelled') server.health.neutral(flight.period)
    else {
      server.failures[outcome]++
      if (outcome !== 'conn_race') server.errors++
      if (outcome === 'fault' || outcome === 'corrupt') {
        server.faulted(flight, 1, serviceMs, nowMs, detail)
      } else if (outcome === 'stall') server.faulted(flight, 0.5, serviceMs, nowMs, detail)
      else server.health.neutral(flight.period)
      if (outcome === 'busy') server.refused(end.retryAfterMs, flight.startedAtMs, nowMs)
    }
    this.#release(sample)
    sample.pool.pumpSoon()
  }

  /** Abandons a call that takes much longer than usual on its server. The sample is retried on another server. */
  giveUp(flight: Flight, nowMs: number, detail: string): void {
    const { sample, server } = flight
    if (sample.done || flight.call === null) return
    const serviceMs = nowMs - flight.startedAtMs
    server.failures.stall++
    server.errors++
    this.#endFlight(flight, 'stall', 'timeout', null, detail, serviceMs)
    flight.call.abandon()
    server.faulted(flight, 0.5, serviceMs, nowMs, detail)
    sample.tried ??= []
    sample.tried.push(server)
    if (sample.flight === null) {
      sample.waitingSinceMs = nowMs
      sample.backoffUntilMs = nowMs
      if (sample.isSpent) {
        this.#fail(sample, 'timeout', `${server.name} gave ${detail}`)
      } else {
        sample.pool.withdraw(sample)
        sample.pool.readmit(sample)
      }
    }
    sample.pool.pumpSoon()
  }

  /**
   * Abandons the calls to a server, because this process's share of the limit has expired and other processes may use
   * the slots. The samples wait again, and no attempt is charged.
   */
  recall(server: PoolServer): void {
    const nowMs = performance.now()
    for (const sample of this.#samples.all()) {
      for (const flight of [sample.flight, sample.second]) {
        if (flight?.server !== server) continue
        if (flight.call === null) {
          sample.recalled()
          continue
        }
        flight.call.abandon()
        this.recalled(flight, nowMs)
      }
    }
  }

  recalled(flight: Flight, nowMs: number): void {
    const { sample, server } = flight
    const detail = 'abandoned: this process could not renew its share of the limit'
    this.#endFlight(flight, 'recalled', null, null, detail, nowMs - flight.startedAtMs)
    server.health.neutral(flight.period)
    if (flight.hedge === null) sample.attemptsUsed--
    if (sample.flight !== null || sample.done) return
    if (sample instanceof CanarySample) {
      this.#fail(sample, 'cancelled', detail)
      return
    }
    sample.waitingSinceMs = nowMs
    sample.backoffUntilMs = nowMs
    sample.pool.withdraw(sample)
    sample.pool.readmit(sample)
  }

  #endFlight(
    flight: Flight,
    outcome: 'ok' | 'superseded' | 'recalled' | FailureClass,
    reason: SampleFailureReason | null,
    status: number | null,
    detail: string | null,
    serviceMs: number,
  ): void {
    const { sample, server } = flight
    server.end(flight)
    if (server.inFlight === 0) this.#owner.onServerIdle(server)
    if (sample.isRetry && flight.hedge === null) sample.pool.retryBudget.ended()
    sample.attempts.push({
      serverId: server.id,
      serverName: server.name,
      // `attemptsUsed` is 0 if the first call was not charged and only its hedge is left.
      attempt: Math.max(1, sample.attemptsUsed),
      startedAtMs: flight.startedEpochMs,
      queueMs: flight.queueMs,
      backoffMs: flight.backoffMs,
      serviceMs,
      outcome,
      ...(flight.hedgeOf === null ? {} : { hedgeOf: flight.hedgeOf }),
      ...(flight.callNo === null ? {} : { callNo: flight.callNo }),
      reason,
      status,
      detail,
    })
    if (sample.flight === flight) sample.flight = sample.second
    sample.second = null
  }

  #supersede(flight: Flight, nowMs: number): void {
    this.#endFlight(flight, 'superseded', null, null, null, nowMs - flight.startedAtMs)
    flight.call?.abandon()
    flight.server.health.neutral(flight.period)
  }

  /**
   * Handles one sample of a failed micro-batch. Another sample may be the cause, so this sample is sent again alone,
   * and no attempt is charged.
   */
  apart(flight: Flight, failed: EngineFailure, serviceMs: number, blamed: boolean): void {
    const { sample, server } = flight
    const nowMs = performance.now()
    const detail = server.withoutKey(failed.detail)
    const status = flight.call?.status || null
    this.#endFlight(flight, failed.class, failed.reason, status, detail, serviceMs)
    if (blamed) {
      server.failures[failed.class]++
      server.errors++
    }
    server.health.neutral(flight.period)
    sample.attemptsUsed--
    if (sample.flight === null) {
      sample.waitingSinceMs = nowMs
      sample.backoffUntilMs = nowMs
      this.#again(sample, server)
    } else sample.pool.pumpSoon()
  }

  /**
   * Handles a failed call. `blamed` is true for only one sample of a micro-batch, so that the failure counts once
   * towards the server's ejection. The counters `errors` and `failures` count samples, as `requests` does.
   */
  failed(flight: Flight, failed: EngineFailure, serviceMs: number, blamed = true): void {
    const { sample, server, period } = flight
    const nowMs = performance.now()
    const detail = server.withoutKey(failed.detail)
    const status = flight.call === null || flight.call.status === 0 ? null : flight.call.status
    let failureClass = failed.class
    if (failureClass === 'conn_race' && (sample.hasRaced || flight.hedge !== null))
      failureClass = 'fault'
    this.#endFlight(flight, failureClass, failed.reason, status, detail, serviceMs)
    server.failures[failureClass]++
    sample.waitingSinceMs = nowMs
    sample.backoffUntilMs = nowMs
    if (sample instanceof CanarySample) {
      sample.failure = failed
      if (failureClass === 'conn_race') server.dropIdleConnections()
    } else if (failureClass === 'conn_race') {
      server.health.neutral(period)
      this.#repeat(sample, server)
      return
    }
    server.errors++
    sample.tried ??= []
    sample.tried.push(server)
    if (failureClass === 'fault' && blamed) server.faulted(flight, 1, serviceMs, nowMs, detail)
    else server.health.neutral(period)
    if (failureClass === 'busy' && blamed)
      server.refused(failed.retryAfterMs, flight.startedAtMs, nowMs)
    if (failed.broken === true) server.canary.broke(nowMs)
    const isDoubtful = Refusals.isDoubtful(sample, server, failed)
    if (flight.hedge === null && (isDoubtful || failureClass === 'busy')) sample.uncharged++
    if (sample instanceof CanarySample) this.#fail(sample, failed.reason, detail)
    else if (isDoubtful) this.#refusals.take(sample, server, period, failed, nowMs)
    else if (failed.fitMaxTokens !== undefined && sample.fit(failed.fitMaxTokens)) {
      sample.attemptsUsed--
      this.#again(sample, server)
    } else if (failureClass === 'client') {
      this.#fail(sample, failed.reason, `${server.name} ${detail}`)
    }
    // The sample has another call in flight, whose outcome decides.
    else if (sample.flight !== null) sample.pool.withdraw(sample)
    else if (sample.isSpent) this.#fail(sample, failed.reason, `${server.name} ${detail}`)
    else this.#retry(sample, server, failed, nowMs)
    sample.pool.pumpSoon()
  }

  /** Repeats a call once after a connection race, on the same server if it is available. No attempt is charged. */
  #repeat(sample: RoutedSample, server: PoolServer): void {
    sample.hasRaced = true
    sample.attemptsUsed--
    server.dropIdleConnections()
    this.#again(sample, server)
  }

  /** Repeats a call after the current callback, on the same server if it is available. No attempt is charged. */
  #again(sample: RoutedSample, server: PoolServer): void {
    queueMicrotask(() => {
      if (sample.done || sample.flight !== null) return
      sample.pool.withdraw(sample)
      const nowMs = performance.now()
      const isIts = server.model === sample.pool.model
      if (isIts && server.hasRoom(nowMs)) this.start(sample, server, null, nowMs)
      else sample.pool.readmit(sample)
    })
  }

  #retry(sample: RoutedSample, server: PoolServer, failed: EngineFailure, nowMs: number): void {
    sample.pool.withdraw(sample)
    const elsewhere = sample.pool.anyUntried(sample, nowMs)
    if (failed.retryAfterMs !== undefined) {
      // The server pauses for all samples. This sample waits for the server only if no other server is usable.
      if (!elsewhere) sample.backoffUntilMs = Math.max(nowMs, server.pause.untilMs)
      sample.pool.readmit(sample)
      return
    }
    const isBusy = failed.class === 'busy'
    const failures = isBusy ? sample.attemptsUsed : sample.attemptsUsed - sample.uncharged
    const delayMs = isBusy && elsewhere ? 0 : backoffMs(failures, elsewhere)
    if (delayMs === 0) {
      sample.pool.readmit(sample)
      return
    }
    sample.backoffUntilMs = nowMs + delayMs
    sample.timer = setTimeout(() => {
      sample.timer = null
      sample.pool.readmit(sample)
    }, delayMs)
  }

  #setDue(sample: RoutedSample, dueAtMs: number): void {
    this.#wheel.remove(sample)
    sample.dueAtMs = dueAtMs
    this.#wheel.add(sample)
  }

  #timeIsUp(sample: RoutedSample): void {
    if (sample.done) return
    const nowMs = performance.now()
    const { pool, request } = sample
    if (nowMs >= sample.deadlineAtMs) {
      this.#fail(sample, 'deadline', 'the deadline passed before it was scored')
      return
    }
    const waitsForFirst = sample.flight === null && sample.attempts.length === 0
    if (waitsForFirst && (this.#shared.isFollowing(sample) || pool.anyHealthy(nowMs, sample))) {
      // The sample waits for its turn and not for a healthy server, so its time limit has not started.
      this.#setDue(sample, sample.dueFrom(nowMs))
      return
    }
    if (sample.flight !== null) {
      this.#outOfTime(sample, nowMs)
      return
    }
    const last = sample.attempts.at(-1)
    const before = last === undefined ? '' : `; before that ${last.serverName} ${last.detail}`
    if (sample.attempts.length > 0 && pool.anyUsable(nowMs)) {
      this.#fail(sample, 'timeout', `${request.timeoutMs} ms passed before a retry${before}`)
      return
    }
    this.#fail(
      sample,
      'no_server',
      `no healthy server of ${request.model} was free within ${Math.round(request.timeoutMs)} ms (${pool.describe(nowMs)})${before}`,
    )
  }

  #outOfTime(sample: RoutedSample, nowMs: number): void {
    let lastDetail = ''
    for (let flight = sample.flight; flight !== null; flight = sample.flight) {
      const { server, period } = flight
      const serviceMs = nowMs - flight.startedAtMs
      const detail = `no answer within ${Math.round(serviceMs)} ms`
      lastDetail = `${server.name} gave ${detail}`
      server.failures.stall++
      server.errors++
      this.#endFlight(flight, 'stall', 'timeout', null, detail, serviceMs)
      const blamed = flight.call?.blame() !== false
      flight.call?.abandon()
      // If the sample waited for most of its time limit, the server had too little time and is not at fault.
      if (blamed && serviceMs >= sample.request.timeoutMs * BLAMED_SHARE) {
        server.faulted(flight, 0.5, serviceMs, nowMs, detail)
      } else server.health.neutral(period)
    }
    this.#fail(sample, 'timeout', lastDetail)
    sample.pool.pumpSoon()
  }

  /** Fails a sample. If its refusal is `confirmed`, the identical samples that wait for its result fail too. */
  #fail(
    sample: RoutedSample,
    reason: SampleFailureReason,
    detail: string,
    confirmed = false,
  ): void {
    if (sample.done) return
    if (reason === 'cancelled' && sample instanceof CanarySample) sample.wasCancelled = true
    if (sample.flight !== null) {
      const nowMs = performance.now()
      for (let flight: Flight | null = sample.flight; flight !== null; flight = sample.flight) {
        // The owner of the slot sends this call, and releases the slot when the call ends.
        if (flight.call === null) return
        // A cancelled call has no class of its own. It is recorded as `client` and not counted as a failure.
        this.#endFlight(flight, 'client', reason, null, detail, nowMs - flight.startedAtMs)
        flight.call.abandon()
        flight.server.health.neutral(flight.period)
      }
      sample.pool.pumpSoon()
    }
    this.#release(sample)
    sample.refuse(reason, detail)
    if (confirmed) {
      this.#shared.refused(sample, reason, detail, (follower) => this.#release(follower))
    } else this.#shared.failed(sample)
  }

  #release(sample: RoutedSample): void {
    sample.done = true
    this.#wheel.remove(sample)
    this.#samples.delete(sample)
    const { pool } = sample
    pool.withdraw(sample)
    if (!pool.canaries.delete(sample) && --pool.sampleCount === 0) {
      for (const canary of [...pool.canaries]) {
        this.#fail(canary, 'cancelled', 'no sample waits for its result')
      }
      this.#owner.onPoolIdle(pool)
    }
    sample.stopTimer()
    sample.heldBy?.held.delete(sample)
    sample.heldBy = null
    if (sample.request.signal !== undefined) this.#aborts.delete(sample.request.signal, sample)
  }
}
