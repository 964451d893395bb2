import type { SampleFailureReason } from '../contract/sample-reason.ts'
import type { EngineFailure } from '../engines/engine.ts'
import { CanarySample } from './canary-sample.ts'
import type { ModelPool } from './model-pool.ts'
import type { PoolServer } from './pool-server.ts'
import type { RoutedSample } from './routed-sample.ts'

/** A refusal of a sample as too long is doubtful if the server has scored a sample this many times as long. */
const TOO_LONG_DOUBT = 2

/** A server's unconfirmed refusal of a sample, or its invalid response to the sample. */
export interface Refusal {
  server: PoolServer
  /** The server's health period in which the call began, from `ServerHealth.begin`. */
  period: number
  class: 'client' | 'corrupt'
  atMs: number
  reason: SampleFailureReason
  detail: string
}

export interface RefusalsOwner {
  confirmed(sample: RoutedSample, reason: SampleFailureReason, detail: string): void
  beginCanary(canary: CanarySample, server: PoolServer, nowMs: number): void
}

/**
 * Decides whether the sample or the server caused a refusal. A refusal fails the sample when a second server
 * refuses it too, or when the refusing server scores a canary sent after the refusal. Until then the sample is sent
 * to another server or waits, and no attempt is charged.
 */
export class Refusals {
  readonly #owner: RefusalsOwner

  constructor(owner: RefusalsOwner) {
    this.#owner = owner
  }

  /** Whether a failure may be the server's fault and must be confirmed before the sample fails. */
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

  /**
   * Handles a doubtful failure of a call. If the sample has another call in flight, the outcome of that call decides.
   */
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
        // Refusals before a server's last failed canary do not count.
        other.atMs > other.server.canary.failedAtMs,
    )
    sample.refusals ??= []
    sample.refusals.push({ server, period, class: kind, atMs: nowMs, reason, detail })
    if (!again) server.canary.refused(nowMs)
    sample.pool.withdraw(sample)
    if (sample.flight !== null) return
    // A server that must score a canary first may be broken too, so its refusal confirms nothing.
    if (second === true && !server.canary.isBlocking) {
      this.#owner.confirmed(sample, reason, `${server.name} ${detail}`)
    } else if ((!again && sample.pool.anyUntried(sample, nowMs)) || !canBeProbed(server, nowMs)) {
      sample.pool.readmit(sample)
    } else {
      server.canary.hold(sample)
      sample.pool.pumpSoon()
    }
  }

  /**
   * Counts a fault for each server that refused the sample or gave an invalid response, because server `by` has scored
   * it.
   */
  overruled(sample: RoutedSample, by: PoolServer, nowMs: number): void {
    for (const { server, period, class: kind } of sample.refusals ?? []) {
      if (server === by) continue
      if (kind === 'corrupt') server.wasCorrupt(period, nowMs)
      else server.health.faulted(period, 1, nowMs, 'refused a text that another server scored')
    }
  }

  probe(pool: ModelPool, server: PoolServer, nowMs: number): void {
    const { canary } = server
    if (canary.isOut) return
    if (!canBeProbed(server, nowMs)) {
      for (const sample of canary.release()) pool.readmit(sample)
      return
    }
    // Without unfinished samples, no canary is needed.
    if (canary.held.size === 0 && pool.sampleCount === 0) return
    if (nowMs < canary.dueAtMs) {
      canary.wake(nowMs, () => pool.pumpSoon())
      return
    }
    if (!server.hasRoomForCanary(nowMs)) return
    const isJudge = server.kind === 'generative'
    const text = isJudge ? null : canary.text(server.isCustomScorer)
    if (text === null && !isJudge) {
      // No text is known that the server should be able to score, so no canary can be sent. The server continues to
      // take samples.
      canary.isBlocking = false
      return
    }
    canary.begin(nowMs)
    server.canaries++
    const sample = new CanarySample(
      pool,
      text,
      (ended, problem) => this.#canaryEnded(ended, server, problem),
      nowMs,
    )
    this.#owner.beginCanary(sample, server, nowMs)
  }

  #canaryEnded(sample: CanarySample, server: PoolServer, problem: string | null): void {
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
    else if (isOfText && canary.triesAnother(server.isCustomScorer)) {
      // The server may reject only the fixed text, so another text is sent.
    } else if (failure?.class === 'fault' && failure.broken !== true && canary.missed()) {
      // The first failed canary is repeated. Consecutive faults eject the server anyway.
    } else {
      const refused = canary.streak
      const cause =
        refused > 1
          ? `refused ${refused} consecutive samples and failed a canary: ${problem}`
          : `no score for a canary: ${problem}`
      // A server that never scored a sample may reject only the canary. It is ejected, and then tried with a sample.
      const block = !isOfText || canary.hasScored || server.kind === 'generative'
      const samples = canary.failed(nowMs, block)
      server.health.eject(nowMs, cause, false, { refusedInARow: refused, canary: problem })
      for (const held of samples) pool.readmit(held)
    }
    pool.pumpSoon()
  }
}

/** Whether the server is ready and not ejected, so that a slot for a canary will become free. */
function canBeProbed(server: PoolServer, nowMs: number): boolean {
  return server.state === 'ready' && server.health.state(nowMs) !== 'ejected'
}
