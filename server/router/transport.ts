import { Client, type Dispatcher } from 'undici'
import { guardedConnector } from '../engines/egress.ts'
import type { ResponseHeaders } from '../engines/engine.ts'

/** Idle connections are closed before uvicorn (vLLM, SGLang) closes them, which it does after 5 s. */
const KEEP_ALIVE_MS = 4_000
const CONNECT_TIMEOUT_MS = 2_000
/**
 * Maximum size of an answer in bytes, so that a faulty server cannot exhaust the memory. An answer with a score takes a
 * few hundred bytes.
 */
export const ANSWER_LIMIT_BYTES = 4 << 20
/**
 * Maximum number of connections that are opened to one server at the same time. Opening 5,000 at once would overrun the
 * server's accept queue (511 in Node, 2,048 in uvicorn), and each dropped SYN costs a second. With 128 at a time, all
 * are open in a fraction of a second.
 */
const MAX_CONNECTING = 128

// These errors are created once, because capturing a stack takes about 15 µs.
const ABANDONED = new Error('the call was abandoned')
const CLOSED = new Error('the connection was closed')
const SHARE_ENDED = new Error('the share of the limit ended before the request was sent')

/** Receives the end of a call, unless the call was abandoned. */
export interface CallListener<C> {
  onCallEnd(call: HttpCall<C>): void
}

/** One POST request and its complete answer, collected without a stream or a promise. */
export class HttpCall<C = unknown> implements Dispatcher.DispatchHandler {
  readonly context: C
  readonly #listener: CallListener<C>
  #controller: Dispatcher.DispatchController | null = null
  #lane: Lane | null = null
  #first: Buffer | null = null
  #more: Buffer[] | null = null
  #ended = false
  #abandoned = false
  #mayBegin: (() => boolean) | null = null

  /** HTTP status of the answer; 0 until it begins. */
  status = 0
  headers: ResponseHeaders = {}
  /** Set if no complete answer arrived. */
  error: NodeJS.ErrnoException | null = null
  answered = false
  reused = false
  /**
   * Whether the call was not sent, because this process's share of the limit expired while the connection was opened.
   */
  isUnsent = false

  constructor(context: C, listener: CallListener<C>) {
    this.context = context
    this.#listener = listener
  }

  bodyText(): string {
    if (this.#first === null) return ''
    if (this.#more === null) return this.#first.toString()
    return Buffer.concat([this.#first, ...this.#more]).toString()
  }

  /** Abandons the call. Its connection is closed, which stops the server's work, and the listener is not called. */
  abandon(): void {
    if (this.#ended || this.#abandoned) return
    this.#abandoned = true
    if (this.#controller !== null) this.#controller.abort(ABANDONED)
    // Before the request is written, undici offers no way to abort it, so the lane and its attempt to connect are
    // destroyed.
    else this.#lane?.destroy()
  }

  /** See `FlightCall.blame`. Always true, because the call belongs to one sample. */
  blame(): boolean {
    return true
  }

  /** Called only by the transport. */
  boundTo(lane: Lane, mayBegin: () => boolean): void {
    this.#lane = lane
    this.#mayBegin = mayBegin
    this.reused = lane.connected && lane.served > 0
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.isUnsent = this.#mayBegin?.() === false
    if (this.#abandoned) controller.abort(ABANDONED)
    else if (this.isUnsent) controller.abort(SHARE_ENDED)
    else this.#controller = controller
  }

  onResponseStarted(): void {
    this.answered = true
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: ResponseHeaders,
  ): void {
    this.status = status
    this.headers = headers
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#first === null) this.#first = chunk
    else if (this.#more === null) this.#more = [chunk]
    else this.#more.push(chunk)
  }

  onResponseEnd(): void {
    if (this.#lane !== null) this.#lane.served++
    this.#end()
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.error = error
    this.#end()
  }

  #end(): void {
    if (this.#ended) return
    this.#ended = true
    this.#lane?.release(this.error === null)
    this.#controller = null
    if (!this.#abandoned) this.#listener.onCallEnd(this)
  }
}

/** One connection, used by one call at a time. */
interface Lane {
  readonly connected: boolean
  /** Calls answered on the current connection. */
  served: number
  release(whole: boolean): void
  destroy(): void
}

/**
 * The connections to one server: one undici `Client` per call in flight. The most recently used connection is reused
 * first, so that surplus ones become idle and close. undici's `Pool` is slower at 64 calls in flight: a bounded pool
 * costs 3 to 4 µs more CPU time per call. An unbounded pool opens 128 connections for 64 calls. This class also knows
 * which connection a call used, which is needed to detect a connection race.
 */
export class Transport {
  readonly #origin: string
  readonly #onRoom: () => void
  readonly #answerLimitBytes: number
  /** Shared by all clients, because otherwise each creates a TLS session cache and a finalization registry. */
  readonly #connector = guardedConnector(CONNECT_TIMEOUT_MS)
  /** Idle lanes, all connected. */
  readonly #idle: PooledLane[] = []
  readonly #lanes = new Set<PooledLane>()
  #connecting = 0
  #closing = false

  /**
   * `onRoom` is called when {@link hasLane} becomes true again. `answerLimitBytes` is −1 if answers are streamed to the
   * client and not kept.
   */
  constructor(origin: string, onRoom: () => void, answerLimitBytes = ANSWER_LIMIT_BYTES) {
    this.#origin = origin
    this.#onRoom = onRoom
    this.#answerLimitBytes = answerLimitBytes
  }

  get hasLane(): boolean {
    return this.#idle.length > 0 || this.#connecting < MAX_CONNECTING
  }

  get connections(): number {
    return this.#lanes.size
  }

  /**
   * Sends a POST request. The call's listener is called when the call ends, possibly before this method returns.
   * `mayBegin` is called when the connection is open, which may be much later if this process was paused. The request
   * is written only if `mayBegin` returns true.
   */
  post<C>(
    call: HttpCall<C>,
    path: string,
    headers: string[],
    body: string | Buffer,
    mayBegin: () => boolean,
  ): void {
    const lane = this.#idle.pop() ?? this.#open()
    call.boundTo(lane, mayBegin)
    lane.begin()
    lane.client.dispatch({ path, method: 'POST', headers, body }, call)
  }

  /** Closes idle connections now, and each other connection when its call ends. */
  retire(): void {
    this.#closing = true
    this.dropIdle()
  }

  /** Closes idle connections, so that the next calls open new ones. */
  dropIdle(): void {
    for (const lane of this.#idle.splice(0)) lane.destroy()
  }

  async close(): Promise<void> {
    this.#closing = true
    this.#idle.length = 0
    await Promise.all([...this.#lanes].map((lane) => lane.destroy()))
  }

  #open(): PooledLane {
    const client = new Client(this.#origin, {
      pipelining: 1,
      keepAliveTimeout: KEEP_ALIVE_MS,
      keepAliveMaxTimeout: KEEP_ALIVE_MS,
      // Both time limits are off, because the router limits the time of each sample.
      headersTimeout: 0,
      bodyTimeout: 0,
      maxResponseSize: this.#answerLimitBytes,
      allowH2: false,
      connect: this.#connector,
    })
    const lane = new PooledLane(client, {
      onConnecting: (change) => {
        const full = !this.hasLane
        this.#connecting += change
        if (full && change < 0) this.#onRoom()
      },
      onIdle: () => {
        if (this.#closing) return false
        this.#idle.push(lane)
        return true
      },
      onIdleClosed: () => {
        const index = this.#idle.indexOf(lane)
        if (index >= 0) this.#idle.splice(index, 1)
      },
      onDestroyed: () => this.#lanes.delete(lane),
    })
    this.#lanes.add(lane)
    return lane
  }
}

interface LaneOwner {
  /** `change`: +1 when the lane starts to connect, −1 when it has connected or failed. */
  onConnecting(change: 1 | -1): void
  /** Offers the lane for further calls. Returns false if it is not needed. */
  onIdle(): boolean
  onIdleClosed(): void
  onDestroyed(): void
}

class PooledLane implements Lane {
  readonly client: Client
  readonly #owner: LaneOwner
  connected = false
  served = 0
  #connecting = false
  #idle = false
  #destroyed: Promise<void> | null = null

  constructor(client: Client, owner: LaneOwner) {
    this.client = client
    this.#owner = owner
    client.on('connect', () => {
      this.connected = true
      this.served = 0
      this.#connectingEnded()
    })
    client.on('disconnect', () => {
      this.connected = false
      if (this.#idle) {
        this.#owner.onIdleClosed()
        this.destroy()
      }
    })
    client.on('connectionError', () => this.#connectingEnded())
  }

  begin(): void {
    this.#idle = false
    if (!this.connected) {
      this.#connecting = true
      this.#owner.onConnecting(1)
    }
  }

  /** Frees the lane after a call. After a failed call, the lane is destroyed, because its connection may be broken. */
  release(whole: boolean): void {
    if (whole && this.#destroyed === null && this.#owner.onIdle()) this.#idle = true
    else this.destroy()
  }

  destroy(): Promise<void> {
    if (this.#destroyed === null) {
      this.#idle = false
      this.#destroyed = this.client.destroy(CLOSED).catch(() => {})
      this.#connectingEnded()
      this.#owner.onDestroyed()
    }
    return this.#destroyed
  }

  #connectingEnded(): void {
    if (!this.#connecting) return
    this.#connecting = false
    this.#owner.onConnecting(-1)
  }
}
