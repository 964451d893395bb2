import type { SampleFailureReason } from '../contract/sample-reason.ts'
import type { EngineFailure } from '../engines/engine.ts'
import { CanarySample } from './canary-sample.ts'
import type { ModelPool } from './model-pool.ts'
import type { PoolServer } from './pool-server.ts'
import type { RoutedSample } from './routed-sample.ts'

/** A server that has scored samples so many times as long is not believed that one is too long for it. */
const TOO_LONG_DOUBT = 2

/** One unconfirmed refusal of a sample, or one answer to it that is no score. */
export interface Refusal {
  server: PoolServer
  /** Number from `ServerHealth.begin`. */
  period: number
  class: 'client' | 'corrupt'
  atMs: number
  reason: SampleFailureReason
  detail: string
}

/** Who ends samples and begins canaries. */
export interface RefusalsOwner {
  /** Ends a sample whose refusal is confirmed. */
  confirmed(sample: RoutedSample, reason: SampleFailureReason, detail: string): void
  /** Sends a canary to its server, which has room. */
  beginCanary(canary: CanarySample, server: PoolServer, nowMs: number): void
}

/**
 * Whose fault a refusal is. One ends its sample when a second server refuses it as well, or when the server that refused it
 * scores a canary sent since; until then the sample goes elsewhere or waits, and nothing is charged to it.
 */
export class Refusals {
  readonly #owner: RefusalsOwner

  constructor(owner: RefusalsOwner) {
    this.#owner = owner
  }

  /** Whether a failure may be the server's as well as the sample's, so that something else must confirm it. */
  static isDoubtful(sample: RoutedSample, server: PoolServer, failed: EngineFailure): boolean {
    if (sample instanceof CanarySample) return false
    if (failed.class === 'corrupt') return true
    if (failed.class !== 'client') return false
    return (
      failed.unconfirmed === true ||
      (failed.reason === 'context_exceeded' &&
        TOO_LONG_DOUBT * sample.tokens <= server.longestTokens)
    )
  }

  /** A doubtful failure of a sample. Its flight has ended; while its other call is out, that one decides. */
  take(
    sample: RoutedSample,
    server: PoolServer,
    period: number,
    failed: EngineFailure,
    nowMs: number,
  ): void {
    const { reason } = failed
    const kind = failed.class as Refusal['class']
    const detail = server.withoutKey(failed.detail)
    const again = sample.refusals?.some((other) => other.server === server) === true
    const second = sample.refusals?.some(
      (other) =>
        other.server !== server &&
        other.class === kind &&
        // What a server said before it refused a canary counts for nothing.
        other.atMs > other.server.canary.failedAtMs,
    )
    sample.refusals ??= []
    sample.refusals.push({ server, period, class: kind, atMs: nowMs, reason, detail })
    if (!again) server.canary.refused(nowMs)
    sample.pool.withdraw(sample)
    if (sample.flight !== null) return
    // A server that has refused everything of late may be broken like the other.
    if (second === true && !server.canary.blocking) {
      this.#owner.confirmed(sample, reason, `${server.name} ${detail}`)
    } else if ((!again && sample.pool.anyUntried(sample, nowMs)) || !canBeAsked(server, nowMs)) {
      sample.pool.readmit(sample)
    } else {
      server.canary.hold(sample)
      sample.pool.pumpSoon()
    }
  }

  /** Another server scored the sample: who refused it, or gave it no score, was at fault. */
  overruled(sample: RoutedSample, by: PoolServer, nowMs: number): void {
    for (const { server, period, class: kind } of sample.refusals ?? []) {
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
      for (const sample of canary.release()) pool.readmit(sample)
      return
    }
    // For nobody's sake it is not asked.
    if (canary.held.size === 0 && pool.sampleCount === 0) return
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
    const sample = new CanarySample(
      pool,
      text,
      (ended, problem) => this.#told(ended, server, problem),
      nowMs,
    )
    this.#owner.beginCanary(sample, server, nowMs)
  }

  #told(sample: CanarySample, server: PoolServer, problem: string | null): void {
    const { canary } = server
    const { pool, failure } = sample
    const nowMs = performance.now()
    const isOfText = failure?.class === 'client' || failure?.class === 'corrupt'
    if (problem === null) {
      for (const held of canary.passed(nowMs)) {
        const last = held.refusals?.findLast((refusal) => refusal.server === server) as Refusal
        this.#owner.confirmed(held, last.reason, `${server.name} ${last.detail}`)
      }
    } else if (failure?.class === 'busy' || failure?.class === 'conn_race') canary.undecided()
    else if (sample.wasCancelled) canary.undecided()
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
      const samples = canary.failed(nowMs, block)
      server.health.eject(nowMs, cause, false, { refusedInARow: refused, canary: problem })
      for (const held of samples) pool.readmit(held)
    }
    pool.pumpSoon()
  }
}

/** It is registered, ready and not out: if it has no room at the moment, it will have. */
function canBeAsked(server: PoolServer, nowMs: number): boolean {
  return server.state === 'ready' && server.health.state(nowMs) !== 'ejected'
}
