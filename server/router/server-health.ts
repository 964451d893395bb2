import type { HealthState } from './router-types.ts'

/** Faults in a row that put a server out. */
const FAULTS_TO_EJECT = 5
/** How long a server is out the first time; n times as long the n-th time, at most 12 times, ±20 %. */
export const EJECTION_STEP_MS = 5_000
const MAX_EJECTION_STEPS = 12
const EJECTION_JITTER = 0.2
/** A server that stayed in for so long begins at the first step again. */
const FORGET_AFTER_MS = 60_000
/** Scores in a row that bring it back from `half_open`: one may be luck. */
const PROBES_TO_PASS = 2
/** From a tenth of its slots to all of them: what comes back is cold, and 64 calls at once may put it down again. */
const SLOW_START_MS = 20_000
const SLOW_START_FROM = 0.1

/** Hears of every change. */
export type OnHealthChange = (
  from: HealthState,
  to: HealthState,
  cause: string,
  evidence?: Record<string, number | string | null>,
) => void

/**
 * Passive health of one server, from what its calls end in:
 *
 *     ok ──5 faults in a row · too many faults · not scores──▶ out (5 s × n, at most 60 s, ±20 %)
 *     │ ▲                                                      │ time is up
 *     │ └──20 s── slow_start ◀──2 scores in a row── half_open ◀┘
 *     │ ▲                                              └──fault──▶ out
 *     │ └──any answer──┐
 *     └──silent──▶ suspect ──all it had was given up──▶ out
 *
 * In `half_open` one call at a time is let through, in `slow_start` a growing share of its slots. Calls begun before a
 * server was put out decide nothing when they end after it. Busy answers and refused requests are neither success nor
 * fault: an over-long prompt must neither open nor close this.
 */
export class ServerHealth {
  #state: HealthState = 'ok'
  #faults = 0
  #ejections = 0
  #ejectedUntilMs = 0
  #probing = false
  #passed = 0
  #slowSinceMs = 0
  #soft = false
  #everEjected = 0
  /** Calls carry the number of the period they began in; a change of state begins a new one. */
  #period = 0
  readonly #onChange: OnHealthChange
  readonly #ejectionStepMs: number
  readonly #random: () => number

  constructor(onChange: OnHealthChange, ejectionStepMs = EJECTION_STEP_MS, random = Math.random) {
    this.#onChange = onChange
    this.#ejectionStepMs = ejectionStepMs
    this.#random = random
  }

  /** The state at `nowMs` (clock of `performance.now()`); what has run its time turns here. */
  state(nowMs: number): HealthState {
    if (this.#state === 'ejected' && nowMs >= this.#ejectedUntilMs) {
      this.#probing = false
      this.#passed = 0
      this.#turn('half_open', 'the ejection time has passed; one request at a time')
    } else if (this.#state === 'slow_start' && nowMs >= this.#slowSinceMs + SLOW_START_MS) {
      this.#turn('ok', 'healthy for 20 s')
    }
    return this.#state
  }

  /** Faults in a row; a call that got no answer within most of its sample's time counts half. */
  get consecutiveFaults(): number {
    return this.#faults
  }

  /** Times it was put out. */
  get ejections(): number {
    return this.#everEjected
  }

  /** When the ejection ends, on the clock of `performance.now()`. */
  get ejectedUntilMs(): number {
    return this.#ejectedUntilMs
  }

  /** It is out for being slow, not for failing: while most of the pool is out it is better than nothing. */
  get isSoftEjected(): boolean {
    return this.#state === 'ejected' && this.#soft
  }

  /** Share of its slots it may use: 1 but for a slow start. */
  share(nowMs: number): number {
    if (this.#state !== 'slow_start') return 1
    return Math.min(
      1,
      SLOW_START_FROM + ((1 - SLOW_START_FROM) * (nowMs - this.#slowSinceMs)) / SLOW_START_MS,
    )
  }

  /** True when a call may begin now. */
  admits(nowMs: number): boolean {
    if (this.#state === 'ok') return true
    const state = this.state(nowMs)
    return state === 'ok' || state === 'slow_start' || (state === 'half_open' && !this.#probing)
  }

  /** Notes that a call begins; the number it gives goes back in with the call's end. */
  begin(): number {
    if (this.#state === 'half_open') this.#probing = true
    return this.#period
  }

  /** A call gave a score. */
  succeeded(period: number, nowMs: number): void {
    if (this.#state === 'suspect') {
      this.#faults = 0
      this.#turn('ok', 'the server responds again')
      return
    }
    if (period !== this.#period) return
    this.#faults = 0
    if (this.#state === 'half_open') {
      this.#probing = false
      if (++this.#passed < PROBES_TO_PASS) return
      this.#slowSinceMs = nowMs
      this.#turn('slow_start', `${PROBES_TO_PASS} consecutive requests succeeded`)
    }
  }

  /** A call failed by the server's fault; `weight` 1, or ½ for a call that merely took too long. */
  faulted(period: number, weight: number, nowMs: number, cause: string): void {
    if (period !== this.#period) return
    this.#faults += weight
    if (this.#state === 'half_open') this.#eject(nowMs, cause, false)
    else if (this.#state !== 'ejected' && this.#faults >= FAULTS_TO_EJECT) {
      this.#eject(nowMs, cause, false, { faultsInARow: this.#faults })
    }
  }

  /** A call ended in a way that says nothing of the server. */
  neutral(period: number): void {
    if (period === this.#period) this.#probing = false
  }

  /** It has calls and answers none while others answer. */
  wentSilent(nowMs: number, cause: string, evidence: Record<string, number>): void {
    if (this.#state === 'ok' || this.#state === 'slow_start') {
      this.#turn('suspect', cause, evidence)
    } else if (this.#state === 'half_open') this.#eject(nowMs, cause, false, evidence)
  }

  /** Puts it out for what its calls show together. `soft`: it works, only badly. */
  eject(
    nowMs: number,
    cause: string,
    soft: boolean,
    evidence: Record<string, number | string>,
  ): void {
    if (this.#state !== 'ejected') this.#eject(nowMs, cause, soft, evidence)
  }

  /** Begins anew: the registry found the server ready again, or it has another address. */
  reset(nowMs: number): void {
    this.#faults = 0
    this.#ejections = 0
    this.#probing = false
    if (this.#state === 'ok' || this.#state === 'slow_start') return
    this.#slowSinceMs = nowMs
    this.#turn('slow_start', 'found ready again')
  }

  #eject(
    nowMs: number,
    cause: string,
    soft: boolean,
    evidence?: Record<string, number | string | null>,
  ): void {
    if (nowMs - this.#ejectedUntilMs > FORGET_AFTER_MS) this.#ejections = 0
    this.#ejections++
    this.#everEjected++
    const jitter = 1 - EJECTION_JITTER + 2 * EJECTION_JITTER * this.#random()
    this.#ejectedUntilMs =
      nowMs + this.#ejectionStepMs * Math.min(MAX_EJECTION_STEPS, this.#ejections) * jitter
    this.#probing = false
    this.#soft = soft
    this.#turn('ejected', cause, evidence)
  }

  #turn(to: HealthState, cause: string, evidence?: Record<string, number | string | null>): void {
    const from = this.#state
    this.#state = to
    if (to !== 'suspect' && from !== 'suspect') this.#period++
    this.#onChange(from, to, cause, evidence)
  }
}
