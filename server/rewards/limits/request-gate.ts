import type { LimitClock } from './clock.ts'
import { bucketOf, type RequestLimits } from './limit-settings.ts'
import { type Rate, TokenBucket } from './token-bucket.ts'

export interface GateWaits {
  slotMs: number
  rpmMs: number
  tpmMs: number
}

/** Permission for one call. It must be released exactly once, however the call ended. */
export interface GatePermit {
  readonly waits: GateWaits
  /** Aborts when the slot passes to another process. The call is then cancelled. */
  readonly recalled: AbortSignal
  /** Releases the permit. The actual usage, if known, corrects the estimate. */
  release(tokens?: number, requests?: number): void
}

export interface GateStats {
  inFlight: number
  waiting: number
  /**
   * Requests that the limit still allows, negative if it is overdrawn. Null if there is no limit, or if the limit is
   * kept outside this gate.
   */
  requests: number | null
  tokens: number | null
}

/** External sources of a gate's limits; a limit without a source is kept in the gate. */
export interface GateSources {
  requests?: Rate
  tokens?: Rate
  /** Whether slots come only from {@link RequestGate.setSlots}. There are no slots before its first call. */
  leased?: boolean
}

interface Waiter {
  requests: number
  tokens: number
  signal: AbortSignal | undefined
  atStart: GateWaits
  gone: boolean
  resolve(permit: GatePermit): void
  reject(error: unknown): void
  forget(): void
}

type Cause = keyof GateWaits

/**
 * Admits calls within three limits, in order of arrival. Each call first waits for a free slot, then for its requests
 * and tokens per minute. In the other order, capacity reserved during a stall would be used in one burst.
 *
 *   waiting ──slot free──▶ reserved ──its time has come──▶ in flight ──released──▶ tokens corrected
 *      └────────aborted──────────┴─▶ gone, its reservation is refunded
 *
 * Only the first call in the queue holds a reservation, so a correction by actual usage applies to all later calls.
 */
export class RequestGate {
  readonly #limits: RequestLimits
  readonly #clock: LimitClock
  readonly #requests: Rate | null
  readonly #tokens: Rate | null
  readonly #queue: Waiter[] = []
  #slots: number
  readonly #inFlight = new Set<AbortController>()
  /** Whether the first call in the queue has a slot and waits for permits of the rate limits. */
  #reserved = false
  #pumping = false
  /** Whether a slot became free or a call arrived while the queue was being served. */
  #again = false
  #wake: (() => void) | null = null
  /** The cause for which the first call waits, and the total time by cause. */
  #cause: Cause | null = null
  #causeSinceMs = 0
  readonly #blocked: GateWaits = { slotMs: 0, rpmMs: 0, tpmMs: 0 }

  /** @param sources limits kept outside this process, e.g. in database rows shared by several processes */
  constructor(limits: RequestLimits, clock: LimitClock, sources: GateSources = {}) {
    this.#limits = limits
    this.#clock = clock
    this.#requests = sources.requests ?? bucket(limits.maxRpm, 1, limits)
    this.#tokens = sources.tokens ?? bucket(limits.maxTpm, limits.estimatedTokens, limits)
    this.#slots = sources.leased ? 0 : limits.maxConcurrent
  }

  setSlots(slots: number): void {
    this.#slots = slots
    this.#kick()
  }

  /** Recalls the slots of the calls in flight. They count as used until the permits are released. */
  recall(): void {
    for (const call of this.#inFlight) call.abort()
  }

  /** Number of slots in use, including the slot of a call that the rate limits delay. */
  get slotsTaken(): number {
    return this.#inFlight.size + (this.#reserved ? 1 : 0)
  }

  get demand(): number {
    return this.#inFlight.size + this.#queue.length
  }

  get limits(): RequestLimits {
    return this.#limits
  }

  /**
   * Waits for a call's turn. If the signal aborts first, rejects with the signal's reason and uses no capacity.
   * @param tokens estimated tokens; default: the limits' estimate for each of its requests
   * @param requests number of requests to the service; default 1
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
      // Only the pump removes the first call, because that call may hold a reservation.
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
      inFlight: this.#inFlight.size,
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
        if (!head.gone && this.#inFlight.size >= this.#slots) {
          this.#blockedBy('slotMs')
          break
        }
        await this.#serve(head)
      }
      if (this.#queue.length === 0) this.#blockedBy(null)
    }
    this.#pumping = false
  }

  /**
   * Waits until the rate limits permit the first call of the queue, and starts it. If no slot is free by then, the call
   * stays in the queue.
   */
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
      else if (this.#inFlight.size >= this.#slots) {
        this.#refund(head.requests, head.tokens)
        return
      }
    }
    this.#queue.shift()
    head.forget()
    if (!head.gone) this.#admit(head)
  }

  async #reserve(head: Waiter): Promise<void> {
    const requestedAtMs = this.#clock.nowMs()
    const [rpmMs, tpmMs] = await Promise.all([
      this.#requests?.reserve(head.requests, requestedAtMs) ?? 0,
      this.#tokens?.reserve(head.tokens, requestedAtMs) ?? 0,
    ])
    const waitMs = Math.max(rpmMs, tpmMs)
    if (waitMs <= 0) return
    this.#blockedBy(rpmMs >= tpmMs ? 'rpmMs' : 'tpmMs')
    // The wait starts when `reserve` has returned. If it started with the call of `reserve`, it would end too early.
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
    const call = new AbortController()
    this.#inFlight.add(call)
    this.#settle()
    const { slotMs, rpmMs, tpmMs } = this.#blocked
    let released = false
    waiter.resolve({
      waits: {
        slotMs: slotMs - waiter.atStart.slotMs,
        rpmMs: rpmMs - waiter.atStart.rpmMs,
        tpmMs: tpmMs - waiter.atStart.tpmMs,
      },
      recalled: call.signal,
      release: (tokens, requests) => {
        if (released) return
        released = true
        this.#inFlight.delete(call)
        const unused = (taken: number, used: number | undefined) =>
          used !== undefined && Number.isFinite(used) ? taken - used : 0
        this.#refund(unused(waiter.requests, requests), unused(waiter.tokens, tokens))
        this.#kick()
      },
    })
  }

  #refund(requests: number, tokens: number): void {
    const nowMs = this.#clock.nowMs()
    // If the shared database row cannot be reached, the refund is lost: the limit is stricter until the bucket is full
    // again.
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
