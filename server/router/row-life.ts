import { failure } from '../engines/answer.ts'
import type { EngineFailure, EngineRequest, FailureClass } from '../engines/engine.ts'
import type { SampleFailureReason } from '../wire/sample-reason.ts'
import { AbortRegistry } from './abort-registry.ts'
import { classifyCallError } from './call-error.ts'
import type { ModelPool } from './model-pool.ts'
import type { PoolServer } from './pool-server.ts'
import { backoffMs } from './retry.ts'
import type { RouterResult } from './router-types.ts'
import type { Row } from './row.ts'
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
 * A row's life:
 *
 *     score ─▶ waiting ──slot free──▶ in flight ──score──▶ done
 *                 ▲                      │ retryable failure
 *                 └──── back-off ◀───────┘
 *     anywhere ──time up · aborted · closed──▶ done
 *
 * Slots are taken in `start` and given back in `#endCall`, the only two places.
 */
export class RowLife implements CallListener<Row> {
  readonly #owner: RowLifeOwner
  readonly #wheel = new TimerWheel<Row>((row) => this.#timeIsUp(row))
  readonly #aborts = new AbortRegistry<Row>((row) => this.#fail(row, 'cancelled', 'aborted'))
  /** Every row that is not done. */
  readonly #rows = new Set<Row>()

  constructor(owner: RowLifeOwner) {
    this.#owner = owner
  }

  /** Takes a row in. Its clock starts at its first dispatch; until then it is its patience without a healthy server. */
  begin(row: Row, nowMs: number): void {
    row.pool.rowCount++
    this.#rows.add(row)
    this.#wheel.add(row)
    if (row.request.signal !== undefined) this.#aborts.add(row.request.signal, row)
    row.pool.admit(row, nowMs)
  }

  /** Ends every row as `cancelled`. */
  cancelAll(detail: string): void {
    for (const row of [...this.#rows]) this.#fail(row, 'cancelled', detail)
  }

  /** A call's end, told from inside the HTTP parser: no call may begin in here. */
  onCallEnd(call: HttpCall<Row>): void {
    const row = call.context
    const server = row.server as PoolServer
    const serviceMs = performance.now() - row.startedAtMs
    if (call.error !== null) {
      this.#failed(row, server, call, classifyCallError(call, serviceMs), serviceMs)
      return
    }
    const answer = server.engine.parseScoreResponse(call.status, call.headers, call.bodyText())
    if (!answer.ok) {
      this.#failed(row, server, call, answer, serviceMs)
      return
    }
    const { period } = row
    this.#endCall(row, 'ok', null, call.status, null, serviceMs)
    server.succeeded(period, serviceMs)
    // Another server scored what that one could not: now it is known whose fault it was.
    row.corrupt?.server.health.faulted(
      row.corrupt.period,
      1,
      performance.now(),
      'a corrupt answer where another server gave a score',
    )
    this.#settle(row, {
      ok: true,
      score: answer.score,
      serverId: server.id,
      promptTokens: answer.promptTokens ?? null,
      attempts: row.attempts,
    })
    if (row.pool.waiting > 0) row.pool.pumpSoon()
  }

  /** Sends a row to a server that has room. */
  start(row: Row, server: PoolServer, nowMs: number): void {
    row.stopTimer()
    row.backoffMs = Math.max(0, Math.min(nowMs, row.backoffUntilMs) - row.waitingSinceMs)
    row.queueMs = Math.max(0, nowMs - Math.max(row.waitingSinceMs, row.backoffUntilMs))
    row.startedAtMs = nowMs
    row.startedEpochMs = Date.now()
    if (row.attempts.length === 0) this.#setDue(row, row.dueFrom(nowMs))
    row.server = server
    row.period = server.begin(row.attemptsUsed > 0)
    row.attemptsUsed++
    const call = new HttpCall<Row>(row, this)
    row.call = call
    let request: EngineRequest
    try {
      request = server.engine.buildScoreRequest(row.request.input, server.target)
    } catch (error) {
      // A prompt of a shape the types forbid: the sample's failure, and the slot must not be lost over it.
      const refusal = failure('client', 'rejected', `the request cannot be built: ${error}`)
      this.#failed(row, server, call, refusal, 0)
      return
    }
    const headers =
      request.headers === undefined
        ? server.headers
        : [...server.headers, ...Object.entries(request.headers).flat()]
    server.transport.post(call, request.path, headers, request.body)
  }

  /** Gives the slot back and writes the attempt down. */
  #endCall(
    row: Row,
    outcome: 'ok' | FailureClass,
    reason: SampleFailureReason | null,
    status: number | null,
    detail: string | null,
    serviceMs: number,
  ): void {
    const server = row.server as PoolServer
    server.end()
    if (server.inFlight === 0) this.#owner.onServerIdle(server)
    row.attempts.push({
      serverId: server.id,
      serverName: server.name,
      attempt: row.attemptsUsed,
      startedAtMs: row.startedEpochMs,
      queueMs: row.queueMs,
      backoffMs: row.backoffMs,
      serviceMs,
      outcome,
      reason,
      status,
      detail,
    })
    row.call = null
    row.server = null
  }

  #failed(
    row: Row,
    server: PoolServer,
    call: HttpCall<Row>,
    failed: EngineFailure,
    serviceMs: number,
  ): void {
    const nowMs = performance.now()
    const detail = server.withoutKey(failed.detail)
    const status = call.status === 0 ? null : call.status
    let failureClass = failed.class
    if (failureClass === 'conn_race' && row.raced) failureClass = 'fault'
    const { period, startedAtMs } = row
    this.#endCall(row, failureClass, failed.reason, status, detail, serviceMs)
    server.failures[failureClass]++
    row.waitingSinceMs = nowMs
    row.backoffUntilMs = nowMs
    if (failureClass === 'conn_race') {
      server.health.neutral(period)
      this.#repeat(row, server)
      return
    }
    server.errors++
    row.tried ??= []
    row.tried.push(server)
    if (failureClass === 'fault') server.health.faulted(period, 1, nowMs, detail)
    else server.health.neutral(period)
    if (failureClass === 'busy') server.refused(failed.retryAfterMs, startedAtMs, nowMs)
    if (failureClass === 'client' || row.attemptsUsed >= row.request.maxAttempts) {
      this.#fail(row, failed.reason, `${server.name} ${detail}`)
    } else if (failureClass === 'corrupt') {
      this.#retryCorrupt(row, server, period, failed.reason, detail, nowMs)
    } else {
      this.#retry(row, server, failed, nowMs)
    }
    row.pool.pumpSoon()
  }

  /** The one free repeat after a connection race, on the same server if its slot is still free. */
  #repeat(row: Row, server: PoolServer): void {
    row.raced = true
    row.attemptsUsed--
    queueMicrotask(() => {
      if (row.done) return
      const nowMs = performance.now()
      if (server.hasRoom(nowMs)) this.start(row, server, nowMs)
      else row.pool.readmit(row)
    })
  }

  /** A corrupt answer is tried once more, elsewhere: is it the server, or the sample? */
  #retryCorrupt(
    row: Row,
    server: PoolServer,
    period: number,
    reason: SampleFailureReason,
    detail: string,
    nowMs: number,
  ): void {
    if (row.corrupt !== null || !row.pool.anyUntried(row, nowMs)) {
      this.#fail(row, reason, `${server.name} ${detail}`)
      return
    }
    row.corrupt = { server, period }
    row.pool.readmit(row)
  }

  #retry(row: Row, server: PoolServer, failed: EngineFailure, nowMs: number): void {
    const elsewhere = row.pool.anyUntried(row, nowMs)
    if (failed.retryAfterMs !== undefined) {
      // The server itself pauses, for every row; this one waits for it only where there is no other.
      if (!elsewhere) row.backoffUntilMs = Math.max(nowMs, server.busyUntilMs)
      row.pool.readmit(row)
      return
    }
    const delayMs =
      failed.class === 'busy' && elsewhere ? 0 : backoffMs(row.attemptsUsed, elsewhere)
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
    const { server, pool, request } = row
    if (nowMs >= row.deadlineAtMs) {
      this.#fail(row, 'deadline', 'the deadline passed before it was scored')
      return
    }
    if (server === null && row.attempts.length === 0 && pool.anyHealthy(nowMs)) {
      // It waits for its turn, not for a server: only dispatch starts its clock.
      this.#setDue(row, row.dueFrom(nowMs))
      return
    }
    if (server !== null) {
      const serviceMs = nowMs - row.startedAtMs
      const detail = `no answer within ${Math.round(serviceMs)} ms`
      server.failures.stall++
      server.errors++
      const { call, period } = row
      this.#endCall(row, 'stall', 'timeout', null, detail, serviceMs)
      call?.abandon()
      // A row that waited long for its slot leaves the server little time; that is not the server's fault.
      if (serviceMs >= request.timeoutMs * BLAMED_SHARE) {
        server.health.faulted(period, 0.5, nowMs, detail)
      } else server.health.neutral(period)
      this.#fail(row, 'timeout', `${server.name} gave ${detail}`)
      pool.pumpSoon()
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

  /** Ends a row without a score, from wherever it is. */
  #fail(row: Row, reason: SampleFailureReason, detail: string): void {
    if (row.done) return
    const { call, server } = row
    if (call !== null && server !== null) {
      const { period } = row
      const serviceMs = performance.now() - row.startedAtMs
      // There is no class of its own for what the caller took back; it is nobody's failure and counted nowhere.
      this.#endCall(row, 'client', reason, null, detail, serviceMs)
      call.abandon()
      server.health.neutral(period)
      row.pool.pumpSoon()
    }
    this.#settle(row, { ok: false, reason, detail, attempts: row.attempts })
  }

  #settle(row: Row, result: RouterResult): void {
    row.done = true
    this.#wheel.remove(row)
    this.#rows.delete(row)
    row.queue?.remove(row)
    const { pool } = row
    pool.rowCount--
    if (pool.rowCount === 0) this.#owner.onPoolIdle(pool)
    row.stopTimer()
    if (row.request.signal !== undefined) this.#aborts.delete(row.request.signal, row)
    row.resolve(result)
  }
}
