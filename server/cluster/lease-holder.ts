import type { Logger } from '../log.ts'
import type { Database } from '../store/database.ts'
import { dropLeases, type OtherHolder, renewLease } from '../store/sql/leases.ts'
import { RecentPeak } from './recent-peak.ts'

/** A share of a limit lasts this long. It is renewed about three times in that time. */
const TTL_MS = 2_000
const RENEW_MS = 650
/** The `graceMs` of limits on calls: a call of a paused or disconnected process is in flight for at most this long. */
export const CALLS_GRACE_MS = 30_000
/** A holder stops using its share this long before another process may take it. */
const MARGIN_MS = 150
/** Demands within this time are combined into one request. */
const COALESCE_MS = 15
/** A holder with less than an equal part that could use more requests slots at least this often. */
const LACKING_MS = 160
/**
 * An unused share is released after one to two of these intervals: where a limit is small, another process waits for it.
 */
const LOOK_MS = 25
/** While it yields slots, a holder reports ended calls this often, because the other processes wait for them. */
const YIELD_MS = 50
/**
 * A holder that is newly short of slots, or is short but gained some, requests again after this time, doubled each time
 * up to the renewal interval. When several processes begin at the same moment, the first one takes all slots. With one
 * renewal for each to notice and to yield, one of two workers had one slot of 128 for more than a second, a whole step of
 * a fast model.
 */
const AGAIN_MS = 40
/**
 * A peak of demand counts for this long. Calls of a millisecond end and begin in waves of one turn of the event loop: 64
 * callers of the router address have 10 calls in flight at one moment and 60 at the next. A process that requested its
 * demand of the moment sent 20 requests a second and had a third of its slots. Half of its callers waited, for 4 ms; with
 * the peak, 2 % wait.
 */
const PEAK_MS = 300

/** A limit shared by all workers: the calls in flight of a server, the samples in flight of a batch. */
export interface LeasedResource {
  name: string
  limit: number
  /** A share that expired without renewal counts this much longer: its holder may be paused with calls in flight. */
  graceMs?: number
  demand(): number
  inFlight(): number
  /**
   * Sets the usable slots.
   * `untilMs`: on the clock of `performance.now()`; from then on the slots belong to other processes, even if timers run
   * late.
   * `others`: slots of the other holders, if the database has just reported them.
   */
  setSlots(slots: number, untilMs: number, others?: number): void
  /** Cancels all calls in flight: the share and its grace period have ended, and other processes may use the slots. */
  recall?(): void
}

interface Held {
  resource: LeasedResource
  slots: number
  untilMs: number
  lapse: NodeJS.Timeout | undefined
  /** Cancels the calls of an expired share at the end of its grace period. */
  recall: NodeJS.Timeout | undefined
  /** The recent peak of its demand. */
  lately: RecentPeak
  /**
   * Upper bound for slots kept for a recent peak without current demand: an equal part while other processes lack slots,
   * else infinite.
   */
  keeps: number
  /** When a request was last sent. */
  askedAtMs: number
  asking: boolean
  askAgain: boolean
  /** It had no demand at the last check. */
  idle: boolean
  /** Time until the next request while there is demand. */
  againMs: number
  /** The last answer was less than requested because other processes have the rest; only the timer requests again. */
  short: boolean
  /** Calls in flight at the last request. */
  toldInFlight: number
  /** Other processes lack their part: it uses fewer slots than it was granted until they have it. */
  yielding: boolean
}

/**
 * A process's shares of limits. They are requested by demand, renewed while needed, and released when idle or not renewed
 * in time. While a request is pending, no more calls may be in flight than the request reported: slots that the answer
 * takes away may belong to another process before the answer arrives.
 *
 * Slots in use are never taken away. A holder that has the whole limit and sends the next call as soon as one ends would
 * keep it forever. So it yields slots voluntarily, as its calls end, to processes that lack their equal part.
 */
export class LeaseHolder {
  readonly #db: Database
  readonly #holderId: number
  readonly #log: Logger
  readonly #held = new Map<string, Held>()
  readonly #timer: NodeJS.Timeout
  #closed = false
  #paused = false

  /** `holderId`: the id of this process's row. */
  constructor(db: Database, holderId: number, log: Logger) {
    this.#db = db
    this.#holderId = holderId
    this.#log = log
    this.#timer = setInterval(() => this.#look(performance.now()), LOOK_MS)
  }

  /** While paused, no calls are dispatched; calls in flight may finish. */
  set paused(paused: boolean) {
    this.#paused = paused
    for (const held of this.#held.values()) {
      if (paused) held.resource.setSlots(this.#usable(held), held.untilMs)
      else this.#ask(held, 0)
    }
  }

  /** Calls in flight under the limits of servers. */
  get callsInFlight(): number {
    let calls = 0
    for (const [name, { resource }] of this.#held) {
      if (name.startsWith('server:')) calls += resource.inFlight()
    }
    return calls
  }

  /**
   * Adds a resource, or updates its limit. A lower limit applies at once, because the present shares are parts of the old
   * limit.
   */
  track(resource: LeasedResource): void {
    const held = this.#held.get(resource.name)
    if (held) {
      const isLess = resource.limit < held.resource.limit
      held.resource = resource
      if (isLess && held.slots > 0) {
        // While a request is pending, the usable slots stay as reported; another request follows the answer.
        if (!held.asking) resource.setSlots(Math.min(held.slots, resource.limit), held.untilMs)
        this.#ask(held, 0)
      }
    } else {
      this.#held.set(resource.name, {
        resource,
        slots: 0,
        untilMs: 0,
        lapse: undefined,
        recall: undefined,
        lately: new RecentPeak(PEAK_MS),
        keeps: Number.POSITIVE_INFINITY,
        askedAtMs: Number.NEGATIVE_INFINITY,
        asking: false,
        askAgain: false,
        idle: false,
        againMs: AGAIN_MS,
        short: false,
        toldInFlight: 0,
        yielding: false,
      })
    }
  }

  forget(name: string): void {
    const held = this.#held.get(name)
    if (!held) return
    clearTimers(held)
    this.#held.delete(name)
    held.resource.setSlots(0, 0)
  }

  slots(name: string): number {
    return this.#held.get(name)?.slots ?? 0
  }

  /** Requests more slots soon, combined with other demands of the same moment. */
  want(name: string, atLeast = 0): void {
    const held = this.#held.get(name)
    if (!held || this.#closed || (held.short && held.slots > 0)) return
    // Demand is noted now: the request is delayed, and demand may be lower by then.
    held.lately.note(held.resource.demand(), performance.now())
    this.#ask(held, atLeast)
  }

  #ask(held: Held, atLeast: number): void {
    if (held.asking) {
      held.askAgain = true
      return
    }
    held.asking = true
    setTimeout(() => void this.#renew(held, atLeast), held.slots === 0 ? 0 : COALESCE_MS)
  }

  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#timer)
    this.#held.forEach(clearTimers)
    await dropLeases(this.#db, [this.#holderId]).catch(() => {})
  }

  /** The granted slots; while paused, at most those in use. */
  #usable({ slots, resource }: Held): number {
    return this.#paused ? Math.min(slots, resource.inFlight()) : slots
  }

  #look(nowMs: number): void {
    for (const held of this.#held.values()) {
      const demand = held.resource.demand()
      held.lately.note(demand, nowMs)
      const isWanted = demand > 0
      const unused = held.slots > 0 && !isWanted
      const idle = unused && held.idle
      if (idle) held.lately.forget()
      held.idle = unused
      if (!isWanted) held.againMs = AGAIN_MS
      const gaveWay = held.yielding && held.resource.inFlight() < held.toldInFlight
      const everyMs = gaveWay ? YIELD_MS : isWanted ? held.againMs : RENEW_MS
      if (idle || ((isWanted || held.slots > 0) && nowMs - held.askedAtMs >= everyMs)) {
        this.#ask(held, 0)
      }
    }
  }

  async #renew(held: Held, atLeast: number): Promise<void> {
    const { resource } = held
    const sentAt = performance.now()
    held.askedAtMs = sentAt
    let givesBack = false
    try {
      const demand = Math.max(wanted(held, resource.demand(), sentAt), atLeast)
      const inFlight = resource.inFlight()
      held.toldInFlight = inFlight
      const newlyShort = demand > held.slots && !held.short
      const before = held.slots
      if (held.slots > inFlight) resource.setSlots(inFlight, held.untilMs)
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
      held.short = slots < demand
      const part = partOf(resource.limit, others)
      const kept = held.keeps
      held.keeps = others.some((other) => other.demand > other.slots)
        ? part
        : Number.POSITIVE_INFINITY
      // The request was sent before it was known that others lack slots: the excess is returned now, not at the next
      // renewal.
      givesBack = held.keeps < kept && slots > wanted(held, resource.demand(), performance.now())
      const mostMs = slots < Math.min(demand, part) ? LACKING_MS : RENEW_MS
      // A holder that got all it requested requests more when it needs more: demand rises and falls all the time.
      const isNew = held.short && (newlyShort || slots > before)
      held.againMs = isNew ? AGAIN_MS : Math.min(mostMs, 2 * held.againMs)
      if (this.#held.get(resource.name) === held) this.#grant(held, granted, sentAt)
    } catch (error) {
      this.#log.debug(
        { err: (error as Error).message, lease: resource.name },
        'lease renewal failed',
      )
    } finally {
      held.asking = false
      const again = held.askAgain && resource.demand() > held.slots
      held.askAgain = false
      if (givesBack || held.resource.limit < resource.limit) this.#ask(held, 0)
      else if (again) this.want(resource.name)
    }
  }

  #grant(
    held: Held,
    { slots: granted, others }: { slots: number; others: OtherHolder[] },
    sentAt: number,
  ): void {
    clearTimers(held)
    const slots = granted - toYield(granted, held.resource.limit, others)
    held.yielding = slots < granted
    held.slots = slots
    held.untilMs = sentAt + TTL_MS - MARGIN_MS
    const theirs = others.reduce((sum, other) => sum + other.slots, 0)
    held.resource.setSlots(this.#usable(held), held.untilMs, theirs)
    if (slots === 0) return
    held.lapse = setTimeout(
      () => {
        held.slots = 0
        held.resource.setSlots(0, 0)
      },
      Math.max(0, held.untilMs - performance.now()),
    )
    const { graceMs = 0 } = held.resource
    held.recall = setTimeout(
      () => held.resource.recall?.(),
      Math.max(0, held.untilMs + graceMs - performance.now()),
    )
  }
}

function clearTimers({ lapse, recall }: Held): void {
  clearTimeout(lapse)
  clearTimeout(recall)
}

/** Slots to request: the recent peak, but at most an equal part of a limit that others lack slots of. */
function wanted(held: Held, demand: number, nowMs: number): number {
  const lately = held.lately.note(demand, nowMs)
  return Math.max(demand, Math.min(lately, held.keeps, held.resource.limit))
}

/**
 * Granted slots to leave to others: the slots they lack of an equal part, as far as they can use them and none are free,
 * and at most the holder's excess over its own part. Parts are rounded down: a remainder that moves between processes
 * would be idle on the way, and a limit below the number of holders stays where it is.
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
