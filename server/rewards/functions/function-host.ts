import { once } from 'node:events'
import type { Readable } from 'node:stream'
import type { FunctionCall } from './function-call.ts'
import { HeldUp } from './held-up.ts'
import { HostChannel, limitReads } from './host-channel.ts'
import type { DispatchedCall, Incident } from './incident.ts'
import {
  type CallEnd,
  type FromHost,
  type FunctionTarget,
  MAX_LOG_LINES_PER_SECOND,
  type Mark,
  readMark,
  type ToHost,
} from './protocol.ts'
import { readLines } from './read-lines.ts'
import { type HostSettings, type StartedHost, startHost } from './start-host.ts'

export interface HostListener {
  ready(): void
  /** A call returned a promise. */
  pending(): void
  failedToLoad(message: string): void
  ended(dispatched: DispatchedCall, end: CallEnd): void
  /** A call sent a request to the router. `bytes` is the size of the request, which `answer` needs. */
  question(
    message: Extract<FromHost, { type: 'ask' }>,
    dispatched: DispatchedCall,
    bytes: number,
  ): void
  said(
    level: 'debug' | 'info' | 'warn' | 'error',
    message: string,
    fields: object | null,
    sampleId: string | null,
  ): void
  gone(incident: Incident): void
}

/**
 * Tolerance before a call counts as overdue. Its result may be in transit, or another call may block the process, which
 * is detected only after 250 ms.
 */
const GRACE_MS = 300
/** Time limit for loading a module and constructing its object, including `init`. */
const LOAD_MS = 30_000
/** Time for which a cancelled call may keep blocking its process. */
const ABANDONED_MS = 1_000
/**
 * Minimum time for which an unknown call may block a process before the process is ended. A shorter block may only mean
 * that the process is short of CPU time.
 */
const UNKNOWN_HOLDER_MS = 1_000
/** Number of cancelled calls with unsettled promises after which a process takes no more calls. */
const MAX_ABANDONED = 256
/**
 * A process counts as dead if a call is overdue by this time and the watchdog has not reported the process as blocked.
 */
const SILENT_MS = 30_000
const LAST_WORDS_MS = 500
const MAX_LINE_CHARS = 4_000
/** Maximum reports per second of a process. The watchdog and the load average send at most about 45. */
const MAX_REPORTS_PER_SECOND = 500
const PRINTED = { maxChars: MAX_LINE_CHARS, perSecond: 50 }

/**
 * One child process as the worker sees it: its calls, their times, and the call that blocks it.
 *
 *   loading ──loaded──▶ ready ──idle too long, or enough calls served──▶ ended
 *                         │ over its time or memory limit, or exited by itself: an incident, with a culprit or suspects
 */
export class FunctionHost {
  readonly calls = new Map<number, DispatchedCall>()
  /** Fraction of time for which the process's event loop is busy, 0 to 1. */
  busy = 0
  idleSinceMs = performance.now()
  ready = false
  retiring = false
  readonly #host: StartedHost
  readonly #channel: HostChannel | null
  readonly #target: FunctionTarget | null
  readonly #listener: HostListener
  readonly #startedAtMs = performance.now()
  /** Cancelled calls that have not ended: id → sample id. */
  readonly #abandoned = new Map<number, string>()
  /** Calls taken back before they began; their `end` messages may still arrive. */
  readonly #takenBack = new Set<number>()
  /** Numbers of the calls' open requests to the router. */
  readonly #openQuestions = new Set<number>()
  readonly #heldUp = new HeldUp()
  readonly #second = { atMs: 0, reports: 0, logLines: 0 }
  /** Id of the call whose code is on the stack: it has begun and not yet returned. */
  #onStack: number | null = null
  /** Counts of calls: sent to the process, reported as begun, and reported as having returned a promise. */
  #dispatched = 0
  #begun = 0
  #returned = 0
  #gone = false
  /** The worker's reason for ending the process; null if the worker has not ended it. */
  #verdict: Pick<Incident, 'reason' | 'detail' | 'culprit' | 'certain'> | null = null
  #exit: { code: number; id: number } | null = null
  #lastError = ''
  static #nextId = 1

  /** @throws Error if the target's level of isolation is not available */
  constructor(
    settings: HostSettings,
    target: FunctionTarget | null,
    rewardRouterAddress: string | null,
    listener: HostListener,
  ) {
    this.#listener = listener
    this.#target = target
    this.#host = startHost(settings, {
      target,
      rewardRouterAddress,
      onOver: (detail) => this.#wentOver(detail),
    })
    const { child, channel, marks } = this.#host
    child.on('error', (error) => {
      // If the child has a pid, the error is from a write to a process that just ended; `exit` reports that.
      if (child.pid === undefined) this.#notStarted(error)
    })
    if (child.pid === undefined) {
      this.#channel = null
      return
    }
    this.#channel = new HostChannel(
      channel,
      (message, bytes) => this.#onMessage(message, bytes),
      (problem) => this.#violated(`sent a message that is not valid: ${problem}`),
    )
    readLines(marks, { maxChars: 200, perSecond: Number.POSITIVE_INFINITY }, (line) => {
      const mark = readMark(line)
      if (mark === null) this.#violated('wrote into the pipe that reports its calls')
      else this.#onMark(mark)
    })
    for (const stream of [marks, child.stdout, child.stderr]) limitReads(stream as Readable)
    readLines(child.stdout as Readable, PRINTED, (line, leftOut) => {
      this.#said('info', line, leftOut)
    })
    readLines(child.stderr as Readable, PRINTED, (line, leftOut) => {
      if (/^FATAL ERROR|heap out of memory/.test(line)) this.#lastError = line
      this.#said('warn', line, leftOut)
    })
    child.once('exit', (code, signal) => {
      const said = once(child, 'close').catch(() => {})
      // Processes started by the function may keep the pipes open.
      const late = new Promise((resolve) => setTimeout(resolve, LAST_WORDS_MS).unref())
      void Promise.race([said, late]).then(() => this.#onGone(code, signal))
    })
    if (target === null) {
      this.ready = true
      queueMicrotask(() => listener.ready())
    } else this.#send({ type: 'load', target })
  }

  get pid(): number | undefined {
    return this.#host.child.pid
  }

  /** Time for which a call has blocked the process so far, ms; 0 while the process responds. */
  get heldUpMs(): number {
    return this.#heldUp.ms
  }

  get isClean(): boolean {
    return !this.retiring && this.#abandoned.size === 0
  }

  get hasNoProcess(): boolean {
    return this.#host.child.pid === undefined
  }

  /** Sends a call to the process, which must have loaded the call's target. */
  dispatch(call: FunctionCall, target: string | null): void {
    const id = FunctionHost.#nextId++
    this.calls.set(id, { id, call, startedAtMs: null, heldUpAtStartMs: 0 })
    this.#dispatched++
    const { sampleId, run } = call.options
    const { rewardRouterAddress } = this.#host
    const about = { sampleId, run, rewardRouterAddress }
    try {
      this.#send({ type: 'call', id, target, work: call.work, about })
    } catch (error) {
      this.calls.delete(id)
      const detail = `it cannot be encoded: ${(error as Error).message}`
      call.settle({ ok: false, reason: 'function_error', detail })
    }
  }

  /** Answers a request to the router. `bytes` is the size of that request. */
  answer(message: Extract<ToHost, { type: 'answer' }>, bytes: number): void {
    this.#openQuestions.delete(message.request)
    this.#channel?.answered(bytes)
    this.#send(message)
  }

  /** Cancels a call: the process is notified, and the result of the call is ignored. */
  abandon(call: FunctionCall, why: string): void {
    for (const dispatched of this.calls.values()) {
      if (dispatched.call !== call) continue
      this.#abandon(dispatched, why)
      return
    }
  }

  /** Takes back the calls that wait inside a blocked process, to be dispatched elsewhere. */
  takeBackWaiting(): FunctionCall[] {
    const back: FunctionCall[] = []
    for (const { id, call, startedAtMs } of this.calls.values()) {
      if (startedAtMs !== null) continue
      this.calls.delete(id)
      this.#takenBack.add(id)
      this.#send({ type: 'abort', id, why: 'scored elsewhere' })
      back.push(call)
    }
    return back
  }

  /** Kills the process; {@link HostListener.gone} reports its calls. */
  end(): void {
    this.retiring = true
    this.#host.kill()
  }

  /** Resolves when the process and everything that it started have ended. */
  get closed(): Promise<void> {
    return this.#host.closed
  }

  /** Checks for overdue calls; called every tenth of a second. */
  check(): void {
    if (this.#gone || this.#verdict !== null) return
    const now = performance.now()
    if (!this.ready) {
      if (now - this.#startedAtMs > LOAD_MS) {
        this.#listener.failedToLoad(`it was not loaded within ${LOAD_MS / 1_000} s`)
        this.end()
      }
      return
    }
    const { holder, totalMs } = this.#heldUp
    if (holder !== null && this.#abandoned.has(holder)) {
      if (this.heldUpMs > ABANDONED_MS) this.#endFor(null, true, 'timeout', this.#goesOn(holder))
      return
    }
    let longestMs = 0
    for (const dispatched of this.calls.values()) {
      if (dispatched.startedAtMs === null) continue
      const { timeoutMs } = dispatched.call.options
      const holds = dispatched.id === holder
      const byOthersMs = holds ? 0 : Math.max(0, totalMs - dispatched.heldUpAtStartMs)
      const tookMs = now - dispatched.startedAtMs - byOthersMs
      longestMs = Math.max(longestMs, now - dispatched.startedAtMs - timeoutMs)
      if (tookMs <= timeoutMs + GRACE_MS) continue
      if (holds || dispatched.id === this.#onStack) {
        this.#endFor(dispatched, true, 'timeout', over(dispatched))
      } else if (holder === null) {
        const detail = `${dispatched.call.options.sampleId}: ${over(dispatched)}`
        this.#abandon(dispatched, over(dispatched))
        dispatched.call.settle({ ok: false, reason: 'timeout', detail })
      }
      if (this.#verdict !== null) return
    }
    if (holder === 0) {
      let patienceMs = 86_400_000
      for (const { call } of this.calls.values()) {
        patienceMs = Math.min(patienceMs, call.options.timeoutMs)
      }
      patienceMs = Math.max(UNKNOWN_HOLDER_MS, patienceMs)
      if (this.heldUpMs > patienceMs) {
        this.#endFor(null, false, 'timeout', `its process was held up for ${patienceMs} ms`)
      }
    } else if (longestMs > SILENT_MS && holder === null) {
      this.#endFor(null, false, 'timeout', 'its process did not respond')
    }
  }

  #abandon(dispatched: DispatchedCall, why: string): void {
    const { id, call } = dispatched
    this.calls.delete(id)
    this.#abandoned.set(id, call.options.sampleId)
    this.#send({ type: 'abort', id, why })
    if (this.#abandoned.size > MAX_ABANDONED) this.retiring = true
    if (this.calls.size === 0) this.idleSinceMs = performance.now()
  }

  #endFor(
    culprit: DispatchedCall | null,
    certain: boolean,
    reason: Incident['reason'],
    detail: string,
  ): void {
    this.#verdict = { culprit, certain, reason, detail }
    this.end()
  }

  #goesOn(id: number): string {
    return `${this.#abandoned.get(id)} went on computing after its end`
  }

  #send(message: ToHost): void {
    if (!this.#gone) this.#channel?.send(message)
  }

  #said(level: 'info' | 'warn', line: string, leftOut = 0): void {
    if (line.trim() === '') return
    this.#listener.said(level, line, leftOut === 0 ? null : { linesLeftOut: leftOut }, null)
  }

  /** Ends a process that violated the protocol. Its calls run again, alone, to find the culprit. */
  #violated(what: string): void {
    if (this.#verdict !== null || this.#gone) return
    const culprit = this.calls.get(this.#onStack ?? 0) ?? null
    this.#endFor(culprit, false, 'function_error', `its process ${what}`)
  }

  #isWithin(kind: 'reports' | 'logLines', limit: number): boolean {
    const now = performance.now()
    if (now - this.#second.atMs > 1_000) {
      Object.assign(this.#second, { atMs: now, reports: 0, logLines: 0 })
    }
    return ++this.#second[kind] <= limit
  }

  #onMessage(message: FromHost, bytes: number): void {
    if (this.#gone) return
    switch (message.type) {
      case 'loaded':
        if (this.ready || message.key !== this.#target?.key) {
          this.#violated('reported a module that was not to be loaded')
        } else if (message.error === null) {
          this.ready = true
          this.idleSinceMs = performance.now()
          this.#listener.ready()
        } else {
          this.#listener.failedToLoad(message.error)
          this.end()
        }
        break
      case 'end':
        this.#onEnd(message)
        break
      case 'ask':
        this.#onQuestion(message, bytes)
        break
      case 'log': {
        // The process itself drops lines beyond the limit, but by its own clock, so this limit is higher.
        if (!this.#isWithin('logLines', 3 * MAX_LOG_LINES_PER_SECOND)) {
          this.#violated('wrote more lines to the log than it may')
          break
        }
        const { level, message: text, call, leftOut } = message
        const fields = leftOut === 0 ? message.fields : { ...message.fields, linesLeftOut: leftOut }
        const sampleId = this.calls.get(call)?.call.options.sampleId ?? this.#abandoned.get(call)
        this.#listener.said(level, text.slice(0, MAX_LINE_CHARS), fields, sampleId ?? null)
        break
      }
      case 'load-average':
        if (this.#isWithin('reports', MAX_REPORTS_PER_SECOND)) this.busy = message.busy
        else this.#violated('floods its channel')
        break
      case 'spent':
        if (this.retiring) break
        this.retiring = true
        this.#said('warn', message.why)
        break
      case 'inspected':
        this.#violated('sent the result of an inspection that was not requested')
        break
    }
  }

  #onQuestion(message: Extract<FromHost, { type: 'ask' }>, bytes: number): void {
    const dispatched = this.calls.get(message.call)
    // The message is from a call that has ended, or from code outside any call.
    if (dispatched === undefined) return
    if (this.#openQuestions.has(message.request)) {
      this.#violated('sent two requests to the router with one number')
      return
    }
    this.#openQuestions.add(message.request)
    this.#channel?.question(bytes)
    this.#listener.question(message, dispatched, bytes)
  }

  #onEnd(message: CallEnd): void {
    const isLate = this.#abandoned.delete(message.id) || this.#takenBack.delete(message.id)
    if (this.#onStack === message.id) this.#onStack = null
    const dispatched = this.calls.get(message.id)
    if (dispatched === undefined) {
      if (!isLate) this.#violated('reported the end of a call that it does not have')
      return
    }
    if (!answers(message.end, dispatched.call.work)) {
      this.#violated('reported an end that does not fit its call')
      return
    }
    this.calls.delete(message.id)
    if (this.calls.size === 0) {
      this.idleSinceMs = performance.now()
      this.busy = 0
    }
    this.#listener.ended(dispatched, message)
  }

  #onMark(mark: Mark): void {
    const now = performance.now()
    switch (mark.kind) {
      case 'S': {
        this.#onStack = mark.id
        const dispatched = this.calls.get(mark.id)
        // The end of a call may be read before its beginning, because they arrive through different pipes.
        if (++this.#begun > this.#dispatched || (dispatched && dispatched.startedAtMs !== null)) {
          this.#violated('began a call that it does not have')
          return
        }
        if (dispatched === undefined) return
        dispatched.startedAtMs = now
        dispatched.call.startedAtMs = now
        dispatched.heldUpAtStartMs = this.#heldUp.totalMs
        return
      }
      case 'R': {
        if (this.#onStack === mark.id) this.#onStack = null
        const dispatched = this.calls.get(mark.id)
        if (dispatched) this.#listener.pending()
        if (++this.#returned > this.#dispatched) {
          this.#violated('returned from a call that it does not have')
        }
        return
      }
      case 'B':
      case 'U':
        if (!this.#isWithin('reports', MAX_REPORTS_PER_SECOND)) {
          this.#violated('floods the pipe that reports its calls')
        } else if (mark.kind === 'B') this.#heldUp.seen(mark.id, mark.ms)
        else this.#heldUp.over()
        return
      case 'M': {
        const mb = Math.round(mark.bytes / 2 ** 20)
        this.#wentOver(`its process took ${mb} MB, over its limit`, mark.id)
        return
      }
      case 'X':
        this.#exit = { code: mark.code, id: mark.id }
        return
    }
  }

  /**
   * Ends a process that exceeded a limit, and blames call `id`. The blame is uncertain, because another call in the
   * process may have used most of the resource.
   */
  #wentOver(detail: string, id = this.#onStack ?? 0): void {
    if (this.#verdict !== null || this.#gone) return
    this.#endFor(this.calls.get(id) ?? null, false, 'function_error', detail)
  }

  /** Handles a process that could not be started because the machine is out of processes or memory. */
  #notStarted(error: Error): void {
    this.#verdict ??= {
      reason: 'function_error',
      detail: `no process could be started: ${error.message}`,
      culprit: null,
      certain: true,
    }
    this.#onGone(null, null)
  }

  #onGone(code: number | null, signal: NodeJS.Signals | null): void {
    if (this.#gone) return
    this.#gone = true
    const { culprit, certain, reason, detail } = this.#verdict ?? this.#byItself(code, signal)
    const inside = [...this.calls.values()].filter((one) => one !== culprit || !certain)
    this.calls.clear()
    this.#listener.gone({
      reason,
      detail,
      culprit,
      certain,
      started: inside.filter((one) => one.startedAtMs !== null),
      waiting: inside.filter((one) => one.startedAtMs === null),
    })
  }

  #byItself(
    code: number | null,
    signal: NodeJS.Signals | null,
  ): Pick<Incident, 'reason' | 'detail' | 'culprit' | 'certain'> {
    const reason = 'function_error'
    if (this.#exit !== null) {
      const culprit = this.calls.get(this.#exit.id) ?? null
      const detail = `it ended its process with code ${this.#exit.code}`
      // If the call that ended the process is already complete, none of the remaining calls is at fault.
      return { reason, detail, culprit, certain: this.#exit.id > 0 }
    }
    const how = signal === null ? `code ${code}` : signal
    const heap = this.#lastError === '' ? '' : `: ${this.#lastError}`
    const detail = `its process ended with ${how}${heap}`
    // The call whose code was running is only a suspect: another call may have exhausted the memory.
    const culprit = this.calls.get(this.#onStack ?? 0) ?? null
    return { reason, detail, culprit, certain: false }
  }
}

function answers(end: CallEnd['end'], work: FunctionCall['work']): boolean {
  if (!end.ok) return true
  switch (work.op) {
    case 'score':
    case 'rule':
      return 'score' in end
    case 'group':
      return 'results' in end && end.results.length === work.samples.length
    case 'method':
      return !('score' in end) && !('results' in end)
  }
}

function over({ call }: DispatchedCall): string {
  return `not done within ${call.options.timeoutMs} ms`
}
