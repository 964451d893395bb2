import type { SampleFailureReason } from '../contract/sample-reason.ts'
import type { EngineFailure } from '../engines/engine.ts'
import { CanaryRow } from './canary-sample.ts'
import type { ModelPool } from './model-pool.ts'
import type { PoolServer } from './pool-server.ts'
import type { Row } from './routed-sample.ts'

/** A server that has scored rows so many times as long is not believed that one is too long for it. */
const TOO_LONG_DOUBT = 2

/** One unconfirmed refusal of a row, or one answer to it that is no score. */
export interface Refusal {
  server: PoolServer
  /** Number from `ServerHealth.begin`. */
  period: number
  class: 'client' | 'corrupt'
  atMs: number
  reason: SampleFailureReason
  detail: string
}

/** Who ends rows and begins canaries. */
export interface RefusalsOwner {
  /** Ends a row whose refusal is confirmed. */
  confirmed(row: Row, reason: SampleFailureReason, detail: string): void
  /** Sends a canary to its server, which has room. */
  beginCanary(canary: CanaryRow, server: PoolServer, nowMs: number): void
}

/**
 * Whose fault a refusal is. One ends its row when a second server refuses it as well, or when the server that refused it
 * scores a canary sent since; until then the row goes elsewhere or waits, and nothing is charged to it.
 */
export class Refusals {
  readonly #owner: RefusalsOwner

  constructor(owner: RefusalsOwner) {
    this.#owner = owner
  }

  /** Whether a failure may be the server's as well as the row's, so that something else must confirm it. */
  static isDoubtful(row: Row, server: PoolServer, failed: EngineFailure): boolean {
    if (row instanceof CanaryRow) return false
    if (failed.class === 'corrupt') return true
    if (failed.class !== 'client') return false
    return (
      failed.unconfirmed === true ||
      (failed.reason === 'context_exceeded' && TOO_LONG_DOUBT * row.tokens <= server.longestTokens)
    )
  }

  /** A doubtful failure of a row. Its flight has ended; while its other call is out, that one decides. */
  take(row: Row, server: PoolServer, period: number, failed: EngineFailure, nowMs: number): void {
    const { reason } = failed
    const kind = failed.class as Refusal['class']
    const detail = server.withoutKey(failed.detail)
    const again = row.refusals?.some((other) => other.server === server) === true
    const second = row.refusals?.some(
      (other) =>
        other.server !== server &&
        other.class === kind &&
        // What a server said before it refused a canary counts for nothing.
        other.atMs > other.server.canary.failedAtMs,
    )
    row.refusals ??= []
    row.refusals.push({ server, period, class: kind, atMs: nowMs, reason, detail })
    if (!again) server.canary.refused(nowMs)
    row.pool.withdraw(row)
    if (row.flight !== null) return
    // A server that has refused everything of late may be broken like the other.
    if (second === true && !server.canary.blocking) {
      this.#owner.confirmed(row, reason, `${server.name} ${detail}`)
    } else if ((!again && row.pool.anyUntried(row, nowMs)) || !canBeAsked(server, nowMs)) {
      row.pool.readmit(row)
    } else {
      server.canary.hold(row)
      row.pool.pumpSoon()
    }
  }

  /** Another server scored the row: who refused it, or gave it no score, was at fault. */
  overruled(row: Row, by: PoolServer, nowMs: number): void {
    for (const { server, period, class: kind } of row.refusals ?? []) {
      if (server === by) continue
      if (kind === 'corrupt') server.wasCorrupt(period, nowMs)
      else server.health.faulted(period, 1, nowMs, 'refused a text that another server scored')
    }
  }

  /** Sends a server its canary, if one is wanted and may be sent. */
  ask(pool: ModelPool, server: PoolServer, nowMs: number): void {
    const { canary } = server
    if (canary.isOut) return
    if (!canBeAsked(server, nowMs)) {
      for (const row of canary.release()) pool.readmit(row)
      return
    }
    // For nobody's sake it is not asked.
    if (canary.held.size === 0 && pool.rowCount === 0) return
    if (nowMs < canary.dueAtMs) {
      canary.wake(nowMs, () => pool.pumpSoon())
      return
    }
    if (!server.hasRoomForCanary(nowMs)) return
    const isJudge = server.kind === 'generative'
    const text = isJudge ? null : canary.text(server.isOwnScorer)
    if (text === null && !isJudge) {
      // Nothing tells whether it works: it is not kept from work for that.
      canary.blocking = false
      return
    }
    canary.begin(nowMs)
    server.canaries++
    const row = new CanaryRow(
      pool,
      text,
      (ended, problem) => this.#told(ended, server, problem),
      nowMs,
    )
    this.#owner.beginCanary(row, server, nowMs)
  }

  #told(row: CanaryRow, server: PoolServer, problem: string | null): void {
    const { canary } = server
    const { pool, failure } = row
    const nowMs = performance.now()
    const isOfText = failure?.class === 'client' || failure?.class === 'corrupt'
    if (problem === null) {
      for (const held of canary.passed(nowMs)) {
        const last = held.refusals?.findLast((refusal) => refusal.server === server) as Refusal
        this.#owner.confirmed(held, last.reason, `${server.name} ${last.detail}`)
      }
    } else if (failure?.class === 'busy' || failure?.class === 'conn_race') canary.undecided()
    else if (row.wasCancelled) canary.undecided()
    else if (isOfText && canary.triesAnother(server.isOwnScorer)) {
      // The fixed text itself may be what it does not take.
    } else if (failure?.class === 'fault' && failure.broken !== true && canary.missed()) {
      // Calls in a row that fail so put the server out by themselves.
    } else {
      const refused = canary.streak
      const cause =
        refused > 1
          ? `${refused} consecutive samples refused, then a canary: ${problem}`
          : `no score for a canary: ${problem}`
      // One that never scored may only not take the canary: it is out for a while, and then tried with a sample.
      const block = !isOfText || canary.hasScored || server.kind === 'generative'
      const rows = canary.failed(nowMs, block)
      server.health.eject(nowMs, cause, false, { refusedInARow: refused, canary: problem })
      for (const held of rows) pool.readmit(held)
    }
    pool.pumpSoon()
  }
}

/** It is registered, ready and not out: if it has no room at the moment, it will have. */
function canBeAsked(server: PoolServer, nowMs: number): boolean {
  return server.state === 'ready' && server.health.state(nowMs) !== 'ejected'
}
