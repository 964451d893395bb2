import { buildConnector, Client, type Dispatcher } from 'undici'
import type { ResponseHeaders } from '../engines/engine.ts'
import { safeLookup } from '../engines/link-local.ts'

/** Below the 5 s after which uvicorn, and so vLLM and SGLang, closes an idle connection. */
const KEEP_ALIVE_MS = 4_000
const CONNECT_TIMEOUT_MS = 2_000
/** Largest answer taken, in bytes: a bad server must not exhaust our memory. A score is a few hundred. */
export const ANSWER_LIMIT_BYTES = 4 << 20
/**
 * Connections being made at once to one server. 5,000 calls starting together would overrun its accept queue (511 in
 * Node, 2,048 in uvicorn), and a dropped SYN costs a second; made 128 at a time they are up in a fraction of that.
 */
const MAX_CONNECTING = 128

// Made once: an error made a call captures a stack each time, some 15 µs.
const ABANDONED = new Error('the call was abandoned')
const CLOSED = new Error('the connection was closed')

/** Who hears of a call's end. Not called for an abandoned one. */
export interface CallListener<C> {
  onCallEnd(call: HttpCall<C>): void
}

/** One POST and its whole answer, collected without a stream or a promise. */
export class HttpCall<C = unknown> implements Dispatcher.DispatchHandler {
  readonly context: C
  readonly #listener: CallListener<C>
  #controller: Dispatcher.DispatchController | null = null
  #lane: Lane | null = null
  #first: Buffer | null = null
  #more: Buffer[] | null = null
  #ended = false
  #abandoned = false

  /** HTTP status; 0 until an answer began. */
  status = 0
  headers: ResponseHeaders = {}
  /** Set when no complete answer came. */
  error: NodeJS.ErrnoException | null = null
  /** A byte of the answer came. */
  answered = false
  /** It went out on a connection that had served another call before. */
  reused = false

  constructor(context: C, listener: CallListener<C>) {
    this.context = context
    this.#listener = listener
  }

  /** The answer's body. */
  bodyText(): string {
    if (this.#first === null) return ''
    if (this.#more === null) return this.#first.toString()
    return Buffer.concat([this.#first, ...this.#more]).toString()
  }

  /** Gives the call up: the connection is closed, which tells the server to stop; the listener hears nothing more. */
  abandon(): void {
    if (this.#ended || this.#abandoned) return
    this.#abandoned = true
    if (this.#controller !== null) this.#controller.abort(ABANDONED)
    // Not yet written: undici gives no handle before that, so the lane goes, and its attempt to connect with it.
    else this.#lane?.destroy()
  }

  /** It is one sample's own: what it did counts against its server. */
  blame(): boolean {
    return true
  }

  /** For the transport only. */
  boundTo(lane: Lane): void {
    this.#lane = lane
    this.reused = lane.connected && lane.served > 0
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#abandoned) controller.abort(ABANDONED)
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
  /** Calls answered on the present connection. */
  served: number
  release(whole: boolean): void
  destroy(): void
}

/**
 * The connections to one server: one undici `Client` a call in flight, the last used first so that idle ones close.
 * Measured against undici's `Pool` at 64 in flight: a bounded one costs 3 to 4 µs CPU more a call (queueing, scanning its
 * clients), an unbounded one as much as this but opens 128 connections for 64 calls, since it counts a client busy for
 * a turn of the loop after each answer. A `Client` takes the next call meanwhile. It also tells which connection a call
 * went out on, which a connection race cannot be told without.
 */
export class Transport {
  readonly #origin: string
  readonly #onRoom: () => void
  readonly #answerLimitBytes: number
  /** One for all: a client that builds its own makes a TLS session cache and a finalization registry each time. */
  readonly #connector = buildConnector({
    timeout: CONNECT_TIMEOUT_MS,
    allowH2: false,
    lookup: safeLookup,
  })
  /** Idle lanes; all are connected. */
  readonly #idle: PooledLane[] = []
  readonly #lanes = new Set<PooledLane>()
  #connecting = 0
  #closing = false

  /**
   * `onRoom`: called when a lane may be had again after {@link hasLane} said no. `answerLimitBytes`: -1 where answers are
   * passed on and not kept.
   */
  constructor(origin: string, onRoom: () => void, answerLimitBytes = ANSWER_LIMIT_BYTES) {
    this.#origin = origin
    this.#onRoom = onRoom
    this.#answerLimitBytes = answerLimitBytes
  }

  /** True when a call can go out without another connection beyond what is being made at once. */
  get hasLane(): boolean {
    return this.#idle.length > 0 || this.#connecting < MAX_CONNECTING
  }

  /** Open and opening connections. */
  get connections(): number {
    return this.#lanes.size
  }

  /** Sends a POST; the call's listener hears its end, possibly before this returns. */
  post<C>(call: HttpCall<C>, path: string, headers: string[], body: string | Buffer): void {
    const lane = this.#idle.pop() ?? this.#open()
    call.boundTo(lane)
    lane.begin()
    lane.client.dispatch({ path, method: 'POST', headers, body }, call)
  }

  /** Closes idle connections now and the others as their calls end. */
  retire(): void {
    this.#closing = true
    this.dropIdle()
  }

  /** Closes idle connections: the next call opens its own. */
  dropIdle(): void {
    for (const lane of this.#idle.splice(0)) lane.destroy()
  }

  /** Closes every connection; resolves when all are closed. */
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
      // Time is kept by the router, for the whole sample.
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
  /** +1 when it begins to connect, −1 when that ended. */
  onConnecting(change: 1 | -1): void
  /** Offers the lane for the next call; false: not wanted. */
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

  /** A lane whose call failed is not used again: its connection is closed or in an unknown state. */
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
