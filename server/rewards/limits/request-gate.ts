import type { LimitClock } from './clock.ts'
import { bucketOf, type RequestLimits } from './limit-settings.ts'
import { type Rate, TokenBucket } from './token-bucket.ts'

/** What a call waited for before it went, in ms. */
export interface GateWaits {
  slotMs: number
  rpmMs: number
  tpmMs: number
}

/** The right to make one call. To be released once, whatever became of it. */
export interface GatePermit {
  readonly waits: GateWaits
  /** What it really used, where that is known: corrects what was taken for it. */
  release(tokens?: number, requests?: number): void
}

/** A gate at this moment. */
export interface GateStats {
  inFlight: number
  waiting: number
  /** Left of the limits; below 0: a debt. null: not limited, or kept elsewhere. */
  requests: number | null
  tokens: number | null
}

/** Where a gate's limits are kept; what is left out, in the gate itself. */
export interface GateSources {
  requests?: Rate
  tokens?: Rate
  /** Calls at once come by {@link RequestGate.setSlots}; none before. */
  leased?: boolean
}

interface Waiter {
  requests: number
  tokens: number
  signal: AbortSignal | undefined
  atStart: GateWaits
  /** Gave the way out of the queue. */
  gone: boolean
  resolve(permit: GatePermit): void
  reject(error: unknown): void
  forget(): void
}

type Cause = keyof GateWaits

/**
 * Lets calls go within three limits, in the order they came: first a free slot, then the requests and tokens of a
 * minute, then the call. In that order nothing paid for lies waiting and goes out in a burst when a stall ends.
 *
 *   waiting ──slot free──▶ reserved ──its time has come──▶ in flight ──released──▶ tokens corrected
 *      └────────aborted──────────┴─▶ gone, what was reserved is given back
 *
 * Only the first in the queue holds a reservation, so what real usage corrects counts for everybody behind it.
 */
export class RequestGate {
  readonly #limits: RequestLimits
  readonly #clock: LimitClock
  readonly #requests: Rate | null
  readonly #tokens: Rate | null
  readonly #queue: Waiter[] = []
  /** Calls that may be in flight now. */
  #slots: number
  #inFlight = 0
  /** The first in the queue has a slot, and waits for its minute. */
  #reserved = false
  #pumping = false
  /** A slot came free, or somebody came, while the queue was being served. */
  #again = false
  #wake: (() => void) | null = null
  /** What the first in the queue waits for, and how long everybody who was first did so far. */
  #cause: Cause | null = null
  #causeSinceMs = 0
  readonly #blocked: GateWaits = { slotMs: 0, rpmMs: 0, tpmMs: 0 }

  /** `sources`: instead of buckets of this process's own, e.g. rows shared with other processes. */
  constructor(limits: RequestLimits, clock: LimitClock, sources: GateSources = {}) {
    this.#limits = limits
    this.#clock = clock
    this.#requests = sources.requests ?? bucket(limits.maxRpm, 1, limits)
    this.#tokens = sources.tokens ?? bucket(limits.maxTpm, limits.estimatedTokens, limits)
    this.#slots = sources.leased ? 0 : limits.maxConcurrent
  }

  /** How many calls may be in flight from now on; those that are go on. */
  setSlots(slots: number): void {
    this.#slots = slots
    this.#kick()
  }

  /** Slots that are taken: by calls in flight, and by the one that waits for its minute. */
  get slotsTaken(): number {
    return this.#inFlight + (this.#reserved ? 1 : 0)
  }

  /** Slots that could be used now. */
  get demand(): number {
    return this.#inFlight + this.#queue.length
  }

  get limits(): RequestLimits {
    return this.#limits
  }

  /**
   * Waits for a call's turn.
   * @param tokens what it is thought to use; default: the limits' estimate for each of its requests
   * @param requests how many it is to the other side; default 1
   * Rejects with the signal's reason when that aborts first; nothing was taken then.
   */
  acquire(
    options: { tokens?: number; requests?: number; signal?: AbortSignal } = {},
  ): Promise<GatePermit> {
    const { requests = 1, signal } = options
    const { tokens = this.#limits.estimatedTokens * requests } = options
    const { promise, resolve, reject } = Promise.withResolvers<GatePermit>()
    if (signal?.aborted) {
      reject(signal.reason)
      return promise
    }
    this.#settle()
    const waiter: Waiter = {
      requests,
      tokens,
      signal,
      atStart: { ...this.#blocked },
      gone: false,
      resolve,
      reject,
      forget: () => signal?.removeEventListener('abort', leave),
    }
    const leave = () => {
      waiter.gone = true
      const at = this.#queue.indexOf(waiter)
      // The first one is the pump's to take out: it may hold a reservation.
      if (at > 0) this.#queue.splice(at, 1)
      reject(signal?.reason)
      if (at === 0) this.#kick()
    }
    signal?.addEventListener('abort', leave, { once: true })
    this.#queue.push(waiter)
    this.#kick()
    return promise
  }

  stats(): GateStats {
    const nowMs = this.#clock.nowMs()
    const left = (rate: Rate | null) => (rate instanceof TokenBucket ? rate.tokensAt(nowMs) : null)
    return {
      inFlight: this.#inFlight,
      waiting: this.#queue.length,
      requests: left(this.#requests),
      tokens: left(this.#tokens),
    }
  }

  #kick(): void {
    this.#again = true
    this.#wake?.()
    if (!this.#pumping) void this.#pump()
  }

  async #pump(): Promise<void> {
    this.#pumping = true
    while (this.#again) {
      this.#again = false
      for (let head = this.#queue[0]; head !== undefined; head = this.#queue[0]) {
        if (!head.gone && this.#inFlight >= this.#slots) {
          this.#blockedBy('slotMs')
          break
        }
        await this.#serve(head)
      }
      if (this.#queue.length === 0) this.#blockedBy(null)
    }
    this.#pumping = false
  }

  /** Takes the first in the queue through its reservation; leaves it there when its slot was lost meanwhile. */
  async #serve(head: Waiter): Promise<void> {
    this.#blockedBy(null)
    if (!head.gone) {
      this.#reserved = true
      try {
        await this.#reserve(head)
      } catch (error) {
        this.#queue.shift()
        head.forget()
        head.reject(error)
        return
      } finally {
        this.#reserved = false
      }
      if (head.gone) this.#refund(head.requests, head.tokens)
      else if (this.#inFlight >= this.#slots) {
        this.#refund(head.requests, head.tokens)
        return
      }
    }
    this.#queue.shift()
    head.forget()
    if (!head.gone) this.#admit(head)
  }

  /** Takes what it will use, and waits until that is covered. */
  async #reserve(head: Waiter): Promise<void> {
    const askedMs = this.#clock.nowMs()
    const [rpmMs, tpmMs] = await Promise.all([
      this.#requests?.reserve(head.requests, askedMs) ?? 0,
      this.#tokens?.reserve(head.tokens, askedMs) ?? 0,
    ])
    const waitMs = Math.max(rpmMs, tpmMs)
    if (waitMs <= 0) return
    this.#blockedBy(rpmMs >= tpmMs ? 'rpmMs' : 'tpmMs')
    // From when the answer is here: from when it was asked for, it would go before its time.
    await this.#until(this.#clock.nowMs() + waitMs, head)
  }

  async #until(atMs: number, head: Waiter): Promise<void> {
    for (;;) {
      const leftMs = atMs - this.#clock.nowMs()
      if (leftMs <= 0 || head.gone) return
      await new Promise<void>((resolve) => {
        const callOff = this.#clock.after(leftMs, resolve)
        this.#wake = () => {
          if (!head.gone) return
          callOff()
          resolve()
        }
      })
      this.#wake = null
    }
  }

  #admit(waiter: Waiter): void {
    this.#inFlight++
    this.#settle()
    const { slotMs, rpmMs, tpmMs } = this.#blocked
    let released = false
    waiter.resolve({
      waits: {
        slotMs: slotMs - waiter.atStart.slotMs,
        rpmMs: rpmMs - waiter.atStart.rpmMs,
        tpmMs: tpmMs - waiter.atStart.tpmMs,
      },
      release: (tokens, requests) => {
        if (released) return
        released = true
        this.#inFlight--
        const unused = (taken: number, used: number | undefined) =>
          used !== undefined && Number.isFinite(used) ? taken - used : 0
        this.#refund(unused(waiter.requests, requests), unused(waiter.tokens, tokens))
        this.#kick()
      },
    })
  }

  #refund(requests: number, tokens: number): void {
    const nowMs = this.#clock.nowMs()
    // A shared row that cannot be reached keeps what it has: too careful until the bucket is full again.
    const ignore = () => {}
    if (requests !== 0) Promise.resolve(this.#requests?.refund(requests, nowMs)).catch(ignore)
    if (tokens !== 0) Promise.resolve(this.#tokens?.refund(tokens, nowMs)).catch(ignore)
  }

  #blockedBy(cause: Cause | null): void {
    this.#settle()
    this.#cause = cause
  }

  #settle(): void {
    const nowMs = this.#clock.nowMs()
    if (this.#cause !== null) this.#blocked[this.#cause] += nowMs - this.#causeSinceMs
    this.#causeSinceMs = nowMs
  }
}

function bucket(perMinute: number | null, ofOne: number, limits: RequestLimits): Rate | null {
  if (perMinute === null) return null
  const { ratePerSecond, capacity } = bucketOf(perMinute, ofOne, limits)
  return new TokenBucket(ratePerSecond, capacity)
}
