import type { HealthState } from './router-types.ts'

const FAULTS_TO_EJECT = 5
/** Duration of the first ejection. The n-th ejection lasts n times as long, at most 12 times, ±20 %. */
export const EJECTION_STEP_MS = 5_000
const MAX_EJECTION_STEPS = 12
const EJECTION_JITTER = 0.2
/** If the last ejection ended longer ago than this, the next one has the first duration again. */
const FORGET_AFTER_MS = 60_000
/** Number of consecutive scores that end `half_open`. A single score may be luck. */
const PROBES_TO_PASS = 2
/**
 * During a slow start, the usable slots grow from a tenth to all of them. A server that returns is cold, and 64
 * concurrent calls might bring it down again.
 */
const SLOW_START_MS = 20_000
const SLOW_START_FROM = 0.1

export type OnHealthChange = (
  from: HealthState,
  to: HealthState,
  cause: string,
  evidence?: Record<string, number | string | null>,
) => void

/**
 * Passive health of one server, derived from the outcomes of its calls:
 *
 *     ok ──5 consecutive faults · many faults · invalid──▶ ejected (5 s × n, max. 60 s, ±20 %)
 *     │ ▲                                                      │ time over
 *     │ └──20 s── slow_start ◀──2 scores in a row── half_open ◀┘
 *     │ ▲                                              └──fault──▶ ejected
 *     │ └───a score────┐
 *     └──silent──▶ suspect ──none of its calls in flight──▶ ejected
 *
 * `half_open` admits one call at a time, `slow_start` a growing share of the slots. Calls begun before an ejection have
 * no effect when they end after it. Busy answers and refused requests are neither success nor fault, so an over-long
 * prompt does not change the state.
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
  /**
   * Number of the current period. A change of state begins a new period, unless it is from or to `suspect`. Each call
   * keeps the number of the period in which it began, so that results of an earlier period are ignored.
   */
  #period = 0
  readonly #onChange: OnHealthChange
  readonly #ejectionStepMs: number
  readonly #random: () => number

  constructor(onChange: OnHealthChange, ejectionStepMs = EJECTION_STEP_MS, random = Math.random) {
    this.#onChange = onChange
    this.#ejectionStepMs = ejectionStepMs
    this.#random = random
  }

  /** The state at `nowMs` (clock of `performance.now()`). States that have timed out change here. */
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

  /** Consecutive faults. A call that timed out counts half. */
  get consecutiveFaults(): number {
    return this.#faults
  }

  get ejections(): number {
    return this.#everEjected
  }

  /** End of the ejection, on the clock of `performance.now()`. */
  get ejectedUntilMs(): number {
    return this.#ejectedUntilMs
  }

  /**
   * Whether the server is ejected because it is slow, not because it fails. A slow server is still used while most of
   * the pool is not healthy.
   */
  get isSoftEjected(): boolean {
    return this.#state === 'ejected' && this.#soft
  }

  share(nowMs: number): number {
    if (this.#state !== 'slow_start') return 1
    return Math.min(
      1,
      SLOW_START_FROM + ((1 - SLOW_START_FROM) * (nowMs - this.#slowSinceMs)) / SLOW_START_MS,
    )
  }

  admits(nowMs: number): boolean {
    if (this.#state === 'ok') return true
    const state = this.state(nowMs)
    return state === 'ok' || state === 'slow_start' || (state === 'half_open' && !this.#probing)
  }

  /** Records the start of a call. Returns the current period, which the caller passes back when the call ends. */
  begin(): number {
    if (this.#state === 'half_open') this.#probing = true
    return this.#period
  }

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

  /** Records a faulted call. `weight` is ½ if the call timed out or was abandoned. */
  faulted(period: number, weight: number, nowMs: number, cause: string): void {
    if (period !== this.#period) return
    this.#faults += weight
    if (this.#state === 'half_open') this.#eject(nowMs, cause, false)
    else if (this.#state !== 'ejected' && this.#faults >= FAULTS_TO_EJECT) {
      this.#eject(nowMs, cause, false, { faultsInARow: this.#faults })
    }
  }

  /** Records the end of a call that implies nothing about the server. */
  neutral(period: number): void {
    if (period === this.#period) this.#probing = false
  }

  /** Marks the server as silent: it answers none of its calls while other servers answer theirs. */
  wentSilent(nowMs: number, cause: string, evidence: Record<string, number>): void {
    if (this.#state === 'ok' || this.#state === 'slow_start') {
      this.#turn('suspect', cause, evidence)
    } else if (this.#state === 'half_open') this.#eject(nowMs, cause, false, evidence)
  }

  /** Ejects the server, unless it is already ejected. `soft` means that the server works, but slowly. */
  eject(
    nowMs: number,
    cause: string,
    soft: boolean,
    evidence: Record<string, number | string>,
  ): void {
    if (this.#state !== 'ejected') this.#eject(nowMs, cause, soft, evidence)
  }

  /** Resets the health, because the server is registered as ready again or has another URL. */
  reset(nowMs: number): void {
    this.#faults = 0
    this.#ejections = 0
    this.#probing = false
    if (this.#state === 'ok' || this.#state === 'slow_start') return
    this.#slowSinceMs = nowMs
    this.#turn('slow_start', 'the server is ready again')
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
