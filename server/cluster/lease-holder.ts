import type { Logger } from '../log.ts'
import type { Database } from '../store/database.ts'
import { dropLeases, type OtherHolder, renewLease } from '../store/sql/leases.ts'
import { RecentPeak } from './recent-peak.ts'

/** A share of a limit lasts this long; it is renewed three times in that time. */
const TTL_MS = 2_000
const RENEW_MS = 650
/** The `graceMs` of limits on calls: a call of a process that is stopped or cut off is out for this long at most. */
export const CALLS_GRACE_MS = 30_000
/** A holder stops this long before another may take its share. */
const MARGIN_MS = 150
/** Demands that come within this time are asked for together. */
const COALESCE_MS = 15
/** Who has less than an equal part and could use it asks at least so often. */
const LACKING_MS = 160
/** A share without use is given up after one to two of these: where a limit is small, somebody waits for it. */
const LOOK_MS = 25
/** While it gives way it tells this often what has ended, if anything has: the others wait for it. */
const YIELD_MS = 50
/**
 * Who has less than it wants, newly or still but more than before, asks again after this long, doubled each time up to the
 * time of a renewal: of those that begin at one moment the first takes all, and with a renewal each to find that out and
 * to give way, a worker of two had one slot of 128 for a second and more, a whole step of a fast model.
 */
const AGAIN_MS = 40
/**
 * What was wanted so lately is still wanted. Calls of a millisecond end and begin in waves of one turn of the loop: 64
 * callers of the router address have 10 in flight at one moment and 60 at the next, and who asked for what it wanted at
 * the moment asked 20 times a second and held a third of its slots: half of its callers waited, for 4 ms, 2 % now.
 */
const PEAK_MS = 300

/** A limit shared by all workers: the calls in flight of a server, the samples in flight of a batch. */
export interface LeasedResource {
  name: string
  limit: number
  /** A share that expired unrenewed counts this much longer: its holder may be stopped, with calls in flight. */
  graceMs?: number
  demand(): number
  inFlight(): number
  /**
   * `untilMs`: on the clock of `performance.now()`; from then on they are somebody else's, whatever timers say.
   * `others`: what the other holders have, where that was asked just now.
   */
  setSlots(slots: number, untilMs: number, others?: number): void
  /** The share and its grace are over: whatever is in flight is given up, for others may hold the slots now. */
  recall?(): void
}

interface Held {
  resource: LeasedResource
  slots: number
  untilMs: number
  lapse: NodeJS.Timeout | undefined
  /** Ends the calls of a share that lapsed, at the end of its grace. */
  recall: NodeJS.Timeout | undefined
  /** What it could use at most lately. */
  lately: RecentPeak
  /** Of what it had a use for lately, but has none at the moment, it keeps so much: its part where others lack theirs. */
  keeps: number
  /** When it was last asked for. */
  askedAtMs: number
  asking: boolean
  askAgain: boolean
  /** It had no use at the last look. */
  idle: boolean
  /** How long to wait before the next question, while it is wanted. */
  againMs: number
  /** The last answer was less than asked for: others hold the rest, only the timer asks again. */
  short: boolean
  /** Calls in flight, as last told. */
  toldInFlight: number
  /** Others lack their part: it takes up less than it was granted until they have it. */
  yielding: boolean
}

/**
 * A process's shares: asked for by demand, renewed while needed, given up when idle or not renewed in time. While it
 * asks, no more may be in flight than it told: what the answer takes away may be another's before the answer is here.
 *
 * What is in flight is never taken away. So who holds the whole limit and sends the next call as one ends would keep it
 * for ever, and what another has taken up would wait for its end: it gives way by itself, as its calls end, to those
 * that lack their equal part.
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

  /** While paused nothing more is dispatched; what is in flight may end. */
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

  /** Makes a resource known; an existing one takes the new limit, a lower one at once: its shares were of the old. */
  track(resource: LeasedResource): void {
    const held = this.#held.get(resource.name)
    if (held) {
      const isLess = resource.limit < held.resource.limit
      held.resource = resource
      if (isLess && held.slots > 0) {
        // While it asks it may use no more than it told, and asks once more when it has its answer.
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

  /** More could be used: asks soon, together with whoever asks at the same moment. */
  want(name: string, atLeast = 0): void {
    const held = this.#held.get(name)
    if (!held || this.#closed || (held.short && held.slots > 0)) return
    // Told now: the question waits for others, and then less may be wanted.
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

  /** Its slots; while paused no more than are in use. */
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
      // Asked for before it was known that others lack it: given back now, not with the next renewal.
      givesBack = held.keeps < kept && slots > wanted(held, resource.demand(), performance.now())
      const mostMs = slots < Math.min(demand, part) ? LACKING_MS : RENEW_MS
      // Who got what it asked for asks for more when it needs that: demand goes up and down all the time.
      const isNew = held.short && (newlyShort || slots > before)
      held.againMs = isNew ? AGAIN_MS : Math.min(mostMs, 2 * held.againMs)
      if (this.#held.get(resource.name) === held) this.#grant(held, granted, sentAt)
    } catch (error) {
      this.#log.debug({ err: (error as Error).message, lease: resource.name }, 'lease not renewed')
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

/** What to ask for: what could be used lately, but of what others lack no more than an equal part. */
function wanted(held: Held, demand: number, nowMs: number): number {
  const lately = held.lately.note(demand, nowMs)
  return Math.max(demand, Math.min(lately, held.keeps, held.resource.limit))
}

/**
 * How much of what one was granted others should have: what they lack of equal parts, as far as they can use it and none is
 * free, but no more than one has beyond one's own part. Parts are rounded down: a remainder that wandered from one to the
 * other would be idle on the way, and a limit below the number of holders stays with who has it.
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

/** An equal part of a limit, rounded down, for each that has of it or wants of it. */
function partOf(limit: number, others: readonly OtherHolder[]): number {
  const claiming = others.filter(({ slots, demand }) => slots > 0 || demand > 0)
  return Math.floor(limit / (claiming.length + 1))
}
