import type { Logger } from '../log.ts'
import type { RewardRouter } from '../router/router-types.ts'
import type { Database } from '../store/database.ts'
import { type RateAnswer, type RatePart, takeRate } from '../store/sql/rate.ts'

const PERMIT_MS = 500
/**
 * Each request asks for at most the permits that the limit allows in this time, or for the permits of one sample if the
 * sample needs more.
 */
const QUANTUM_MS = 250
const MIN_INTERVAL_MS = 50
/** Unused permits are returned this long after they were granted, before they expire. */
const RETURN_AFTER_MS = 300
/** Maximum wait for more permits before the next request. Other processes may return permits in the meantime. */
const MAX_INTERVAL_MS = 1_000
/**
 * Tokens are counted when answers arrive. While no permits are requested, the difference from the estimates is charged
 * at this interval.
 */
const SETTLE_MS = 1_000
/** Interval of the checks for samples that wait for permits while slots are free. No event reports such samples. */
const POLL_MS = 50

const MINUTE_MS = 60_000
/**
 * The burst after a pause is 2 s' worth of the rate. Permits are used up to 500 ms after they were granted, so the
 * bucket holds 1.5 s' worth. No minute then exceeds the limit plus 2 s' worth.
 */
const BUCKET_MS = 2_000 - PERMIT_MS

/** A server's rate limits per minute, over all processes. Null means no limit. */
export interface RateLimits {
  rpm: number | null
  tpm: number | null
}

export type PermitRouter = Pick<
  RewardRouter,
  'permitDemand' | 'setPermits' | 'reclaimPermits' | 'snapshot'
>

interface LimitedServer {
  id: number
  limits: RateLimits
  timer: NodeJS.Timeout | undefined
  pending: Promise<void> | null
  /** Usage beyond the granted permits that is not charged yet. A negative number counts unused permits to return. */
  owed: { requests: number; tokens: number }
  chargedAtMs: number
}

/**
 * Permits of servers with a rate limit: small parts of one bucket in Postgres, requested while samples wait. Each
 * request returns unused permits, so a process has at most 250 ms' worth of the rate, and no permit longer than 500 ms.
 *
 *   idle ──demand──▶ requesting ──granted──▶ 50 ms ──▶ requesting …
 *                       │ short: wait until the bucket has refilled
 *                       └ no demand, nothing to return or to charge ──▶ idle
 */
export class RatePermits {
  readonly #db: Database
  readonly #router: PermitRouter
  readonly #log: Logger
  readonly #limited = new Map<number, LimitedServer>()
  /** Set while servers have rate limits. */
  #pollTimer: NodeJS.Timeout | undefined
  #closed = false

  constructor(db: Database, router: PermitRouter, log: Logger) {
    this.#db = db
    this.#router = router
    this.#log = log
  }

  /** Adds a server or updates its limits; a server without limits is removed. */
  track(serverId: number, limits: RateLimits): void {
    if (limits.rpm === null && limits.tpm === null) {
      this.forget(serverId)
      return
    }
    const known = this.#limited.get(serverId)
    if (known) known.limits = limits
    else {
      if (!this.#closed) this.#pollTimer ??= setInterval(() => this.#wantAll(), POLL_MS).unref()
      this.#limited.set(serverId, {
        id: serverId,
        limits,
        timer: undefined,
        pending: null,
        owed: { requests: 0, tokens: 0 },
        chargedAtMs: 0,
      })
    }
  }

  forget(serverId: number): void {
    const server = this.#limited.get(serverId)
    if (!server) return
    clearTimeout(server.timer)
    this.#limited.delete(serverId)
    if (this.#limited.size === 0) this.#stopPolling()
  }

  /** Requests permits for waiting samples, unless the next request is already scheduled. */
  want(serverId: number): void {
    const server = this.#limited.get(serverId)
    if (server) this.#want(server)
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#stopPolling()
    await Promise.all(
      [...this.#limited.values()].map(async (server) => {
        clearTimeout(server.timer)
        await server.pending
        await this.#request(server)
      }),
    )
    this.#limited.clear()
  }

  #wantAll(): void {
    for (const server of this.#limited.values()) this.#want(server)
  }

  #stopPolling(): void {
    clearInterval(this.#pollTimer)
    this.#pollTimer = undefined
  }

  #want(server: LimitedServer): void {
    if (server.timer !== undefined || server.pending !== null || this.#closed) return
    server.pending = this.#request(server)
  }

  async #request(server: LimitedServer): Promise<void> {
    let waitMs: number | null
    try {
      waitMs = await this.#exchange(server)
    } catch (error) {
      this.#log.debug({ err: (error as Error).message, server: server.id }, 'permit request failed')
      waitMs = MAX_INTERVAL_MS / 2
    }
    server.pending = null
    if (waitMs === null || this.#closed || this.#limited.get(server.id) !== server) return
    // The delay is random, so that processes that found the bucket empty at the same time do not request again at the
    // same time.
    server.timer = setTimeout(
      () => {
        server.timer = undefined
        this.#want(server)
      },
      waitMs * (1 + Math.random() / 5),
    )
    server.timer.unref()
  }

  /** Sends one request. Returns the time until the next request in ms, or null if the next one depends on demand. */
  async #exchange(server: LimitedServer): Promise<number | null> {
    const { id, owed } = server
    const { rpm, tpm } = server.limits
    const unused = this.#router.reclaimPermits(id)
    const demand = this.#router.permitDemand(id)
    const samples = this.#closed ? 0 : demand.requests
    const charge = {
      requests: rpm === null ? 0 : owed.requests - unused.requests,
      tokens: tpm === null ? 0 : owed.tokens - unused.tokens + demand.tokensOverspent,
    }
    const sentAt = performance.now()
    if (samples === 0 && unused.requests === 0 && unused.tokens === 0) {
      const isDue = this.#closed || sentAt - server.chargedAtMs >= SETTLE_MS
      if (!isDue || (charge.requests === 0 && charge.tokens === 0)) {
        server.owed = charge
        return null
      }
    }
    server.chargedAtMs = sentAt
    // If the request fails, usage is charged again and may be charged twice. Unused permits are never returned twice.
    server.owed = { requests: Math.max(0, charge.requests), tokens: Math.max(0, charge.tokens) }
    const tokensPerSample =
      tpm !== null && samples > 0 ? this.#tokensPerSample(id, demand.tokens / samples) : 1
    const answer = await takeRate(this.#db, id, {
      requests: rpm === null ? null : partOf(rpm, charge.requests, samples, 1),
      tokens: tpm === null ? null : partOf(tpm, charge.tokens, samples, tokensPerSample),
    })
    server.owed = { requests: 0, tokens: 0 }
    if (samples === 0) return null
    const emptyMs = missingMs(server.limits, answer)
    if (!answer.granted) return Math.min(MAX_INTERVAL_MS, Math.max(MIN_INTERVAL_MS, emptyMs))
    const { requests, tokens } = answer
    if (this.#closed || this.#limited.get(id) !== server) {
      server.owed = { requests: -requests, tokens: -tokens }
      return null
    }
    this.#router.setPermits(id, { requests, tokens, untilMs: sentAt + PERMIT_MS })
    const nextMs = answer.short ? Math.max(emptyMs, QUANTUM_MS / 2) : MIN_INTERVAL_MS
    return Math.min(RETURN_AFTER_MS, Math.max(MIN_INTERVAL_MS, nextMs))
  }

  /**
   * Estimated tokens of one sample: the mean of those scored so far, at most `most`. Before the first score, 1 is
   * assumed and the difference is charged later.
   */
  #tokensPerSample(id: number, most: number): number {
    const stats = this.#router.snapshot().find((s) => s.serverId === id)
    const scored = stats?.latency.reduce((sum, n) => sum + n, 0) ?? 0
    if (stats === undefined || scored === 0) return 1
    const mean = stats.tokens / scored
    return Math.max(1, most > 0 ? Math.min(mean, most) : mean)
  }
}

/**
 * The permits to request from one limit (requests or tokens per minute) for `samples` samples. A request is limited to
 * one quantum, or to the permits of one sample if the sample needs more.
 */
function partOf(perMinute: number, charge: number, samples: number, perSample: number): RatePart {
  const bucket = Math.max(1, (perMinute * BUCKET_MS) / MINUTE_MS)
  const quantum = Math.max(perSample, (perMinute * QUANTUM_MS) / MINUTE_MS)
  const hasNone = samples === 0
  return {
    charge,
    want: Math.min(samples * perSample, quantum, bucket),
    // A sample larger than the bucket is sent when the bucket is full, and leaves a debt.
    least: hasNone ? 0 : Math.min(perSample, bucket),
    beyond: hasNone ? 0 : Math.max(0, perSample - bucket),
    perMinute,
    bucket,
  }
}

function missingMs({ rpm, tpm }: RateLimits, answer: RateAnswer): number {
  const requestsMs = rpm === null ? 0 : (MINUTE_MS / rpm) * answer.requestsMissing
  const tokensMs = tpm === null ? 0 : (MINUTE_MS / tpm) * answer.tokensMissing
  return Math.max(requestsMs, tokensMs)
}
