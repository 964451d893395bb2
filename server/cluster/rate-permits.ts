import type { Logger } from '../log.ts'
import type { RewardRouter } from '../router/router-types.ts'
import type { Database } from '../store/database.ts'
import { type RateAnswer, type RatePart, takeRate } from '../store/sql/rate.ts'

/** What a permit is good for: a killed process takes no more than this to its grave. */
const PERMIT_MS = 500
/** At most so much of a rate is taken at once. */
const QUANTUM_MS = 250
/** Between two questions about one server. */
const ASK_AFTER_MS = 50
/** What was granted and not used goes back before it is void. */
const GIVE_BACK_AFTER_MS = 300
/** Others give back, limits are raised: asked again after this long, however empty the bucket was. */
const ASK_WITHIN_MS = 1_000
/** Tokens are counted when answers come, and charged this often when nothing is asked for. */
const SETTLE_MS = 1_000
/** Samples may wait for permits while slots are free, which nobody is told of: looked at so often, in memory. */
const LOOK_EVERY_MS = 50

const MINUTE_MS = 60_000
/**
 * What may come at once after a pause is 2 s' worth (a minute's limit over 30). Permits are used up to 500 ms after they
 * were granted: those 500 ms less in the bucket, and no minute sees more than the limit and 2 s' worth.
 */
const BUCKET_MS = 2_000 - PERMIT_MS

/** A server's limits a minute, over all processes; null: none. */
export interface RateLimits {
  rpm: number | null
  tpm: number | null
}

/** What this needs of a router. */
export type PermitRouter = Pick<
  RewardRouter,
  'permitDemand' | 'setPermits' | 'reclaimPermits' | 'snapshot'
>

interface Limited {
  id: number
  limits: RateLimits
  /** Set while it is known when to ask next. */
  timer: NodeJS.Timeout | undefined
  asking: Promise<void> | null
  /** Used beyond what was granted and not charged yet; below 0: to be given back. */
  owed: { requests: number; tokens: number }
  chargedAtMs: number
}

/**
 * Permits of the servers with a limit a minute: small parts of one bucket in Postgres, asked for while samples wait. At
 * every question what was not used goes back, so nobody holds more than 250 ms' worth, none of it longer than 500 ms.
 *
 *   idle ──demand──▶ asking ──granted──▶ 50 ms ──▶ asking …
 *                       │ short: until the bucket will have something
 *                       └ no demand, nothing to give back or to charge ──▶ idle
 */
export class RatePermits {
  readonly #db: Database
  readonly #router: PermitRouter
  readonly #log: Logger
  readonly #limited = new Map<number, Limited>()
  readonly #lookTimer: NodeJS.Timeout
  #closed = false

  constructor(db: Database, router: PermitRouter, log: Logger) {
    this.#db = db
    this.#router = router
    this.#log = log
    this.#lookTimer = setInterval(() => {
      for (const server of this.#limited.values()) this.#want(server)
    }, LOOK_EVERY_MS)
    this.#lookTimer.unref()
  }

  /** Makes a server's limits known, or changes them; without any it is forgotten. */
  track(serverId: number, limits: RateLimits): void {
    if (limits.rpm === null && limits.tpm === null) {
      this.forget(serverId)
      return
    }
    const known = this.#limited.get(serverId)
    if (known) known.limits = limits
    else {
      this.#limited.set(serverId, {
        id: serverId,
        limits,
        timer: undefined,
        asking: null,
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
  }

  /** Samples wait that permits would let go: asks at once, unless it is known when asking is worth it. */
  want(serverId: number): void {
    const server = this.#limited.get(serverId)
    if (server) this.#want(server)
  }

  /** Gives back what is not used. */
  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#lookTimer)
    await Promise.all(
      [...this.#limited.values()].map(async (server) => {
        clearTimeout(server.timer)
        await server.asking
        await this.#ask(server)
      }),
    )
    this.#limited.clear()
  }

  #want(server: Limited): void {
    if (server.timer !== undefined || server.asking !== null || this.#closed) return
    server.asking = this.#ask(server)
  }

  async #ask(server: Limited): Promise<void> {
    let waitMs: number | null
    try {
      waitMs = await this.#exchange(server)
    } catch (error) {
      this.#log.debug({ err: (error as Error).message, server: server.id }, 'no permits')
      waitMs = ASK_WITHIN_MS / 2
    }
    server.asking = null
    if (waitMs === null || this.#closed || this.#limited.get(server.id) !== server) return
    // Those who found the bucket empty at one time come back at different ones.
    server.timer = setTimeout(
      () => {
        server.timer = undefined
        this.#want(server)
      },
      waitMs * (1 + Math.random() / 5),
    )
    server.timer.unref()
  }

  /** One question; gives in how many ms to ask again, null: when there is demand. */
  async #exchange(server: Limited): Promise<number | null> {
    const { id, owed } = server
    const { rpm, tpm } = server.limits
    const unused = this.#router.reclaimPermits(id)
    const demand = this.#router.permitDemand(id)
    const rows = this.#closed ? 0 : demand.requests
    const charge = {
      requests: rpm === null ? 0 : owed.requests - unused.requests,
      tokens: tpm === null ? 0 : owed.tokens - unused.tokens + demand.tokensOverspent,
    }
    const sentAt = performance.now()
    if (rows === 0 && unused.requests === 0 && unused.tokens === 0) {
      const isDue = this.#closed || sentAt - server.chargedAtMs >= SETTLE_MS
      if (!isDue || (charge.requests === 0 && charge.tokens === 0)) {
        server.owed = charge
        return null
      }
    }
    server.chargedAtMs = sentAt
    // Should the question fail, debts are charged again, perhaps twice; nothing is given back twice.
    server.owed = { requests: Math.max(0, charge.requests), tokens: Math.max(0, charge.tokens) }
    const tokensOfOne = tpm !== null && rows > 0 ? this.#tokensOfOne(id, demand.tokens / rows) : 1
    const answer = await takeRate(this.#db, id, {
      requests: rpm === null ? null : partOf(rpm, charge.requests, rows, 1),
      tokens: tpm === null ? null : partOf(tpm, charge.tokens, rows, tokensOfOne),
    })
    server.owed = { requests: 0, tokens: 0 }
    if (rows === 0) return null
    const emptyMs = missingMs(server.limits, answer)
    if (!answer.granted) return Math.min(ASK_WITHIN_MS, Math.max(ASK_AFTER_MS, emptyMs))
    const { requests, tokens } = answer
    if (this.#closed || this.#limited.get(id) !== server) {
      server.owed = { requests: -requests, tokens: -tokens }
      return null
    }
    this.#router.setPermits(id, { requests, tokens, untilMs: sentAt + PERMIT_MS })
    const nextMs = answer.short ? Math.max(emptyMs, QUANTUM_MS / 2) : ASK_AFTER_MS
    return Math.min(GIVE_BACK_AFTER_MS, Math.max(ASK_AFTER_MS, nextMs))
  }

  /** Tokens of a sample: as those scored so far had. The first one goes on any, and is charged for when it went. */
  #tokensOfOne(id: number, most: number): number {
    const stats = this.#router.snapshot().find((s) => s.serverId === id)
    const scored = stats?.latency.reduce((sum, n) => sum + n, 0) ?? 0
    if (stats === undefined || scored === 0) return 1
    const mean = stats.tokens / scored
    return Math.max(1, most > 0 ? Math.min(mean, most) : mean)
  }
}

/** The question about one of the two limits, for so many samples: at most a quantum of it, and enough for one sample. */
function partOf(perMinute: number, charge: number, rows: number, ofOne: number): RatePart {
  const bucket = Math.max(1, (perMinute * BUCKET_MS) / MINUTE_MS)
  const quantum = Math.max(ofOne, (perMinute * QUANTUM_MS) / MINUTE_MS)
  const none = rows === 0
  return {
    charge,
    want: Math.min(rows * ofOne, quantum, bucket),
    // A sample larger than the bucket goes when the bucket is full, and leaves a debt.
    least: none ? 0 : Math.min(ofOne, bucket),
    beyond: none ? 0 : Math.max(0, ofOne - bucket),
    perMinute,
    bucket,
  }
}

/** When the buckets will have enough for a sample, as far as can be told. */
function missingMs({ rpm, tpm }: RateLimits, answer: RateAnswer): number {
  const requestsMs = rpm === null ? 0 : (MINUTE_MS / rpm) * answer.requestsMissing
  const tokensMs = tpm === null ? 0 : (MINUTE_MS / tpm) * answer.tokensMissing
  return Math.max(requestsMs, tokensMs)
}
