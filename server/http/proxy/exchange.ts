import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ProxiedPath } from '../../contract/proxied-paths.ts'
import { RewardOpsError, shuttingDown } from '../../errors.ts'
import type { Logger } from '../../log.ts'
import { maskSecrets } from '../../mask-secrets.ts'
import { classifyStatus, type EngineFailure } from '../../router/answer-classes.ts'
import { classifyCallError } from '../../router/call-error.ts'
import type { RewardRouter, RouterSlot, SlotEnd, SlotRefusal } from '../../router/router-types.ts'
import { RAW_ANSWER_HEADERS } from '../security-headers.ts'
import { endOf, isAborted, isFailure, MAX_ATTEMPTS } from './answer-verdict.ts'
import { type BodyFacts, readBodyFacts } from './body-facts.ts'
import { findSlot, type SlotSearch } from './find-slot.ts'
import { requestHeaders, responseHeaders, soundHeaders } from './headers.ts'
import type { ModelDirectory } from './model-directory.ts'
import { ClientGone, readBody } from './read-body.ts'
import { refuseProxied } from './refusal.ts'
import { MAX_WAIT_MS, type RouteOptions, routeOptions } from './route-options.ts'
import { generates } from './routes.ts'
import { type AnswerMode, type CallOwner, MAX_SMALL_BYTES, UpstreamCall } from './upstream-call.ts'
import type { Upstreams } from './upstreams.ts'

/** Maximum random delay before the third call, in ms. The second call is sent immediately. */
const BACKOFF_MS = 400
const IDLE_MS = 300_000
/** Retry-After for failed requests, in ms: the default if the server sends none, and the maximum. */
const RETRY_AFTER_MS = 1_000
const RETRY_AFTER_MAX_MS = 30_000
/** Estimates: bytes of JSON per token, and tokens of a reply without `max_tokens`. The router uses the same values. */
const BYTES_PER_TOKEN = 3.6
const REPLY_TOKENS = 256
/** Number of bytes at the end of a body from which {@link keyOf} computes its key. */
const KEY_BYTES = 512

/**
 * Abort controllers kept for later requests, because creating one and adding the router's listener to it takes 4 µs.
 */
const STOPS: AbortController[] = []
const STOPS_KEPT = 256

const HEADER_TEXT = /^[\x20-\x7e]*$/

export interface ExchangeContext {
  router: RewardRouter
  upstreams: Upstreams
  directory: ModelDirectory
  log: Logger
}

type Halt = 'gone' | 'expired' | 'idle' | 'key_ended'

/**
 * One request through the router address:
 *
 *     body ─▶ slot ─▶ call ─▶ answer passed on ─▶ end
 *              ▲       │ failed before a byte was passed on: another slot, at most three calls
 *              └───────┘   or its slot was recalled: another slot, and the call does not count
 *
 * A client that disconnects, a deadline, a silent server and a key that becomes invalid stop the exchange at any
 * point. The slot is released exactly once on every path.
 */
export class Exchange implements CallOwner, SlotSearch {
  /** The index of the exchange in the list of running exchanges. */
  index = -1
  readonly #context: ExchangeContext
  readonly #req: IncomingMessage
  readonly #res: ServerResponse
  readonly #requestId: string
  readonly #keyEnded: AbortSignal
  readonly path: ProxiedPath
  readonly #startedAtMs = performance.now()
  /** Cancels the wait for a slot. */
  #stop = STOPS.pop() ?? new AbortController()
  #halt: Halt | null = null
  #isRecalled = false
  #deadlineAtMs = Number.POSITIVE_INFINITY
  #deadlineTimer: NodeJS.Timeout | undefined
  #facts: BodyFacts = { model: null, stream: false, maxTokens: null }
  /** The request to the router for a slot; set after the body has been read. */
  request!: SlotSearch['request']
  #slot: RouterSlot | null = null
  #call: UpstreamCall | null = null
  /** Ends the current wait for a call or a pause. */
  #wake: (() => void) | null = null
  #attempts = 0
  #queueMs = 0
  #workerName = ''
  #raced = false
  /** The failure and the status of the last call. The status is 0 if there was no answer. */
  #failure: EngineFailure | null = null
  #failedStatus = 0
  readonly failed: number[] = []

  constructor(
    context: ExchangeContext,
    req: IncomingMessage,
    res: ServerResponse,
    requestId: string,
    path: ProxiedPath,
    keyEnded: AbortSignal,
  ) {
    this.#context = context
    this.#req = req
    this.#res = res
    this.#requestId = requestId
    this.path = path
    this.#keyEnded = keyEnded
  }

  /** Runs the exchange from request to answer. Never rejects. */
  async run(): Promise<void> {
    const res = this.#res
    const onClose = () => this.#stopFor('gone')
    const onDrain = () => this.#call?.resume()
    res.on('close', onClose)
    res.on('drain', onDrain)
    try {
      const options = routeOptions(this.#req.headers)
      await this.#route(await readBody(this.#req), options)
    } catch (error) {
      if (error instanceof ClientGone || this.#halt === 'gone') res.destroy()
      else this.#refuse(error)
    } finally {
      this.#release({ outcome: 'cancelled' })
      clearTimeout(this.#deadlineTimer)
      // A controller that has not aborted is kept for a later request, with the router's listener on it.
      if (this.#halt === null && STOPS.length < STOPS_KEPT) STOPS.push(this.#stop)
      res.off('close', onClose)
      res.off('drain', onDrain)
    }
  }

  /** Stops the exchange if it is idle, has waited too long, or its key has become invalid. Called once a second. */
  tick(nowMs: number): void {
    const call = this.#call
    if (this.#keyEnded.aborted) {
      this.#stopFor('key_ended')
    } else if (call?.passedOn !== true && nowMs - this.#startedAtMs > MAX_WAIT_MS) {
      this.#stopFor('expired')
    } else if (call !== null && call.status > 0 && nowMs - call.lastAtMs > IDLE_MS) {
      // A client that reads nothing for `IDLE_MS` counts as disconnected.
      this.#stopFor(call.paused ? 'gone' : 'idle')
    }
  }

  cut(): void {
    this.#stopFor('gone')
    this.#res.destroy()
  }

  async #route(body: Buffer, options: RouteOptions): Promise<void> {
    const { router, directory } = this.#context
    this.#facts = readBodyFacts(body)
    const header = this.#req.headers['x-model']
    const named = this.#facts.model ?? (typeof header === 'string' && header ? header : null)
    const chosen = directory.choose(named, this.path)
    const model =
      typeof chosen === 'string'
        ? chosen
        : await chosen.catch((error: unknown) => {
            // For a body that is not JSON, the error says so instead of reporting a missing model.
            throw named === null ? (notJson(body) ?? error) : error
          })
    this.#startDeadline(options.deadlineMs)
    const { deadlineMs: _, ...wishes } = options
    const reply = generates(this.path) ? (this.#facts.maxTokens ?? REPLY_TOKENS) : 0
    this.request = {
      model,
      ...wishes,
      tokens: body.length / BYTES_PER_TOKEN + reply,
      key: keyOf(body),
      signal: this.#stop.signal,
      onRecall: this.#onRecall,
    }
    for (;;) {
      this.#checkHalt()
      const got = await findSlot(router, directory, this)
      if (!got.ok) throw this.#withoutSlot(got, model)
      this.#slot = got.slot
      this.#queueMs += got.queueMs
      this.#checkHalt()
      if (await this.#attempt(body)) return
      if (this.#attempts >= MAX_ATTEMPTS) throw this.#exhausted()
      if (this.#attempts === MAX_ATTEMPTS - 1) await this.pause(Math.random() * BACKOFF_MS)
    }
  }

  async #attempt(body: Buffer): Promise<boolean> {
    const slot = this.#slot as RouterSlot
    this.#attempts++
    this.#workerName = slot.serverName
    const headers = requestHeaders(this.#req, this.#requestId, slot.apiKey)
    const leftMs = this.leftMs
    if (leftMs !== undefined) headers.push('x-deadline-ms', String(Math.ceil(leftMs)))
    const call = new UpstreamCall(this.#res, this, performance.now())
    this.#call = call
    const { upstreams } = this.#context
    await new Promise<void>((resolve) => {
      this.#wake = resolve
      const query = (this.#req.url as string).indexOf('?')
      const path = query < 0 ? this.path : `${this.path}${(this.#req.url as string).slice(query)}`
      upstreams.post(call, slot, path, headers, body)
    })
    this.#wake = null
    this.#call = null
    const nowMs = performance.now()
    upstreams.ended(slot.url, nowMs)
    return this.#ended(call, slot, nowMs - call.sentAtMs)
  }

  #ended(call: UpstreamCall, slot: RouterSlot, serviceMs: number): boolean {
    if (this.#halt !== null) {
      // A deadline of the caller is not evidence against the server; a time limit of the service is.
      const silent = this.#halt === 'idle' || (this.#halt === 'expired' && !this.#hasDeadline)
      this.#release({ outcome: silent ? 'stall' : 'cancelled' })
      if (call.passedOn) {
        this.#breakOff(call)
        return true
      }
      this.#checkHalt()
    }
    if (this.#isRecalled || call.isUnsent) {
      this.#isRecalled = false
      this.#release({ outcome: 'cancelled' })
      if (call.passedOn) {
        this.#breakOff(call)
        return true
      }
      this.#attempts--
      return false
    }
    if (call.error !== null) {
      const failure = classifyCallError(call, serviceMs)
      if (call.passedOn) {
        this.#release({ outcome: 'fault', detail: failure.detail })
        this.#breakOff(call)
        return true
      }
      if (failure.class === 'conn_race') {
        if (!this.#raced) {
          this.#raced = true
          this.#attempts--
          this.#release({ outcome: 'conn_race' })
          return false
        }
        failure.class = 'fault'
      }
      return this.#callFailed(failure, 0, slot)
    }
    const { status } = call
    if (call.passedOn || !isFailure(status, this.#attempts)) {
      const text = call.body()
      if (call.mode === 'hold' && !call.passedOn && text !== null && isAborted(text)) {
        const detail = 'answered with finish_reason "abort", because it was put to sleep'
        const failure = { ok: false, class: 'fault', reason: 'transport', detail } as const
        return this.#callFailed(failure, status, slot)
      }
      this.#release(endOf(call, text))
      call.endPassed()
      return true
    }
    const failure = classifyStatus(status, call.headers, call.body()?.toString() ?? '')
    if (status >= 300 && status < 400) {
      this.#release({ outcome: 'corrupt', detail: failure.detail })
      throw new RewardOpsError(
        'upstream_redirects',
        `The server "${slot.serverName}" ${maskSecrets(failure.detail, [slot.apiKey])}.`,
      )
    }
    return this.#callFailed(failure, status, slot)
  }

  #callFailed(failure: EngineFailure, status: number, slot: RouterSlot): false {
    failure.detail = maskSecrets(failure.detail, [slot.apiKey])
    this.#failure = failure
    this.#failedStatus = status
    if (!this.failed.includes(slot.serverId)) this.failed.push(slot.serverId)
    const { class: outcome, detail, retryAfterMs } = failure
    this.#release({ outcome, detail, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) })
    return false
  }

  answerBegins(call: UpstreamCall): AnswerMode {
    const { status } = call
    if (isFailure(status, this.#attempts)) return 'collect'
    if (status !== 200 || this.#facts.stream || !generates(this.path)) return 'pass'
    const length = Number(call.headers['content-length'] ?? 0)
    const encoded = call.headers['content-encoding'] !== undefined
    const type = String(call.headers['content-type'] ?? '')
    return length <= MAX_SMALL_BYTES && !encoded && type.startsWith('application/json')
      ? 'hold'
      : 'pass'
  }

  writeHead(call: UpstreamCall): void {
    clearTimeout(this.#deadlineTimer)
    const headers = responseHeaders(call.headers)
    headers.push(...RAW_ANSWER_HEADERS, 'x-request-id', this.#requestId)
    for (const [name, value] of this.#ownHeaders()) headers.push(name, value)
    headers.push('x-upstream-ms', tenths(call.firstByteMs))
    const words = HEADER_TEXT.test(call.statusText) ? call.statusText : ''
    try {
      this.#res.writeHead(call.status, words, headers)
    } catch {
      this.#res.writeHead(call.status, words, soundHeaders(headers))
    }
  }

  onCallEnd(): void {
    this.#wake?.()
  }

  #ownHeaders(): [name: string, value: string][] {
    const headers: [string, string][] = [
      ['x-attempts', String(this.#attempts)],
      ['x-queue-ms', tenths(this.#queueMs)],
    ]
    if (this.#workerName !== '') headers.push(['x-worker', headerText(this.#workerName)])
    return headers
  }

  #startDeadline(deadlineMs: number | undefined): void {
    if (deadlineMs === undefined) return
    this.#deadlineAtMs = this.#startedAtMs + deadlineMs
    const leftMs = this.#deadlineAtMs - performance.now()
    if (leftMs <= 0) this.#stopFor('expired')
    else this.#deadlineTimer = setTimeout(() => this.#stopFor('expired'), leftMs)
  }

  get #hasDeadline(): boolean {
    return this.#deadlineAtMs !== Number.POSITIVE_INFINITY
  }

  get leftMs(): number | undefined {
    return this.#hasDeadline ? Math.max(1, this.#deadlineAtMs - performance.now()) : undefined
  }

  /** Abandons the call. It is repeated with another slot unless a part of its answer was passed on. */
  readonly #onRecall = () => {
    this.#isRecalled = true
    this.#call?.abandon()
    this.#wake?.()
  }

  #stopFor(halt: Halt): void {
    if (this.#halt !== null) return
    this.#halt = halt
    this.#stop.abort()
    this.#call?.abandon()
    this.#wake?.()
  }

  /** @throws when the exchange was stopped */
  #checkHalt(): void {
    if (this.#halt !== null) throw this.#haltError(this.#halt)
  }

  #haltError(halt: Halt): Error {
    if (halt === 'gone') return new ClientGone()
    if (halt === 'key_ended') return this.#keyEnded.reason as Error
    return halt === 'expired' ? this.#expired() : this.#exhausted()
  }

  #withoutSlot(refusal: SlotRefusal, model: string): unknown {
    if (this.#halt !== null) return this.#haltError(this.#halt)
    switch (refusal.reason) {
      case 'queue_full':
        return new RewardOpsError(
          'queue_full',
          `Too many requests wait for a server of "${model}".`,
          { retryAfterMs: refusal.retryAfterMs },
        )
      case 'deadline':
        return this.#expired()
      case 'cancelled':
        return shuttingDown()
      case 'no_server':
        this.#context.directory.lacking(model, this.path)
        if (this.#failure !== null) return this.#exhausted()
        return new RewardOpsError(
          'no_server',
          `No server of "${model}" is available: ${refusal.detail}.`,
          { retryAfterMs: refusal.retryAfterMs },
        )
    }
  }

  #expired(): RewardOpsError {
    const after = Math.round(performance.now() - this.#startedAtMs)
    const last = this.#failure === null ? '' : ` The last server ${this.#failure.detail}.`
    return new RewardOpsError('deadline', `No response started within ${after} ms.${last}`)
  }

  #exhausted(): RewardOpsError {
    const failure = this.#failure
    if (this.#failedStatus > 0) this.#res.setHeader('x-upstream-status', this.#failedStatus)
    const requestedMs = failure?.retryAfterMs ?? RETRY_AFTER_MS
    const last =
      failure === null ? 'stopped in the middle of its answer' : failure.detail.replace(/\.$/, '')
    return new RewardOpsError(
      'upstream_failed',
      `${this.#attempts === 1 ? 'The call' : `All ${this.#attempts} calls`} failed; the last server, "${this.#workerName}", ${last}.`,
      { retryAfterMs: Math.min(RETRY_AFTER_MAX_MS, Math.max(RETRY_AFTER_MS, requestedMs)) },
    )
  }

  #refuse(error: unknown): void {
    const { log } = this.#context
    if ((error as { reason?: string }).reason === undefined) {
      const { stack, message } = error as Error
      log.error({ requestId: this.#requestId, err: stack ?? message }, 'request failed')
    }
    if (!this.#res.headersSent) {
      for (const [name, value] of this.#ownHeaders()) this.#res.setHeader(name, value)
    }
    const param = (error as { reason?: string }).reason?.startsWith('model_') ? 'model' : null
    refuseProxied(this.#res, error, this.#requestId, param)
  }

  #breakOff(call: UpstreamCall): void {
    const res = this.#res
    // Without chunked encoding or a length, the client would take a normal end of the connection for the end of the
    // body, so the connection is reset.
    if (!res.chunkedEncoding && call.headers['content-length'] === undefined) {
      res.socket?.resetAndDestroy()
    }
    res.destroy()
  }

  #release(end: SlotEnd): void {
    const slot = this.#slot
    if (slot === null) return
    this.#slot = null
    slot.release(end)
  }

  /** Waits. Throws early if the exchange is stopped. */
  async pause(ms: number): Promise<void> {
    this.#checkHalt()
    let timer: NodeJS.Timeout | undefined
    await new Promise<void>((resolve) => {
      this.#wake = resolve
      timer = setTimeout(resolve, ms)
    })
    clearTimeout(timer)
    this.#wake = null
    this.#checkHalt()
  }
}

/**
 * The key by which the `deterministic` policy sends equal bodies to the same server: the length, and an FNV-1a hash of
 * every eighth byte at the end of the body, where the response is. Different bodies with the same key do no harm.
 */
function keyOf(body: Buffer): string {
  let key = 0x811c9dc5
  for (let at = Math.max(0, body.length - KEY_BYTES); at < body.length; at += 8) {
    key = Math.imul(key ^ (body[at] as number), 0x01000193)
  }
  return `${body.length}:${key >>> 0}`
}

function tenths(ms: number): string {
  return String(Math.round(ms * 10) / 10)
}

function headerText(name: string): string {
  return HEADER_TEXT.test(name) ? name : encodeURIComponent(name)
}

function notJson(body: Buffer): RewardOpsError | null {
  try {
    JSON.parse(body.toString('utf8'))
    return null
  } catch (error) {
    const why = body.length === 0 ? 'it is empty' : (error as Error).message
    return new RewardOpsError('malformed_json', `The body is not JSON: ${why}.`)
  }
}
