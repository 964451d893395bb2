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

/** Limits that nobody has used for so long are over: whoever comes then sets them anew. */
const FORGET_AFTER_MS = 30_000
/** They are said to be in use this often, and a gate that was not used for two such times is left. */
const SAY_EVERY_MS = 5_000
/** A database that restarts is waited for; a sample that waits meanwhile has not failed. */
const OUTAGE_MS = 60_000

/** Samples that a worker holds of a limiter before it has any slot of it. */
const MIN_CAPACITY = 32

interface Shared {
  name: string
  limits: RequestLimits
  gate: RequestGate
  /** Calls that may be in flight from here now. */
  slots: number
  lastUseMs: number
  /** Limits that were asked for and are not these, as told. */
  told: Set<string>
}

/**
 * Limits over all workers: requests and tokens of a minute are rows in Postgres that every worker takes from, calls at
 * once are leased. A worker that dies takes with it at most the one call whose turn had come, and its lease for 2 s.
 *
 *   unknown ──first sample──▶ agreed on ──used──▶ … ──10 s without use──▶ unknown
 */
export class SharedLimits implements CallLimits {
  readonly clock = systemClock
  readonly #db: Database
  readonly #leases: LeaseHolder
  readonly #log: Logger
  readonly #shared = new Map<string, Promise<Shared>>()
  /** Those that are agreed on, by the pool that their samples wait in. */
  readonly #byPool = new Map<string, Shared>()
  readonly #timer: NodeJS.Timeout

  constructor(db: Database, leases: LeaseHolder, log: Logger) {
    this.#db = db
    this.#leases = leases
    this.#log = log
    this.#timer = setInterval(() => void this.#look(), SAY_EVERY_MS)
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
    // Left meanwhile: its lease is gone.
    if (this.#shared.get(name) !== agreeing) return this.gate(limiter)
    shared.lastUseMs = performance.now()
    this.#tell(shared, limiter.limits)
    this.#leases.want(leaseOf(name), 1)
    return shared.gate
  }

  /** Samples that this worker may hold of a limiter's pool: twice its part, so that the others find theirs. */
  capacityOf(pool: string): number {
    return Math.max(MIN_CAPACITY, 2 * (this.#byPool.get(pool)?.slots ?? 0))
  }

  /** Looks after them no more. */
  close(): void {
    clearInterval(this.#timer)
  }

  async #agree({ name, limits: asked }: LimiterRef): Promise<Shared> {
    const limits = await throughOutage(
      () => agreeOnLimits(this.#db, name, asked, FORGET_AFTER_MS),
      { forMs: OUTAGE_MS },
    )
    const gate = new RequestGate(limits, this.clock, this.#sourcesOf(name, limits))
    const shared: Shared = {
      name,
      limits,
      gate,
      slots: 0,
      lastUseMs: performance.now(),
      told: new Set(),
    }
    this.#leases.track({
      name: leaseOf(name),
      limit: limits.maxConcurrent,
      graceMs: CALLS_GRACE_MS,
      demand: () => gate.demand,
      inFlight: () => gate.slotsTaken,
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
        // Not given back, a minute has a little less: nothing to try again for.
        refund: async (amount) => void (await take(-amount)),
      }
    }
    return {
      leased: true,
      ...(maxRpm === null ? {} : { requests: rate('rpm', maxRpm, 1) }),
      ...(maxTpm === null ? {} : { tokens: rate('tpm', maxTpm, estimatedTokens) }),
    }
  }

  /** Upstream warns of this, once; here for every other setting that comes. */
  #tell(shared: Shared, asked: RequestLimits): void {
    const ignored = ignoredLimits(shared.limits, asked)
    if (ignored.length === 0) return
    const text = ignored.join('; ')
    if (shared.told.has(text)) return
    shared.told.add(text)
    this.#log.warn(
      { limiter: shared.name, ignored },
      'this limiter is in use with other limits, which hold until it was not used for 30 s',
    )
  }

  async #look(): Promise<void> {
    for (const [name, agreeing] of this.#shared) {
      const shared = await agreeing.catch(() => null)
      if (shared === null) continue
      const { gate, limits } = shared
      const isIdle = gate.demand === 0 && performance.now() - shared.lastUseMs > 2 * SAY_EVERY_MS
      if (isIdle) {
        this.#shared.delete(name)
        this.#byPool.delete(poolOfLimiter(name))
        this.#leases.forget(leaseOf(name))
      } else {
        await agreeOnLimits(this.#db, name, limits, FORGET_AFTER_MS).catch((error: Error) =>
          this.#log.debug({ err: error.message, limiter: name }, 'limits not said to be in use'),
        )
      }
    }
  }
}

function leaseOf(name: string): string {
  return `limit:${name}`
}
