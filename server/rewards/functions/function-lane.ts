import type { FunctionCall } from './function-call.ts'
import { FunctionHost, type HostListener } from './function-host.ts'
import type { DispatchedCall, Incident } from './incident.ts'
import type { CallEnd, FunctionTarget, RouterAnswer, RouterQuestion } from './protocol.ts'
import type { HostSettings } from './start-host.ts'
import { Suspects } from './suspects.ts'

/** Maximum number of concurrent calls in one process, for a function that returns promises. */
const MAX_ASYNC_CALLS = 4_096
/**
 * Maximum computing time of the calls queued in one process, ms. Further calls are not queued there, because they may
 * start sooner in another process or worker.
 */
const AHEAD_MS = 150
const MAX_SYNC_CALLS = 64
/** Busy fraction of an event loop above which it counts as computing rather than waiting. */
const COMPUTING = 0.85
/** The calls that wait inside a process are taken back once the process has been blocked for this long. */
const TAKE_BACK_MS = 1_000
/** Idle time after which all processes but one end, and idle time after which the last process ends. */
const IDLE_MS = 10_000
const LAST_IDLE_MS = 60_000
/** Maximum number of processes that run only suspects: calls that may have ended a process. */
const MAX_ALONE = 2
/**
 * If all shared processes are retiring, another one is started only while fewer than this many are retiring. Retiring
 * processes take no new calls.
 */
const MAX_RETIRING = 4
/** Retry interval and maximum number of retries after a process could not be started. */
const NOT_STARTED_MS = 1_000
const MAX_NOT_STARTED = 20
/** A module that failed to load is loaded again after this long, because a missing dependency may exist by then. */
const FAILED_FOR_MS = 5_000
/** A waiting call fails once this many processes have exited without starting a call. */
const MAX_UNSTARTED = 5

export interface LaneSurroundings {
  settings: HostSettings
  mayStart(): boolean
  onCapacity(): void
  rewardRouterAddress: string | null
  answer(question: RouterQuestion, call: FunctionCall): Promise<RouterAnswer>
  log(level: 'debug' | 'info' | 'warn' | 'error', fields: object, message: string): void
}

export interface LaneOptions {
  name: string
  /** Null for built-in rules. */
  target: FunctionTarget | null
  /** Number of processes that take one call at a time, or null for shared processes, whose number adapts. */
  processes: number | null
}

/**
 * The calls of one version of a function and the processes that run them. If the function returns promises, a process
 * gets thousands of concurrent calls. If it is CPU-bound, a process gets 150 ms of work, and more processes are
 * started. When a process is ended, its calls run again elsewhere, except the culprit. If the culprit is uncertain, the
 * suspects run alone.
 */
export class FunctionLane {
  readonly #options: LaneOptions
  readonly #around: LaneSurroundings
  readonly #waiting: FunctionCall[] = []
  readonly #hosts = new Set<FunctionHost>()
  readonly #suspects = new Suspects()
  readonly #alone = new Set<FunctionHost>()
  /** Whether the function returns values, not promises; null until a call has returned. */
  #sync: boolean | null = null
  /** Computing time of a call until it returns, smoothed, ms. */
  #busyMs = 0
  #failed: { message: string; untilMs: number } | null = null
  #notStarted = 0
  #startAgainAtMs = 0
  #usedAtMs = performance.now()
  #ended = false

  constructor(options: LaneOptions, around: LaneSurroundings) {
    this.#options = options
    this.#around = around
  }

  /** Number of shared processes. */
  get processes(): number {
    return this.#hosts.size
  }

  get pids(): number[] {
    return [...this.#hosts, ...this.#alone].flatMap(({ pid }) => (pid === undefined ? [] : [pid]))
  }

  get inUse(): number {
    let n = this.#waiting.length + this.#suspects.size
    for (const host of [...this.#hosts, ...this.#alone]) n += host.calls.size
    return n
  }

  /** Maximum number of calls in the lane now, so that its queue stays short. */
  get capacity(): number {
    if (this.#options.processes !== null) return 2 * this.#options.processes
    return Math.max(1, this.#hosts.size) * this.#window(this.#busiest())
  }

  get isOver(): boolean {
    return (
      this.inUse === 0 &&
      this.#hosts.size === 0 &&
      this.#alone.size === 0 &&
      performance.now() - this.#usedAtMs > FAILED_FOR_MS
    )
  }

  add(call: FunctionCall): void {
    this.#usedAtMs = performance.now()
    const wasIdle = this.inUse === 0
    this.#waiting.push(call)
    if (wasIdle) this.#around.onCapacity()
    this.dispatch()
  }

  cancel(call: FunctionCall): void {
    const at = this.#waiting.indexOf(call)
    if (at >= 0) this.#waiting.splice(at, 1)
    for (const host of [...this.#hosts, ...this.#alone])
      host.abandon(call, 'no caller waits for it')
  }

  /** Called every tenth of a second. */
  tick(): void {
    for (const host of [...this.#hosts, ...this.#alone]) {
      host.check()
      if (host.heldUpMs > TAKE_BACK_MS && this.#hosts.has(host)) {
        this.#waiting.unshift(...host.takeBackWaiting())
      }
      this.#endIfIdle(host)
      // A process whose calls were all cancelled is free for the next suspects.
      if (this.#alone.has(host) && host.ready && host.calls.size === 0) this.#nextAlone(host)
    }
    this.dispatch()
  }

  /** Ends the lane for good: its calls end as `cancelled`. */
  async end(): Promise<void> {
    this.#ended = true
    const calls = [...this.#waiting.splice(0), ...this.#suspects.takeAll()]
    const hosts = [...this.#hosts, ...this.#alone]
    for (const host of hosts) {
      for (const { call } of host.calls.values()) calls.push(call)
      host.end()
    }
    const detail = 'the worker is stopping'
    for (const call of calls) call.settle({ ok: false, reason: 'cancelled', detail })
    await Promise.all(hosts.map((host) => host.closed))
  }

  dispatch(): void {
    if (this.#ended) return
    if (this.#failed !== null && performance.now() > this.#failed.untilMs) this.#failed = null
    if (this.#failed === null) this.#runSuspects()
    else if (![...this.#hosts].some((host) => host.ready)) {
      const detail = this.#failed.message
      for (const call of this.#waiting.splice(0)) {
        call.settle({ ok: false, reason: 'function_error', detail })
      }
    }
    while (this.#waiting.length > 0) {
      const host = this.#freest()
      if (host === null) break
      const call = this.#waiting.shift() as FunctionCall
      if (!call.settled) this.#give(host, call)
    }
    while (this.#waiting.length > 0 && this.#wantsAnother()) this.#start(this.#hosts)
  }

  #give(host: FunctionHost, call: FunctionCall): void {
    host.dispatch(call, this.#options.target?.key ?? null)
  }

  #freest(): FunctionHost | null {
    let best: FunctionHost | null = null
    for (const host of this.#hosts) {
      if (!host.ready || host.retiring || host.heldUpMs > 0) continue
      if (host.calls.size >= this.#window(host.busy)) continue
      if (best === null || host.calls.size < best.calls.size) best = host
    }
    return best
  }

  #window(busy: number): number {
    if (this.#options.processes !== null || this.#sync === null) return 1
    const computed = Math.ceil(AHEAD_MS / Math.max(this.#busyMs, 0.01))
    if (this.#sync) return Math.min(MAX_SYNC_CALLS, computed)
    // Work after the first `await` is not measured, so a busy event loop counts as computing.
    return busy > COMPUTING
      ? Math.min(MAX_ASYNC_CALLS, Math.max(MAX_SYNC_CALLS, computed))
      : MAX_ASYNC_CALLS
  }

  #busiest(): number {
    let busy = 0
    for (const host of this.#hosts) busy = Math.max(busy, host.busy)
    return busy
  }

  #wantsAnother(): boolean {
    if (this.#failed !== null || performance.now() < this.#startAgainAtMs) return false
    const hosts = [...this.#hosts]
    const coming = hosts.filter((host) => !host.ready && !host.retiring).length
    const { processes } = this.#options
    if (processes !== null) return hosts.length < processes && coming < this.#waiting.length
    if (coming > 0) return false
    if (hosts.every((host) => host.retiring)) return hosts.length < MAX_RETIRING
    const usable = hosts.filter((host) => !host.retiring && host.heldUpMs === 0)
    const computing = this.#sync === true || usable.every((host) => host.busy > COMPUTING)
    // A short backlog would be done before another process has started.
    const backlogMs = this.#sync === true ? this.#waiting.length * this.#busyMs : AHEAD_MS
    if (usable.length > 0 && (!computing || backlogMs < AHEAD_MS)) return false
    return this.#around.mayStart()
  }

  #start(into: Set<FunctionHost>, onReady?: (host: FunctionHost) => void): void {
    let hasFailedToLoad = false
    const listener: HostListener = {
      ready: () => (onReady ? onReady(host) : this.dispatch()),
      failedToLoad: (message) => {
        hasFailedToLoad = true
        this.#onFailedToLoad(message)
      },
      pending: () => this.#learned(),
      ended: (dispatched, end) => this.#onEnded(host, dispatched, end),
      question: ({ question, request }, dispatched, bytes) => {
        void this.#around
          .answer(question, dispatched.call)
          .catch((error: Error): RouterAnswer => {
            return { ok: false, reason: 'function_error', detail: error.message }
          })
          .then((answer) => host.answer({ type: 'answer', request, answer }, bytes))
      },
      said: (level, message, fields, sampleId) => {
        const about = { function: this.#options.name, ...(sampleId === null ? {} : { sampleId }) }
        this.#around.log(level, { ...fields, ...about }, message)
      },
      gone: (incident) => {
        const alone = this.#alone.has(host)
        into.delete(host)
        if (host.hasNoProcess) return this.#onNotStarted(incident.detail)
        if (!host.ready && !hasFailedToLoad)
          this.#onFailedToLoad(`while it was loaded, ${incident.detail}`)
        this.#onGone(host, incident, alone)
      },
    }
    const { settings, rewardRouterAddress } = this.#around
    let host: FunctionHost
    try {
      host = new FunctionHost(settings, this.#options.target, rewardRouterAddress, listener)
    } catch (error) {
      this.#onNotStarted((error as Error).message)
      return
    }
    into.add(host)
  }

  #onFailedToLoad(message: string): void {
    const detail = `${this.#options.name} could not be loaded: ${message}`
    this.#failed = { message: detail, untilMs: performance.now() + FAILED_FOR_MS }
    this.#waiting.push(...this.#suspects.takeAll())
    this.dispatch()
  }

  #onNotStarted(message: string): void {
    this.#startAgainAtMs = performance.now() + NOT_STARTED_MS
    if (++this.#notStarted > MAX_NOT_STARTED) {
      this.#onFailedToLoad(`no process could be started: ${message}`)
    }
  }

  #onEnded(host: FunctionHost, { call }: DispatchedCall, { sync, busyMs, end }: CallEnd): void {
    this.#notStarted = 0
    this.#busyMs += (this.#sync === null ? 1 : 0.1) * (busyMs - this.#busyMs)
    // After it has returned a promise, a function counts as asynchronous for good.
    this.#sync = this.#sync === null ? sync : this.#sync && sync
    this.#usedAtMs = performance.now()
    call.settle(end)
    if (this.#alone.has(host)) {
      if (host.calls.size === 0) this.#nextAlone(host)
    } else this.dispatch()
  }

  /** Called when the first call of the function returns a promise: more calls can be sent before that call ends. */
  #learned(): void {
    if (this.#sync !== null) return
    this.#sync = false
    this.#around.onCapacity()
    this.dispatch()
  }

  #endIfIdle(host: FunctionHost): void {
    if (host.calls.size > 0 || !host.ready || this.#alone.has(host)) return
    const idleMs = performance.now() - host.idleSinceMs
    if (host.retiring || idleMs > (this.#hosts.size > 1 ? IDLE_MS : LAST_IDLE_MS)) {
      this.#hosts.delete(host)
      host.end()
    }
  }

  #onGone(host: FunctionHost, incident: Incident, alone: boolean): void {
    if (this.#ended) return
    const { culprit, certain, detail, reason } = incident
    const started = incident.started.map(({ call }) => call)
    const waiting = incident.waiting.map(({ call }) => call)
    if (culprit === null && started.length + waiting.length === 0) {
      this.dispatch()
      return
    }
    const suspect = culprit?.call ?? null
    // A call that ran alone is at fault. In a shared process, an earlier call may be the cause.
    const only = alone && started.length === 1 ? (started[0] as FunctionCall) : null
    const guilty = certain ? suspect : only
    this.#around.log(
      'warn',
      {
        function: this.#options.name,
        pid: host.pid,
        sampleId: (guilty ?? suspect)?.options.sampleId,
        again: started.length + waiting.length - (certain || only === null ? 0 : 1),
      },
      `a process of reward functions was ended: ${detail}`,
    )
    if (started.length === 0 && culprit === null) this.#countUnstarted(waiting, detail)
    this.#waiting.unshift(...waiting)
    if (guilty !== null) {
      guilty.settle({ ok: false, reason, detail: `${guilty.options.sampleId}: ${detail}` })
      if (guilty !== only) this.#waiting.unshift(...started)
    } else if (certain) this.#waiting.unshift(...started)
    else this.#waiting.unshift(...this.#suspects.add(started, suspect))
    this.dispatch()
  }

  /**
   * Counts an exit before any call had begun. No call is at fault, but without a limit the restarts would never end.
   */
  #countUnstarted(waiting: readonly FunctionCall[], detail: string): void {
    for (const call of waiting) {
      if (++call.unstarted < MAX_UNSTARTED) continue
      call.settle({ ok: false, reason: 'function_error', detail })
    }
  }

  #runSuspects(): void {
    const coming = () => [...this.#alone].filter((host) => !host.ready).length
    while (
      this.#suspects.groups > coming() &&
      this.#alone.size < MAX_ALONE &&
      performance.now() >= this.#startAgainAtMs
    ) {
      this.#start(this.#alone, (host) => this.#nextAlone(host))
    }
  }

  #nextAlone(host: FunctionHost): void {
    const calls = host.isClean ? this.#suspects.next() : undefined
    if (calls !== undefined) {
      for (const call of calls) this.#give(host, call)
      return
    }
    this.#alone.delete(host)
    host.end()
    this.dispatch()
  }
}
