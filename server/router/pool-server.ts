import type { Engine, EngineTarget, FailureClass } from '../engines/engine.ts'
import { engineOf } from '../engines/registry.ts'
import { LatencyHistogram } from './latency-histogram.ts'
import type { PolicyServer } from './policy.ts'
import type {
  HealthState,
  RouterOptions,
  RouterServer,
  RouterServerState,
  RouterServerStats,
} from './router-types.ts'
import { ServerHealth } from './server-health.ts'
import { Transport } from './transport.ts'

/** Longest pause a server may ask for by Retry-After. */
const RETRY_AFTER_MAX_MS = 30_000
/** Busy answers in a row, without a score between, after which a server pauses that gave no Retry-After. */
const REFUSALS_TO_PAUSE = 3
/** Its pause: 100 ms, doubled while the answers go on, at most 5 s; half of it is random. */
const BUSY_STEP_MS = 100
const BUSY_MAX_MS = 5_000

/** What a server tells its router. */
export interface PoolServerListener {
  /** It may take a call again that it could not take before. */
  onRoom(server: PoolServer): void
  onHealth(server: PoolServer, from: HealthState, to: HealthState, cause: string): void
}

/** One registered server inside one process: its connections, its counters, and whether it may be sent work. */
export class PoolServer implements PolicyServer {
  readonly id: number
  readonly health: ServerHealth
  readonly latency = new LatencyHistogram()
  readonly failures: Record<FailureClass, number> = {
    client: 0,
    busy: 0,
    fault: 0,
    stall: 0,
    corrupt: 0,
    conn_race: 0,
  }
  name = ''
  model = ''
  weight = 1
  state: RouterServerState | 'removed' = 'registering'
  engine: Engine = engineOf('vllm')
  target: EngineTarget = { model: null, version: null }
  headers: string[] = []
  transport: Transport
  /** The key, to keep it out of what is told of a failure. */
  apiKey: string | null = null
  requests = 0
  retries = 0
  errors = 0

  #inFlight = 0
  #slots = 0
  #maxInFlight = Number.POSITIVE_INFINITY
  #url = ''
  #busyUntilMs = 0
  #pausedAtMs = 0
  /** Pauses since the last score. */
  #pauses = 0
  /** Busy answers since the last score. */
  #refusals = 0
  #wakeTimer: NodeJS.Timeout | null = null
  #outCause = ''
  readonly #listener: PoolServerListener

  constructor(config: RouterServer, listener: PoolServerListener, options: RouterOptions = {}) {
    this.id = config.id
    this.#listener = listener
    this.health = new ServerHealth((from, to, cause) => {
      if (to === 'out') {
        this.#outCause = cause
        this.#wakeLater()
      }
      listener.onHealth(this, from, to, cause)
    }, options.outStepMs)
    this.transport = this.#connectTo(config.url)
    this.update(config)
  }

  /** Takes over what the registry says now. */
  update(config: RouterServer): void {
    this.name = config.name
    this.model = config.model
    this.weight = config.weight > 0 ? config.weight : 1
    this.#maxInFlight = config.maxInFlight ?? Number.POSITIVE_INFINITY
    this.engine = engineOf(config.engine)
    this.apiKey = config.apiKey
    this.headers = ['content-type', 'application/json', 'accept', 'application/json']
    if (config.apiKey !== null) this.headers.push('authorization', `Bearer ${config.apiKey}`)
    if (this.#url !== config.url) {
      this.transport.retire()
      this.transport = this.#connectTo(config.url)
      this.health.reset()
    } else if (config.state === 'ready' && this.state !== 'ready') {
      this.health.reset()
    }
    const basePath = new URL(config.url).pathname.replace(/\/+$/, '')
    this.target = { model: config.model, version: config.version, basePath }
    this.state = config.state
  }

  /** Calls in flight from this process. */
  get inFlight(): number {
    return this.#inFlight
  }

  get slots(): number {
    return this.#slots
  }

  set slots(slots: number) {
    this.#slots = Math.max(0, Math.floor(slots))
  }

  /** More slots would be used, were they given: it has not as many as it may have. */
  get wantsSlots(): boolean {
    return this.state === 'ready' && this.#slots < this.#maxInFlight
  }

  /** True when a call may go out now. */
  hasRoom(nowMs: number): boolean {
    return (
      this.state === 'ready' &&
      this.#inFlight < this.#slots &&
      this.#inFlight < this.#maxInFlight &&
      nowMs >= this.#busyUntilMs &&
      this.health.admits(nowMs) &&
      this.transport.hasLane
    )
  }

  /** True when it takes work in general, be it full or pausing at the moment: worth waiting for. */
  isUsable(nowMs: number): boolean {
    return this.state === 'ready' && this.#slots > 0 && this.health.state(nowMs) === 'ok'
  }

  /** True when it would take work if this process had a slot. */
  isHealthy(nowMs: number): boolean {
    return this.state === 'ready' && this.health.state(nowMs) === 'ok'
  }

  /** Slots this process could use, with so many rows waiting for the model. */
  demand(waiting: number, nowMs: number): number {
    if (this.state !== 'ready') return this.#inFlight
    // One slot is enough to find out whether a server that was out is back.
    const useful = this.health.state(nowMs) === 'ok' ? waiting : Math.min(1, waiting)
    return Math.min(this.#inFlight + useful, this.#maxInFlight)
  }

  /** Takes a slot; gives the number for the health record. */
  begin(isRetry: boolean): number {
    this.#inFlight++
    this.requests++
    if (isRetry) this.retries++
    return this.health.begin()
  }

  /** Gives a slot back. */
  end(): void {
    this.#inFlight--
  }

  /**
   * Notes a busy answer. Its Retry-After is kept for every row. Without one the rows refused back off on their own, and
   * the server pauses only when it refuses all: sent on at full speed, each waiting row would use up its attempts.
   */
  refused(retryAfterMs: number | undefined, startedAtMs: number, nowMs: number): void {
    this.#refusals++
    let pauseMs = 0
    if (retryAfterMs !== undefined) {
      pauseMs = Math.min(RETRY_AFTER_MAX_MS, retryAfterMs)
    } else if (this.#refusals >= REFUSALS_TO_PAUSE && startedAtMs >= this.#pausedAtMs) {
      // Of many calls in flight that were all refused, only one begun since the last pause makes the next one longer.
      pauseMs = Math.min(BUSY_MAX_MS, BUSY_STEP_MS * 2 ** this.#pauses) * (0.5 + Math.random() / 2)
      this.#pausedAtMs = nowMs
      this.#pauses++
    }
    if (pauseMs === 0) return
    this.#busyUntilMs = Math.max(this.#busyUntilMs, nowMs + pauseMs)
    this.#wakeLater()
  }

  /** Until when it pauses, on the clock of `performance.now()`. */
  get busyUntilMs(): number {
    return this.#busyUntilMs
  }

  /** A call gave a score, in so many ms. */
  succeeded(period: number, serviceMs: number): void {
    this.#refusals = 0
    this.#pauses = 0
    this.latency.add(serviceMs)
    this.health.succeeded(period)
  }

  /** The server left the registry; its calls in flight finish. */
  remove(): void {
    this.state = 'removed'
    if (this.#wakeTimer !== null) clearTimeout(this.#wakeTimer)
    this.#wakeTimer = null
    this.transport.retire()
  }

  /** Closes its connections at once. */
  close(): Promise<void> {
    return this.transport.close()
  }

  /** Why it takes no row now, in words. */
  describe(nowMs: number): string {
    const { name, state } = this
    if (state !== 'ready') return `${name} is ${state}`
    if (this.health.state(nowMs) !== 'ok') return `${name} is out: ${this.#outCause}`
    if (nowMs < this.#busyUntilMs) return `${name} is busy`
    return this.#slots === 0 ? `${name} has no slots here` : `${name} is full`
  }

  /** A failure's text without the key, should the server have echoed it. */
  withoutKey(detail: string): string {
    return this.apiKey !== null && this.apiKey !== ''
      ? detail.replaceAll(this.apiKey, '[key]')
      : detail
  }

  /** Counters and health at this moment. */
  stats(waiting: number, nowMs: number): RouterServerStats {
    const health = this.health.state(nowMs)
    return {
      serverId: this.id,
      name: this.name,
      model: this.model,
      state: this.state,
      health,
      outUntilMs: health === 'out' ? Math.round(Date.now() + this.health.outUntilMs - nowMs) : null,
      consecutiveFaults: this.health.consecutiveFaults,
      inFlight: this.#inFlight,
      slots: this.#slots,
      waiting,
      requests: this.requests,
      errors: this.errors,
      retries: this.retries,
      failures: { ...this.failures },
      latency: this.latency.toJSON(),
    }
  }

  #connectTo(url: string): Transport {
    this.#url = url
    return new Transport(new URL(url).origin, () => this.#listener.onRoom(this))
  }

  /** Tells the listener when the time out, or the pause, is over. */
  #wakeLater(): void {
    const nowMs = performance.now()
    const atMs = Math.max(this.#busyUntilMs, this.health.outUntilMs)
    if (this.#wakeTimer !== null) clearTimeout(this.#wakeTimer)
    this.#wakeTimer = null
    if (atMs <= nowMs) return
    // Timers may fire up to 1 ms early on this clock.
    this.#wakeTimer = setTimeout(() => this.#listener.onRoom(this), Math.ceil(atMs - nowMs) + 1)
    this.#wakeTimer.unref()
  }
}
