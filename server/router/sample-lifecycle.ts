import type { SampleFailureReason } from '../contract/sample-reason.ts'
import { failure } from '../engines/answer.ts'
import type { EngineFailure, EngineRequest, FailureClass } from '../engines/engine.ts'
import { AbortRegistry } from './abort-registry.ts'
import { classifyCallError } from './call-error.ts'
import { CanaryRow } from './canary-sample.ts'
import { Flight } from './flight.ts'
import type { ModelPool } from './model-pool.ts'
import type { PoolServer } from './pool-server.ts'
import { Refusals, type RefusalsOwner } from './refusals.ts'
import { backoffMs } from './retry.ts'
import type { HedgeKind, RouterOptions, SlotEnd } from './router-types.ts'
import type { Row } from './routed-sample.ts'
import { RowBundles, type RowBundlesOwner } from './micro-batcher.ts'
import { SharedRows } from './shared-samples.ts'
import { SwapList } from './swap-list.ts'
import { TimerWheel } from './timer-wheel.ts'
import { type CallListener, HttpCall } from './transport.ts'

/** Of a sample's time, what a server must have had before its silence counts against it. */
const BLAMED_SHARE = 0.5

/** Who hears that there is nothing more to wait for. */
export interface RowLifeOwner {
  /** The last call in flight to the server ended. */
  onServerIdle(server: PoolServer): void
  /** The last row of the pool ended. */
  onPoolIdle(pool: ModelPool): void
}

/**
 * A row's life (in flight it may share its call with others of its step, see {@link RowBundles}):
 *
 *     score ─▶ waiting ──slot free──▶ in flight ──score──▶ done
 *                 ▲                     │  │ ▲ hedge: a second call while the first is out; the first score counts
 *                 │                     │  └─┘
 *                 ├──── back-off ◀──────┤ retryable failure, and no other call out
 *                 └────── held ◀────────┘ refused, and no other server to ask ──its server's canary scored──▶ done
 *     following an identical row ──its score──▶ done
 *     anywhere ──time up · aborted · closed──▶ done
 *
 * Slots are taken in `start` and given back in `#endFlight`, the only two places.
 */
export class RowLife implements CallListener<Flight>, RowBundlesOwner, RefusalsOwner {
  readonly #owner: RowLifeOwner
  readonly #bundles: RowBundles
  readonly #refusals = new Refusals(this)
  readonly #wheel = new TimerWheel<Row>((row) => this.#timeIsUp(row))
  readonly #aborts = new AbortRegistry<Row>((row) => this.#fail(row, 'cancelled', 'aborted'))
  /** Every row that is not done. */
  readonly #rows = new SwapList<Row>(
    (row) => row.lifeIndex,
    (row, index) => {
      row.lifeIndex = index
    },
  )
  readonly #shared = new SharedRows((row) => row.pool.admit(row, performance.now()))

  constructor(owner: RowLifeOwner, options: RouterOptions = {}) {
    this.#owner = owner
    this.#bundles = new RowBundles(this, options.joins)
  }

  /** Takes a row in. Its clock starts at its first dispatch; until then it is its patience without a healthy server. */
  begin(row: Row, nowMs: number): void {
    row.pool.rowCount++
    this.#rows.add(row)
    this.#wheel.add(row)
    if (row.request.signal !== undefined) this.#aborts.add(row.request.signal, row)
    if (!this.#shared.follow(row)) row.pool.admit(row, nowMs)
  }

  /** Ends every row as `cancelled`. */
  cancelAll(detail: string): void {
    for (const row of this.#rows.all()) this.#fail(row, 'cancelled', detail)
  }

  /** Looks at what shares a call: about every tenth of a second while there are rows. */
  look(nowMs: number): void {
    this.#bundles.look(nowMs)
  }

  /** A call's end, told from inside the HTTP parser: no call may begin in here. */
  onCallEnd(call: HttpCall<Flight>): void {
    const flight = call.context
    const nowMs = performance.now()
    const serviceMs = nowMs - flight.startedAtMs
    if (call.error !== null) {
      this.failed(flight, classifyCallError(call, serviceMs), serviceMs)
      return
    }
    const answer = flight.row.read(flight.server, call)
    if (answer.ok) this.scored(flight, call.status, answer.tokens, serviceMs, nowMs)
    else this.failed(flight, answer, serviceMs)
  }

  /** A call, or its part in one, gave a score that the row has accepted. */
  scored(
    flight: Flight,
    status: number,
    tokens: number | null,
    serviceMs: number,
    nowMs: number,
  ): void {
    const { row, server } = flight
    const other = row.flight === flight ? row.second : row.flight
    if (other !== null) this.#supersede(other, nowMs)
    this.#endFlight(flight, 'ok', null, status, null, serviceMs)
    server.succeeded(flight, tokens, serviceMs, nowMs)
    // Another server scored what those could not: now it is known whose fault it was.
    if (row.refusals !== null) this.#refusals.overruled(row, server, nowMs)
    this.#release(row)
    row.succeed(server)
    this.#shared.scored(row, server, (follower) => this.#release(follower))
    if (row.pool.waiting > 0 || server.canary.isWanted) row.pool.pumpSoon()
  }

  /** Sends a server its canary, if one is wanted and may be sent. */
  ask(pool: ModelPool, server: PoolServer, nowMs: number): void {
    this.#refusals.ask(pool, server, nowMs)
  }

  beginCanary(canary: CanaryRow, server: PoolServer, nowMs: number): void {
    canary.pool.canaries.add(canary)
    this.#rows.add(canary)
    this.#wheel.add(canary)
    this.start(canary, server, null, nowMs)
  }

  confirmed(row: Row, reason: SampleFailureReason, detail: string): void {
    this.#fail(row, reason, detail, true)
  }

  /** Sends a row to a server that has room. */
  start(row: Row, server: PoolServer, hedge: HedgeKind | null, nowMs: number): void {
    row.stopTimer()
    if (row.deadlineAtMs < nowMs + row.pool.fastestMs(row.tokens, nowMs)) {
      this.#fail(row, 'deadline', 'less time was left than a call takes; it was not sent')
      return
    }
    const flight = new Flight(row, server, hedge, nowMs)
    if (row.flight === null) row.flight = flight
    else {
      row.second = flight
      row.flight.isHedged = true
      flight.isHedged = true
    }
    if (hedge === null) {
      if (row.attempts.length === 0) this.#setDue(row, row.dueFrom(nowMs))
      if (row.attemptsUsed > 0 && !row.isRetry) row.isRetry = true
      row.attemptsUsed++
      if (row.isRetry) row.pool.retryBudget.begun()
    }
    row.pool.hedgeBudget.begun(nowMs, hedge !== null)
    server.begin(flight, row.attemptsUsed > 1 && hedge === null)
    row.pool.began(row, flight.tokens)
    if (!this.#bundles.take(flight, nowMs)) this.sendAlone(flight)
  }

  /** Sends a flight's row by itself. */
  sendAlone(flight: Flight): void {
    const { row, server } = flight
    let request: EngineRequest | null
    try {
      request = row.build(server)
    } catch (error) {
      // A prompt of a shape the types forbid: the sample's failure, and the slot must not be lost over it.
      const refusal = failure('client', 'rejected', `the request cannot be built: ${error}`)
      this.failed(flight, refusal, 0)
      return
    }
    if (request === null) {
      // Whoever asked for the slot keeps the time from here on.
      this.#wheel.remove(row)
      row.granted(flight)
      return
    }
    const call = new HttpCall<Flight>(flight, this)
    flight.call = call
    server.post(call, request)
  }

  /** The end of a call that its owner made. */
  slotEnded(flight: Flight, end: SlotEnd): void {
    const { row, server } = flight
    if (row.done) return
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
    this.#release(row)
    row.pool.pumpSoon()
  }

  /** A call took longer than any of this server's: given up, and tried elsewhere. */
  giveUp(flight: Flight, nowMs: number, detail: string): void {
    const { row, server } = flight
    if (row.done || flight.call === null) return
    const serviceMs = nowMs - flight.startedAtMs
    server.failures.stall++
    server.errors++
    this.#endFlight(flight, 'stall', 'timeout', null, detail, serviceMs)
    flight.call.abandon()
    server.faulted(flight, 0.5, serviceMs, nowMs, detail)
    row.tried ??= []
    row.tried.push(server)
    if (row.flight === null) {
      row.waitingSinceMs = nowMs
      row.backoffUntilMs = nowMs
      if (row.isSpent) {
        this.#fail(row, 'timeout', `${server.name} gave ${detail}`)
      } else {
        row.pool.withdraw(row)
        row.pool.readmit(row)
      }
    }
    row.pool.pumpSoon()
  }

  /**
   * This process's share of a server's limit has ended, and others may hold it from now on: its calls are given up, and
   * their rows wait again. No attempt is charged.
   */
  recall(server: PoolServer): void {
    const nowMs = performance.now()
    for (const row of this.#rows.all()) {
      for (const flight of [row.flight, row.second]) {
        if (flight?.server !== server || flight.call === null) continue
        const detail = 'given up: this process could not renew its share of the limit'
        this.#endFlight(flight, 'recalled', null, null, detail, nowMs - flight.startedAtMs)
        flight.call.abandon()
        server.health.neutral(flight.period)
        if (flight.hedge === null) row.attemptsUsed--
        if (row.flight !== null || row.done) continue
        row.waitingSinceMs = nowMs
        row.backoffUntilMs = nowMs
        row.pool.withdraw(row)
        row.pool.readmit(row)
      }
    }
  }

  /** Gives the slot back and writes the attempt down; the row's other call, if one is out, is its call from now on. */
  #endFlight(
    flight: Flight,
    outcome: 'ok' | 'superseded' | 'recalled' | FailureClass,
    reason: SampleFailureReason | null,
    status: number | null,
    detail: string | null,
    serviceMs: number,
  ): void {
    const { row, server } = flight
    server.end(flight)
    if (server.inFlight === 0) this.#owner.onServerIdle(server)
    if (row.isRetry && flight.hedge === null) row.pool.retryBudget.ended()
    row.attempts.push({
      serverId: server.id,
      serverName: server.name,
      // 0 where its first call was for free and only the hedge is left.
      attempt: Math.max(1, row.attemptsUsed),
      startedAtMs: flight.startedEpochMs,
      queueMs: flight.queueMs,
      backoffMs: flight.backoffMs,
      serviceMs,
      outcome,
      ...(flight.hedge === null ? {} : { hedge: flight.hedge }),
      reason,
      status,
      detail,
    })
    if (row.flight === flight) row.flight = row.second
    row.second = null
  }

  /** The other call of the row was quicker. */
  #supersede(flight: Flight, nowMs: number): void {
    this.#endFlight(flight, 'superseded', null, null, null, nowMs - flight.startedAtMs)
    flight.call?.abandon()
    flight.server.health.neutral(flight.period)
  }

  /** A call of several rows that says nothing of this one: it goes again by itself, for free. */
  apart(flight: Flight, failed: EngineFailure, serviceMs: number, blamed: boolean): void {
    const { row, server } = flight
    const nowMs = performance.now()
    const detail = server.withoutKey(failed.detail)
    const status = flight.call?.status || null
    this.#endFlight(flight, failed.class, failed.reason, status, detail, serviceMs)
    if (blamed) {
      server.failures[failed.class]++
      server.errors++
    }
    server.health.neutral(flight.period)
    row.attemptsUsed--
    if (row.flight === null) {
      row.waitingSinceMs = nowMs
      row.backoffUntilMs = nowMs
      this.#again(row, server)
    } else row.pool.pumpSoon()
  }

  /** `blamed`: false for the further rows of a call whose failure was counted against the server. */
  failed(flight: Flight, failed: EngineFailure, serviceMs: number, blamed = true): void {
    const { row, server, period } = flight
    const nowMs = performance.now()
    const detail = server.withoutKey(failed.detail)
    const status = flight.call === null || flight.call.status === 0 ? null : flight.call.status
    let failureClass = failed.class
    if (failureClass === 'conn_race' && (row.raced || flight.hedge !== null)) failureClass = 'fault'
    this.#endFlight(flight, failureClass, failed.reason, status, detail, serviceMs)
    server.failures[failureClass]++
    row.waitingSinceMs = nowMs
    row.backoffUntilMs = nowMs
    if (row instanceof CanaryRow) {
      row.failure = failed
      if (failureClass === 'conn_race') server.dropIdleConnections()
    } else if (failureClass === 'conn_race') {
      server.health.neutral(period)
      this.#repeat(row, server)
      return
    }
    server.errors++
    row.tried ??= []
    row.tried.push(server)
    if (failureClass === 'fault' && blamed) server.faulted(flight, 1, serviceMs, nowMs, detail)
    else server.health.neutral(period)
    if (failureClass === 'busy' && blamed)
      server.refused(failed.retryAfterMs, flight.startedAtMs, nowMs)
    if (failed.broken === true) server.canary.broke(nowMs)
    const isDoubtful = Refusals.isDoubtful(row, server, failed)
    if (flight.hedge === null && (isDoubtful || failureClass === 'busy')) row.uncharged++
    if (row instanceof CanaryRow) this.#fail(row, failed.reason, detail)
    else if (isDoubtful) this.#refusals.take(row, server, period, failed, nowMs)
    else if (failed.fitMaxTokens !== undefined && row.fit(failed.fitMaxTokens)) {
      row.attemptsUsed--
      this.#again(row, server)
    } else if (failureClass === 'client') {
      this.#fail(row, failed.reason, `${server.name} ${detail}`)
    }
    // Its other call is still out: that one decides.
    else if (row.flight !== null) row.pool.withdraw(row)
    else if (row.isSpent) this.#fail(row, failed.reason, `${server.name} ${detail}`)
    else this.#retry(row, server, failed, nowMs)
    row.pool.pumpSoon()
  }

  /** The one free repeat after a connection race, on the same server if its slot is still free. */
  #repeat(row: Row, server: PoolServer): void {
    row.raced = true
    row.attemptsUsed--
    server.dropIdleConnections()
    this.#again(row, server)
  }

  /** The same call once more, at once and for free. */
  #again(row: Row, server: PoolServer): void {
    queueMicrotask(() => {
      if (row.done || row.flight !== null) return
      row.pool.withdraw(row)
      const nowMs = performance.now()
      const isIts = server.model === row.pool.model
      if (isIts && server.hasRoom(nowMs)) this.start(row, server, null, nowMs)
      else row.pool.readmit(row)
    })
  }

  #retry(row: Row, server: PoolServer, failed: EngineFailure, nowMs: number): void {
    row.pool.withdraw(row)
    const elsewhere = row.pool.anyUntried(row, nowMs)
    if (failed.retryAfterMs !== undefined) {
      // The server itself pauses, for every row; this one waits for it only where there is no other.
      if (!elsewhere) row.backoffUntilMs = Math.max(nowMs, server.pause.untilMs)
      row.pool.readmit(row)
      return
    }
    const isBusy = failed.class === 'busy'
    const failures = isBusy ? row.attemptsUsed : row.attemptsUsed - row.uncharged
    const delayMs = isBusy && elsewhere ? 0 : backoffMs(failures, elsewhere)
    if (delayMs === 0) {
      row.pool.readmit(row)
      return
    }
    row.backoffUntilMs = nowMs + delayMs
    row.timer = setTimeout(() => {
      row.timer = null
      row.pool.readmit(row)
    }, delayMs)
  }

  #setDue(row: Row, dueAtMs: number): void {
    this.#wheel.remove(row)
    row.dueAtMs = dueAtMs
    this.#wheel.add(row)
  }

  #timeIsUp(row: Row): void {
    if (row.done) return
    const nowMs = performance.now()
    const { pool, request } = row
    if (nowMs >= row.deadlineAtMs) {
      this.#fail(row, 'deadline', 'the deadline passed before it was scored')
      return
    }
    const waitsForFirst = row.flight === null && row.attempts.length === 0
    if (waitsForFirst && (this.#shared.isFollowing(row) || pool.anyHealthy(nowMs))) {
      // It waits for its turn, not for a server: only dispatch starts its clock.
      this.#setDue(row, row.dueFrom(nowMs))
      return
    }
    if (row.flight !== null) {
      this.#outOfTime(row, nowMs)
      return
    }
    const last = row.attempts.at(-1)
    const before = last === undefined ? '' : `; before that ${last.serverName} ${last.detail}`
    if (row.attempts.length > 0 && pool.anyUsable(nowMs)) {
      this.#fail(row, 'timeout', `${request.timeoutMs} ms were over before a retry${before}`)
      return
    }
    this.#fail(
      row,
      'no_server',
      `no healthy server of ${request.model} was free within ${Math.round(request.timeoutMs)} ms (${pool.describe(nowMs)})${before}`,
    )
  }

  /** Its time is up with one or two calls out. */
  #outOfTime(row: Row, nowMs: number): void {
    let told = ''
    for (let flight = row.flight; flight !== null; flight = row.flight) {
      const { server, period } = flight
      const serviceMs = nowMs - flight.startedAtMs
      const detail = `no answer within ${Math.round(serviceMs)} ms`
      told = `${server.name} gave ${detail}`
      server.failures.stall++
      server.errors++
      this.#endFlight(flight, 'stall', 'timeout', null, detail, serviceMs)
      const blamed = flight.call?.blame() !== false
      flight.call?.abandon()
      // A row that waited long for its slot leaves the server little time; that is not the server's fault.
      if (blamed && serviceMs >= row.request.timeoutMs * BLAMED_SHARE) {
        server.faulted(flight, 0.5, serviceMs, nowMs, detail)
      } else server.health.neutral(period)
    }
    this.#fail(row, 'timeout', told)
    row.pool.pumpSoon()
  }

  /** Ends a row without a score, from wherever it is. `confirmed`: whatever has the same text ends so, too. */
  #fail(row: Row, reason: SampleFailureReason, detail: string, confirmed = false): void {
    if (row.done) return
    if (reason === 'cancelled' && row instanceof CanaryRow) row.wasCancelled = true
    if (row.flight !== null) {
      const nowMs = performance.now()
      for (let flight: Flight | null = row.flight; flight !== null; flight = row.flight) {
        // A slot's owner makes its call, and gives the slot back when that has ended.
        if (flight.call === null) return
        // There is no class of its own for what the caller took back; it is nobody's failure and counted nowhere.
        this.#endFlight(flight, 'client', reason, null, detail, nowMs - flight.startedAtMs)
        flight.call.abandon()
        flight.server.health.neutral(flight.period)
      }
      row.pool.pumpSoon()
    }
    this.#release(row)
    row.refuse(reason, detail)
    if (confirmed) {
      this.#shared.refused(row, reason, detail, (follower) => this.#release(follower))
    } else this.#shared.failed(row)
  }

  /** The row is done: out of every list. */
  #release(row: Row): void {
    row.done = true
    this.#wheel.remove(row)
    this.#rows.delete(row)
    const { pool } = row
    pool.withdraw(row)
    if (!pool.canaries.delete(row) && --pool.rowCount === 0) {
      for (const canary of [...pool.canaries]) {
        this.#fail(canary, 'cancelled', 'nobody waits for what it tells')
      }
      this.#owner.onPoolIdle(pool)
    }
    row.stopTimer()
    row.heldBy?.held.delete(row)
    row.heldBy = null
    if (row.request.signal !== undefined) this.#aborts.delete(row.request.signal, row)
  }
}
