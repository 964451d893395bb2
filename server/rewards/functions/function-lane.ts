import type { FunctionCall } from './function-call.ts'
import { FunctionHost, type HostListener } from './function-host.ts'
import type { DispatchedCall, Incident } from './incident.ts'
import type { CallEnd, FunctionTarget, RouterAnswer, RouterQuestion } from './protocol.ts'
import type { HostSettings } from './start-host.ts'
import { Suspects } from './suspects.ts'

/** Calls of a function that returns promises, side by side in one process. */
const ASYNC_CALLS = 4_096
/** A process holds what it computes in this time, so that another worker takes the rest: late binding. */
const AHEAD_MS = 150
const SYNC_CALLS = 64
/** A loop that is busy for so much of its time computes rather than waits. */
const COMPUTING = 0.85
/** A process held up for this long gives back what waits inside. */
const TAKE_BACK_MS = 1_000
/** With nothing to do, all processes but one end after this long, and the last one. */
const IDLE_MS = 10_000
const LAST_IDLE_MS = 60_000
/** Suspects run alone in so many processes at once. */
const ALONE_AT_ONCE = 2
/** Processes that take no more calls and wait for those inside: beyond so many, no other is started beside them. */
const MAX_RETIRING = 4
/** A process could not be started: there are too many, or there is no memory. It is tried again, so often. */
const NOT_STARTED_MS = 1_000
const MAX_NOT_STARTED = 20
/** A module that could not be loaded is tried again after this long: what it needs may be there by then. */
const FAILED_FOR_MS = 5_000
/** A call is given up after so many processes ended by themselves before anything in them had begun. */
const MAX_UNSTARTED = 5

/** What a lane needs of its pool. */
export interface LaneSurroundings {
  settings: HostSettings
  /** Whether one more process may be started beside those there are. */
  mayStart(): boolean
  /** It can make use of more calls than before. */
  onCapacity(): void
  rewardRouterAddress: string | null
  answer(question: RouterQuestion, call: FunctionCall): Promise<RouterAnswer>
  log(level: 'debug' | 'info' | 'warn' | 'error', fields: object, message: string): void
}

/** What it runs. */
export interface LaneOptions {
  /** For the log. */
  name: string
  /** Null: built-in rules. */
  target: FunctionTarget | null
  /** Processes of its own that take one call at a time; null: shared ones, found out. */
  processes: number | null
}

/**
 * The calls of one version of a function, and the processes that run them. A process takes one call until it is known
 * what the function does: one that returns promises gets thousands, one that computes what it can do in 150 ms, and more
 * processes. What was in a process that had to be ended is called again elsewhere, all but the culprit; where that is not
 * known for certain, suspects run alone.
 */
export class FunctionLane {
  readonly #options: LaneOptions
  readonly #around: LaneSurroundings
  readonly #waiting: FunctionCall[] = []
  readonly #hosts = new Set<FunctionHost>()
  readonly #suspects = new Suspects()
  /** Processes of suspects. */
  readonly #alone = new Set<FunctionHost>()
  /** Null until a call has returned. */
  #sync: boolean | null = null
  /** Of the time until a call returns, smoothed. */
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

  /** Shared processes that there are. */
  get processes(): number {
    return this.#hosts.size
  }

  /** Process ids, those of suspects included. */
  get pids(): number[] {
    return [...this.#hosts, ...this.#alone].flatMap(({ pid }) => (pid === undefined ? [] : [pid]))
  }

  /** Calls that wait or are inside. */
  get inUse(): number {
    let n = this.#waiting.length + this.#suspects.size
    for (const host of [...this.#hosts, ...this.#alone]) n += host.calls.size
    return n
  }

  /** Calls it can make use of now. */
  get capacity(): number {
    if (this.#options.processes !== null) return 2 * this.#options.processes
    return Math.max(1, this.#hosts.size) * this.#window(this.#busiest())
  }

  /** It was not used for so long that it may be forgotten. */
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

  /** Its caller has gone: it is not called, or what it does is of no use. */
  cancel(call: FunctionCall): void {
    const at = this.#waiting.indexOf(call)
    if (at >= 0) this.#waiting.splice(at, 1)
    for (const host of [...this.#hosts, ...this.#alone]) host.abandon(call, 'nobody waits for it')
  }

  /** Every tenth of a second. */
  tick(): void {
    for (const host of [...this.#hosts, ...this.#alone]) {
      host.check()
      if (host.heldUpMs > TAKE_BACK_MS && this.#hosts.has(host)) {
        this.#waiting.unshift(...host.takeBackWaiting())
      }
      this.#endIfIdle(host)
      // Its calls may have been given up.
      if (this.#alone.has(host) && host.ready && host.calls.size === 0) this.#nextAlone(host)
    }
    this.dispatch()
  }

  /** For good: what waits or is inside is `cancelled`. */
  end(): void {
    this.#ended = true
    const calls = [...this.#waiting.splice(0), ...this.#suspects.takeAll()]
    for (const host of [...this.#hosts, ...this.#alone]) {
      for (const { call } of host.calls.values()) calls.push(call)
      host.end()
    }
    const detail = 'the worker is stopping'
    for (const call of calls) call.settle({ ok: false, reason: 'cancelled', detail })
  }

  /** Gives waiting calls to processes, and starts one where that helps. */
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
    host.dispatch(call, this.#options.target?.key ?? null, this.#around.rewardRouterAddress)
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

  /** Calls a process may hold now. */
  #window(busy: number): number {
    if (this.#options.processes !== null || this.#sync === null) return 1
    const computed = Math.ceil(AHEAD_MS / Math.max(this.#busyMs, 0.01))
    if (this.#sync) return Math.min(SYNC_CALLS, computed)
    // What it does after its first `await` was not measured: a loop with no time left is.
    return busy > COMPUTING ? Math.min(ASYNC_CALLS, Math.max(SYNC_CALLS, computed)) : ASYNC_CALLS
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
    // What is done in a moment is done before another process has started.
    const backlogMs = this.#sync === true ? this.#waiting.length * this.#busyMs : AHEAD_MS
    if (usable.length > 0 && (!computing || backlogMs < AHEAD_MS)) return false
    return this.#around.mayStart()
  }

  #start(into: Set<FunctionHost>, onReady?: (host: FunctionHost) => void): void {
    let told = false
    const listener: HostListener = {
      ready: () => (onReady ? onReady(host) : this.dispatch()),
      failedToLoad: (message) => {
        told = true
        this.#onFailedToLoad(message)
      },
      pending: () => this.#learnt(),
      ended: (dispatched, end) => this.#onEnded(host, dispatched, end),
      asked: ({ question, request }, dispatched, bytes) => {
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
        if (host.isUnborn) return this.#onNotStarted(incident.detail)
        if (!host.ready && !told) this.#onFailedToLoad(`while it was loaded, ${incident.detail}`)
        this.#onGone(host, incident, alone)
      },
    }
    const { settings } = this.#around
    let host: FunctionHost
    try {
      host = new FunctionHost(settings, this.#options.target, listener)
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
    // A function that waits now and then is one that waits.
    this.#sync = this.#sync === null ? sync : this.#sync && sync
    this.#usedAtMs = performance.now()
    call.settle(end)
    if (this.#alone.has(host)) {
      if (host.calls.size === 0) this.#nextAlone(host)
    } else this.dispatch()
  }

  /** A call that was dispatched as the first of its function returned a promise: others need not wait for its end. */
  #learnt(): void {
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
    // In a process that others used before, it may be what they left behind.
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

  /** Nobody had begun: it ends by itself whatever is called, and a call that saw that often fails. */
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
      this.#alone.size < ALONE_AT_ONCE &&
      performance.now() >= this.#startAgainAtMs
    ) {
      this.#start(this.#alone, (host) => this.#nextAlone(host))
    }
  }

  /** A process that the last suspects left as it was takes the next ones. */
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
