import type { Logger } from '../log.ts'
import type { Database } from '../store/database.ts'
import { dropLeases, type OtherHolder, renewLease } from '../store/sql/leases.ts'
import { afterReads } from '../with-timeout.ts'
import { RecentPeak } from './recent-peak.ts'

/** A share of a limit is valid for this long. It is renewed about three times in that time. */
const TTL_MS = 2_000
const RENEW_MS = 650
/**
 * Grace period of limits on calls: a paused or disconnected process may have calls in flight this long after its
 * share expired.
 */
export const CALLS_GRACE_MS = 30_000
/** A holder stops using its share this long before the share expires in the database. */
const MARGIN_MS = 150
/** Requests for slots within this time are combined into one. */
const COALESCE_MS = 15
/** Maximum interval between requests of a holder that needs more slots and has less than an equal part of the limit. */
const LACKING_MS = 160
/**
 * Interval of the checks of all shares. An unused share is released after one to two intervals, because another
 * process may wait for its slots.
 */
const CHECK_MS = 25
/** A holder that yields slots reports ended calls at this interval, because other processes wait for the slots. */
const YIELD_MS = 50
/**
 * When several processes begin at the same moment, the first one takes all slots. A holder that is short of slots
 * therefore requests again after this time, then after twice the time, and so on. When slots were requested only at
 * renewals, one of two workers had a single slot of 128 for more than a second.
 */
const SHORTAGE_RETRY_MS = 40
/**
 * A peak of demand counts for at least this long and at most twice as long, because short calls begin and end in
 * bursts: 64 callers of the router address have 10 calls in flight at one moment and 60 at the next. With slots for the
 * current demand only, half of the callers waited 4 ms. With the peak, 2 % waited.
 */
const PEAK_MS = 300

/**
 * A limit shared by all processes: requests in flight to a server, samples in flight of a batch, or concurrent calls
 * of a limiter.
 */
export interface LeasedResource {
  name: string
  limit: number
  /**
   * A share that expired without renewal counts this many ms longer, because its holder may be paused with calls in
   * flight.
   */
  graceMs?: number
  demand(): number
  inFlight(): number
  /**
   * Sets the usable slots. `untilMs`: end of the share on the clock of `performance.now()`. Other processes may use
   * the slots afterwards, even if this process's timers run late. `others`: total slots of the other holders, if the
   * database has just reported them.
   */
  setSlots(slots: number, untilMs: number, others?: number): void
  /**
   * Cancels all calls in flight. Called when the share and its grace period have ended, because other processes may
   * then use the slots.
   */
  recall?(): void
}

interface Lease {
  resource: LeasedResource
  slots: number
  untilMs: number
  expiryTimer: NodeJS.Timeout | undefined
  /** Cancels the timer that recalls the calls of an expired share at the end of its grace period. */
  cancelRecall: () => void
  recentPeak: RecentPeak
  /**
   * Maximum number of slots kept for a recent peak beyond the current demand: an equal part while other processes lack
   * slots, else infinite.
   */
  maxKept: number
  requestedAtMs: number
  isRequesting: boolean
  requestAgain: boolean
  /** Whether the holder had slots and no demand at the last check. */
  wasUnused: boolean
  /** Time until the next request while there is demand. */
  retryMs: number
  /**
   * Whether the last answer granted less than requested. If so, a holder that has some slots requests more slots only
   * when its timer fires.
   */
  isShort: boolean
  reportedInFlight: number
  /** True if the holder uses fewer slots than it was granted, because other processes have less than an equal part. */
  isYielding: boolean
}

/**
 * A process's shares of limits. While a request is pending, no more calls may be in flight than the request reported,
 * because slots that the answer takes away may belong to another process before the answer arrives.
 *
 * Slots in use are never taken away, so a holder that replaces each ended call immediately would keep the whole limit
 * forever. It therefore yields slots, as its calls end, to processes that have less than an equal part.
 */
export class LeaseHolder {
  readonly #db: Database
  readonly #holderId: number
  readonly #log: Logger
  readonly #leases = new Map<string, Lease>()
  /** The last queued request of each resource. */
  readonly #turns = new Map<string, Promise<void>>()
  /** Set while resources are leased. */
  #timer: NodeJS.Timeout | undefined
  #closed = false
  #paused = false

  /** `holderId`: the id of this process's row in `process`. */
  constructor(db: Database, holderId: number, log: Logger) {
    this.#db = db
    this.#holderId = holderId
    this.#log = log
  }

  /** While paused, no calls are dispatched; calls in flight may finish. */
  set paused(paused: boolean) {
    this.#paused = paused
    for (const lease of this.#leases.values()) {
      if (paused) this.#setSlots(lease, lease.slots)
      else this.#request(lease, 0)
    }
  }

  get callsInFlight(): number {
    let calls = 0
    for (const [name, { resource }] of this.#leases) {
      if (name.startsWith('server:')) calls += resource.inFlight()
    }
    return calls
  }

  /**
   * Adds a resource, or updates its limit. A lower limit applies immediately, because the current shares were granted
   * under the old limit.
   */
  track(resource: LeasedResource): void {
    const lease = this.#leases.get(resource.name)
    if (lease) {
      const isLess = resource.limit < lease.resource.limit
      lease.resource = resource
      if (isLess && lease.slots > 0) {
        // While a request is pending, the usable slots do not change. Another request follows the answer.
        if (!lease.isRequesting) this.#setSlots(lease, Math.min(lease.slots, resource.limit))
        this.#request(lease, 0)
      }
    } else {
      if (!this.#closed) this.#timer ??= setInterval(() => this.#check(performance.now()), CHECK_MS)
      this.#leases.set(resource.name, {
        resource,
        slots: 0,
        untilMs: 0,
        expiryTimer: undefined,
        cancelRecall: () => {},
        recentPeak: new RecentPeak(PEAK_MS),
        maxKept: Number.POSITIVE_INFINITY,
        requestedAtMs: Number.NEGATIVE_INFINITY,
        isRequesting: false,
        requestAgain: false,
        wasUnused: false,
        retryMs: SHORTAGE_RETRY_MS,
        isShort: false,
        reportedInFlight: 0,
        isYielding: false,
      })
    }
  }

  /** Stops leasing a resource. Its slots are released now if no calls are in flight, else when the share expires. */
  forget(name: string): void {
    const lease = this.#leases.get(name)
    if (!lease) return
    clearTimers(lease)
    this.#leases.delete(name)
    if (this.#leases.size === 0) this.#stopChecks()
    lease.resource.setSlots(0, 0)
    if (lease.slots > 0 || lease.isRequesting) this.#inTurn(name, () => this.#giveBack(lease))
  }

  slots(name: string): number {
    return this.#leases.get(name)?.slots ?? 0
  }

  /**
   * Requests more slots within 15 ms. Further calls within this time join the same request. `atLeast`: minimum number
   * to request.
   */
  want(name: string, atLeast = 0): void {
    const lease = this.#leases.get(name)
    if (!lease || this.#closed || (lease.isShort && lease.slots > 0)) return
    // The demand is noted now, because the request is delayed and demand may be lower by then.
    lease.recentPeak.note(lease.resource.demand(), performance.now())
    this.#request(lease, atLeast)
  }

  #request(lease: Lease, atLeast: number): void {
    if (lease.isRequesting) {
      lease.requestAgain = true
      return
    }
    lease.isRequesting = true
    const renew = () => this.#inTurn(lease.resource.name, () => this.#renew(lease, atLeast))
    setTimeout(renew, lease.slots === 0 ? 0 : COALESCE_MS)
  }

  /**
   * Sends the requests for a resource one after the other, including those of a forgotten lease and of its successor.
   */
  #inTurn(name: string, request: () => Promise<void>): void {
    const turn = (this.#turns.get(name) ?? Promise.resolve()).then(request).then(() => {
      if (this.#turns.get(name) === turn) this.#turns.delete(name)
    })
    this.#turns.set(name, turn)
  }

  /**
   * Releases a forgotten lease, which would otherwise count until its grace period ends. A lease with calls in flight
   * is kept.
   */
  async #giveBack({ resource }: Lease): Promise<void> {
    if (resource.inFlight() > 0) return
    const { name, limit, graceMs = 0 } = resource
    const nothing = { demand: 0, inFlight: 0, ttlMs: TTL_MS, graceMs, limit }
    await renewLease(this.#db, { resource: name, holderId: this.#holderId, ...nothing }).catch(
      (error: Error) => this.#log.debug({ err: error.message, lease: name }, 'lease not returned'),
    )
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#stopChecks()
    this.#leases.forEach(clearTimers)
    // A request that is under way would create its lease again, and no process would release it.
    await Promise.all(this.#turns.values())
    await dropLeases(this.#db, [this.#holderId]).catch(() => {})
  }

  /** Sets the usable slots: none while paused, so that ended calls are not replaced. */
  #setSlots({ resource, untilMs }: Lease, slots: number, others?: number): void {
    resource.setSlots(this.#paused ? 0 : slots, untilMs, others)
  }

  #stopChecks(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #check(nowMs: number): void {
    for (const lease of this.#leases.values()) {
      const demand = lease.resource.demand()
      lease.recentPeak.note(demand, nowMs)
      const isWanted = demand > 0
      const unused = lease.slots > 0 && !isWanted
      const idle = unused && lease.wasUnused
      if (idle) lease.recentPeak.forget()
      lease.wasUnused = unused
      if (!isWanted) lease.retryMs = SHORTAGE_RETRY_MS
      const hasYielded = lease.isYielding && lease.resource.inFlight() < lease.reportedInFlight
      const everyMs = hasYielded ? YIELD_MS : isWanted ? lease.retryMs : RENEW_MS
      if (idle || ((isWanted || lease.slots > 0) && nowMs - lease.requestedAtMs >= everyMs)) {
        this.#request(lease, 0)
      }
    }
  }

  async #renew(lease: Lease, atLeast: number): Promise<void> {
    const { resource } = lease
    if (this.#closed || this.#leases.get(resource.name) !== lease) return
    const sentAt = performance.now()
    lease.requestedAtMs = sentAt
    let returnsSlots = false
    try {
      const demand = Math.max(slotsToRequest(lease, resource.demand(), sentAt), atLeast)
      const inFlight = resource.inFlight()
      lease.reportedInFlight = inFlight
      const isNewlyShort = demand > lease.slots && !lease.isShort
      const before = lease.slots
      if (lease.slots > inFlight) this.#setSlots(lease, inFlight)
      const granted = await renewLease(this.#db, {
        resource: resource.name,
        holderId: this.#holderId,
        demand,
        inFlight,
        limit: resource.limit,
        ttlMs: TTL_MS,
        graceMs: resource.graceMs ?? 0,
      })
      const { slots, others } = granted
      lease.isShort = slots < demand
      const part = partOf(resource.limit, others)
      const keptBefore = lease.maxKept
      lease.maxKept = others.some((other) => other.demand > other.slots)
        ? part
        : Number.POSITIVE_INFINITY
      // Return the excess now, not at the next renewal, if this answer is the first to show that others lack slots.
      returnsSlots =
        lease.maxKept < keptBefore &&
        slots > slotsToRequest(lease, resource.demand(), performance.now())
      const maxRetryMs = slots < Math.min(demand, part) ? LACKING_MS : RENEW_MS
      // Without a shortage no retry is needed, because rising demand sends a request by itself.
      const isNew = lease.isShort && (isNewlyShort || slots > before)
      lease.retryMs = isNew ? SHORTAGE_RETRY_MS : Math.min(maxRetryMs, 2 * lease.retryMs)
      if (this.#leases.get(resource.name) === lease) this.#grant(lease, granted, sentAt)
    } catch (error) {
      this.#log.debug(
        { err: (error as Error).message, lease: resource.name },
        'lease renewal failed',
      )
    } finally {
      lease.isRequesting = false
      const again = lease.requestAgain && resource.demand() > lease.slots
      lease.requestAgain = false
      if (returnsSlots || lease.resource.limit < resource.limit) this.#request(lease, 0)
      else if (again) this.want(resource.name)
    }
  }

  #grant(
    lease: Lease,
    { slots: granted, others }: { slots: number; others: OtherHolder[] },
    sentAt: number,
  ): void {
    clearTimers(lease)
    const slots = granted - toYield(granted, lease.resource.limit, others)
    lease.isYielding = slots < granted
    lease.slots = slots
    lease.untilMs = sentAt + TTL_MS - MARGIN_MS
    const othersSlots = others.reduce((sum, other) => sum + other.slots, 0)
    this.#setSlots(lease, slots, othersSlots)
    if (slots === 0) return
    lease.expiryTimer = setTimeout(
      () => {
        lease.slots = 0
        lease.resource.setSlots(0, 0)
      },
      Math.max(0, lease.untilMs - performance.now()),
    )
    const { graceMs = 0 } = lease.resource
    lease.cancelRecall = afterReads(Math.max(0, lease.untilMs + graceMs - performance.now()), () =>
      lease.resource.recall?.(),
    )
  }
}

function clearTimers({ expiryTimer, cancelRecall }: Lease): void {
  clearTimeout(expiryTimer)
  cancelRecall()
}

/**
 * Slots to request: the demand, or its recent peak if that is higher. While others lack slots, the peak counts only
 * up to an equal part.
 */
function slotsToRequest(lease: Lease, demand: number, nowMs: number): number {
  const recentPeak = lease.recentPeak.note(demand, nowMs)
  return Math.max(demand, Math.min(recentPeak, lease.maxKept, lease.resource.limit))
}

/**
 * Number of granted slots to leave to other processes: the slots that they lack to meet their demand or to reach an
 * equal part, whichever is less, minus the free slots. It is at most the holder's own excess over an equal part. Parts
 * are rounded down, so that a remainder does not move between processes, and no slots move if the limit is smaller than
 * the number of holders.
 */
function toYield(granted: number, limit: number, others: readonly OtherHolder[]): number {
  const part = partOf(limit, others)
  let lacking = 0
  let free = limit - granted
  for (const { slots, demand } of others) {
    lacking += Math.max(0, Math.min(demand, part) - slots)
    free -= slots
  }
  return Math.max(0, Math.min(lacking - Math.max(0, free), granted - part))
}

/** An equal part of a limit, rounded down, among all processes that have slots or demand. */
function partOf(limit: number, others: readonly OtherHolder[]): number {
  const claiming = others.filter(({ slots, demand }) => slots > 0 || demand > 0)
  return Math.floor(limit / (claiming.length + 1))
}
