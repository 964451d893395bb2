import { CALLS_GRACE_MS, type LeaseHolder } from '../cluster/lease-holder.ts'
import type { RequestLimits } from '../contract/resolved-reward.ts'
import type { Logger } from '../log.ts'
import type { CallLimits, LimiterRef } from '../rewards/limits/call-limits.ts'
import { systemClock } from '../rewards/limits/clock.ts'
import { ignoredLimits } from '../rewards/limits/gate-registry.ts'
import { bucketOf } from '../rewards/limits/limit-settings.ts'
import { type GateSources, RequestGate } from '../rewards/limits/request-gate.ts'
import type { Rate } from '../rewards/limits/token-bucket.ts'
import { type Database, throughOutage } from '../store/database.ts'
import { poolOfLimiter } from '../store/job-queue.ts'
import { agreeOnLimits, reserveRate } from '../store/sql/rate.ts'

/** Time without use after which limits expire. The next caller then sets new limits. */
const FORGET_AFTER_MS = 30_000
/** Interval at which a worker reports the limiters that it uses. A limiter unused for two intervals is released. */
const REPORT_EVERY_MS = 5_000
/** Maximum wait for a restarting database, after which waiting samples fail. */
const OUTAGE_MS = 60_000

/**
 * Samples of one limiter that a worker may always claim, even while it holds none of the limiter's slots, because a
 * worker requests slots only for samples that it has claimed.
 */
const MIN_CAPACITY = 32

interface Shared {
  name: string
  limits: RequestLimits
  gate: RequestGate
  /** Calls that may be in flight from this worker now. */
  slots: number
  lastUseMs: number
  logged: Set<string>
}

/**
 * Enforces limits over all workers. Requests and tokens per minute are buckets in Postgres; concurrent calls are
 * leased. A dead worker wastes at most the requests and tokens that it reserved for one call, and holds its lease for
 * at most 32 s, until its death is certain.
 *
 * A worker tracks the limiters that it uses:
 *   unused ──first sample──▶ tracked, with the limits of all workers ──10 s without use──▶ unused
 */
export class SharedLimits implements CallLimits {
  readonly clock = systemClock
  readonly #db: Database
  readonly #leases: LeaseHolder
  readonly #log: Logger
  readonly #shared = new Map<string, Promise<Shared>>()
  readonly #byPool = new Map<string, Shared>()
  readonly #timer: NodeJS.Timeout

  constructor(db: Database, leases: LeaseHolder, log: Logger) {
    this.#db = db
    this.#leases = leases
    this.#log = log
    this.#timer = setInterval(() => void this.#look(), REPORT_EVERY_MS)
    this.#timer.unref()
  }

  async gate(limiter: LimiterRef): Promise<RequestGate> {
    const { name } = limiter
    let agreeing = this.#shared.get(name)
    if (agreeing === undefined) {
      agreeing = this.#agree(limiter)
      this.#shared.set(name, agreeing)
      agreeing.catch(() => this.#shared.delete(name))
    }
    const shared = await agreeing
    // The limiter and its lease were released in the meantime.
    if (this.#shared.get(name) !== agreeing) return this.gate(limiter)
    shared.lastUseMs = performance.now()
    this.#logIgnored(shared, limiter.limits)
    this.#leases.want(leaseOf(name), 1)
    return shared.gate
  }

  /**
   * Maximum number of samples of a limiter's pool in this worker: twice its slots, so that other workers get samples
   * too.
   */
  capacityOf(pool: string): number {
    return Math.max(MIN_CAPACITY, 2 * (this.#byPool.get(pool)?.slots ?? 0))
  }

  close(): void {
    clearInterval(this.#timer)
  }

  async #agree({ name, limits: wanted }: LimiterRef): Promise<Shared> {
    const limits = await throughOutage(
      () => agreeOnLimits(this.#db, name, wanted, FORGET_AFTER_MS),
      { forMs: OUTAGE_MS },
    )
    const gate = new RequestGate(limits, this.clock, this.#sourcesOf(name, limits))
    const shared: Shared = {
      name,
      limits,
      gate,
      slots: 0,
      lastUseMs: performance.now(),
      logged: new Set(),
    }
    this.#leases.track({
      name: leaseOf(name),
      limit: limits.maxConcurrent,
      graceMs: CALLS_GRACE_MS,
      demand: () => gate.demand,
      inFlight: () => gate.slotsTaken,
      recall: () => gate.recall(),
      setSlots: (slots) => {
        shared.slots = slots
        gate.setSlots(slots)
      },
    })
    this.#byPool.set(poolOfLimiter(name), shared)
    return shared
  }

  #sourcesOf(name: string, limits: RequestLimits): GateSources {
    const { maxRpm, maxTpm, estimatedTokens } = limits
    const rate = (of: 'rpm' | 'tpm', perMinute: number, ofOne: number): Rate => {
      const { capacity } = bucketOf(perMinute, ofOne, limits)
      const resource = `limit:${name}:${of}`
      const take = (amount: number) => reserveRate(this.#db, resource, amount, perMinute, capacity)
      return {
        reserve: (amount) => throughOutage(() => take(amount), { forMs: OUTAGE_MS }),
        // A failed refund only lowers the rate slightly, so it is not retried.
        refund: async (amount) => void (await take(-amount)),
      }
    }
    return {
      leased: true,
      ...(maxRpm === null ? {} : { requests: rate('rpm', maxRpm, 1) }),
      ...(maxTpm === null ? {} : { tokens: rate('tpm', maxTpm, estimatedTokens) }),
    }
  }

  /** Logs ignored limits, once for each distinct setting (verl warns only once). */
  #logIgnored(shared: Shared, wanted: RequestLimits): void {
    const ignored = ignoredLimits(shared.limits, wanted)
    if (ignored.length === 0) return
    const text = ignored.join('; ')
    if (shared.logged.has(text)) return
    shared.logged.add(text)
    this.#log.warn(
      { limiter: shared.name, ignored },
      'this limiter is in use with other limits, which apply until it is unused for 30 s',
    )
  }

  async #look(): Promise<void> {
    for (const [name, agreeing] of this.#shared) {
      const shared = await agreeing.catch(() => null)
      if (shared === null) continue
      const { gate, limits } = shared
      const isIdle = gate.demand === 0 && performance.now() - shared.lastUseMs > 2 * REPORT_EVERY_MS
      if (isIdle) {
        this.#shared.delete(name)
        this.#byPool.delete(poolOfLimiter(name))
        this.#leases.forget(leaseOf(name))
      } else {
        await agreeOnLimits(this.#db, name, limits, FORGET_AFTER_MS).catch((error: Error) =>
          this.#log.debug({ err: error.message, limiter: name }, 'use of limits not reported'),
        )
      }
    }
  }
}

function leaseOf(name: string): string {
  return `limit:${name}`
}
