import type { HealthState } from './router-types.ts'

/** Faults in a row that put a server out. */
const FAULTS_TO_EJECT = 5
/** How long a server is out the first time; n times as long the n-th time, at most 12 times. */
export const OUT_STEP_MS = 5_000
const OUT_STEPS_MAX = 12
/** A server that stayed in for so long begins at the first step again. */
const FORGET_AFTER_MS = 60_000

/**
 * Passive health of one server, from what its calls end in:
 *
 *     ok ──5 faults in a row──▶ out (5 s × n, at most 60 s)
 *     ▲                          │ time is up
 *     └──success── half_open ◀───┘
 *                      └──fault──▶ out
 *
 * In `half_open` one call at a time is let through. Calls begun before a server was put out decide nothing when they
 * end after it. Busy answers and refused requests are neither success nor fault: an over-long prompt must neither open
 * nor close this.
 */
export class ServerHealth {
  #state: HealthState = 'ok'
  #faults = 0
  #ejections = 0
  #outUntilMs = 0
  #probing = false
  /** Calls carry the number of the period they began in; a change of state begins a new one. */
  #period = 0
  readonly #onChange: (from: HealthState, to: HealthState, cause: string) => void
  readonly #outStepMs: number

  constructor(
    onChange: (from: HealthState, to: HealthState, cause: string) => void,
    outStepMs = OUT_STEP_MS,
  ) {
    this.#onChange = onChange
    this.#outStepMs = outStepMs
  }

  /** The state at `nowMs` (clock of `performance.now()`); an `out` whose time is up becomes `half_open` here. */
  state(nowMs: number): HealthState {
    if (this.#state === 'out' && nowMs >= this.#outUntilMs) {
      this.#probing = false
      this.#turn('half_open', 'the time out is over; one call at a time')
    }
    return this.#state
  }

  /** Faults in a row; a call that got no answer within most of its sample's time counts half. */
  get consecutiveFaults(): number {
    return this.#faults
  }

  /** When `out` ends, on the clock of `performance.now()`. */
  get outUntilMs(): number {
    return this.#outUntilMs
  }

  /** True when a call may begin now. */
  admits(nowMs: number): boolean {
    const state = this.#state === 'ok' ? 'ok' : this.state(nowMs)
    return state === 'ok' || (state === 'half_open' && !this.#probing)
  }

  /** Notes that a call begins; the number it gives goes back in with the call's end. */
  begin(): number {
    if (this.#state === 'half_open') this.#probing = true
    return this.#period
  }

  /** A call gave a score. */
  succeeded(period: number): void {
    if (period !== this.#period) return
    this.#faults = 0
    if (this.#state === 'half_open') {
      this.#probing = false
      this.#turn('ok', 'a call succeeded')
    }
  }

  /** A call failed by the server's fault; `weight` 1, or ½ for a call that merely took too long. */
  faulted(period: number, weight: number, nowMs: number, cause: string): void {
    if (period !== this.#period) return
    this.#faults += weight
    if (this.#state === 'half_open') this.#eject(nowMs, cause)
    else if (this.#state === 'ok' && this.#faults >= FAULTS_TO_EJECT) this.#eject(nowMs, cause)
  }

  /** A call ended in a way that says nothing of the server. */
  neutral(period: number): void {
    if (period === this.#period) this.#probing = false
  }

  /** Begins anew: the registry found the server ready again, or it has another address. */
  reset(): void {
    this.#faults = 0
    this.#ejections = 0
    this.#probing = false
    if (this.#state !== 'ok') this.#turn('ok', 'found ready again')
  }

  #eject(nowMs: number, cause: string): void {
    if (nowMs - this.#outUntilMs > FORGET_AFTER_MS) this.#ejections = 0
    this.#ejections++
    this.#outUntilMs = nowMs + this.#outStepMs * Math.min(OUT_STEPS_MAX, this.#ejections)
    this.#probing = false
    this.#turn('out', cause)
  }

  #turn(to: HealthState, cause: string): void {
    const from = this.#state
    this.#state = to
    this.#period++
    this.#onChange(from, to, cause)
  }
}
