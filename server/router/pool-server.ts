import type { ServerState } from '../contract/servers.ts'
import type {
  Engine,
  EngineLoad,
  EngineRequest,
  EngineTarget,
  FailureClass,
  MicroBatchProtocol,
} from '../engines/engine.ts'
import { engineOf } from '../engines/registry.ts'
import { maskSecrets } from '../mask-secrets.ts'
import { BusyPause } from './busy-pause.ts'
import { storedChatTemplate } from './chat-template.ts'
import { ServerLimit } from './concurrency-limit.ts'
import type { Flight } from './flight.ts'
import { LatencyHistogram } from './latency-histogram.ts'
import { Permits } from './permits.ts'
import type { PolicyServer } from './policies/policy.ts'
import { PrefixMemory } from './prefix-memory.ts'
import type { RouterOptions, RouterServer, RouterServerStats } from './router-types.ts'
import { SampleQueue } from './sample-queue.ts'
import { ServerCanary } from './server-canary.ts'
import { type OnHealthChange, ServerHealth } from './server-health.ts'
import { ServerRating } from './server-rating.ts'
import { type HttpCall, Transport } from './transport.ts'

/** Load reports older than this are ignored. */
const LOAD_STALE_MS = 10_000
/**
 * A server is ejected if at least this share of its calls in the last 30 s failed, out of at least {@link
 * MIN_FAULT_CALLS}.
 */
const FAULT_SHARE = 0.5
const MIN_FAULT_CALLS = 10
const CORRUPT_TO_EJECT = 3
const SLOW_MS = 250
/** After a refused micro-batch, or after a slow or failed call, requests have one sample each for this time, ms. */
const APART_MS = { refused: 60_000, slow: 5_000 }

export interface PoolServerListener {
  onRoom(server: PoolServer): void
  onHealth(server: PoolServer, ...change: Parameters<OnHealthChange>): void
}

/** One registered server as seen by one process: its connections, its counters, and whether it may be sent samples. */
export class PoolServer implements PolicyServer {
  readonly id: number
  readonly health: ServerHealth
  readonly latency = new LatencyHistogram()
  readonly rating = new ServerRating()
  readonly permits = new Permits()
  readonly prefixes = new PrefixMemory()
  readonly limit = new ServerLimit()
  readonly pause = new BusyPause()
  readonly canary = new ServerCanary()
  readonly failures: Record<FailureClass, number> = {
    client: 0,
    busy: 0,
    fault: 0,
    stall: 0,
    corrupt: 0,
    conn_race: 0,
  }
  /** Groups whose first sample this server received and that may have waiting samples, oldest first. */
  readonly groups: string[] = []
  /** Samples bound to the server regardless of load, by the `deterministic` policy. */
  readonly pinned = new SampleQueue()
  name = ''
  model = ''
  kind: 'discriminative' | 'generative' = 'discriminative'
  weight = 1
  state: ServerState | 'removed' = 'registering'
  engine: Engine = engineOf('vllm')
  target: EngineTarget = { model: null, version: null }
  /** The protocol for micro-batches, or null if the engine or the target supports none. */
  microBatch: MicroBatchProtocol | null = null
  templateText: string | null = null
  headers: string[] = []
  transport: Transport
  /** The API key, which is removed from failure details. */
  apiKey: string | null = null
  requests = 0
  retries = 0
  errors = 0
  hedges = 0
  canaries = 0
  tokens = 0
  tokensPerSecond: number | null = null
  peakMsPerKtok: number | null = null
  externalQueue = 0
  /** Until this time, on the clock of `performance.now()`, the server receives one sample per request. */
  apartUntilMs = 0
  /** Size of the longest sample that the server has scored, in estimated tokens. */
  longestTokens = 0
  /** The oldest call in flight; the others are linked from it in order of start. */
  oldest: Flight | null = null
  #newest: Flight | null = null
  /** Time of the server's last answer, or of the first call sent to it after it was idle. */
  progressAtMs = 0

  #inFlight = 0
  #workTokens = 0
  #slots = 0
  #slotsUntilMs = Number.POSITIVE_INFINITY
  #processes = 1
  #url = ''
  #wakeTimer: NodeJS.Timeout | null = null
  #outCause = ''
  #othersWaiting = 0
  #loadAtMs = 0
  readonly #listener: PoolServerListener
  readonly #slowMs: number

  constructor(config: RouterServer, listener: PoolServerListener, options: RouterOptions = {}) {
    this.id = config.id
    this.#listener = listener
    this.#slowMs = options.microBatching?.slowMs ?? SLOW_MS
    this.processes = options.processes ?? 1
    this.health = new ServerHealth((from, to, cause, evidence) => {
      if (to === 'ejected' || to === 'suspect') {
        this.#outCause = cause
        this.#wakeLater()
      }
      listener.onHealth(this, from, to, cause, evidence)
    }, options.ejectionStepMs)
    this.transport = this.#connectTo(config.url)
    this.update(config)
  }

  update(config: RouterServer): void {
    this.name = config.name
    this.model = config.model
    this.kind = config.kind ?? 'discriminative'
    this.weight = config.weight > 0 ? config.weight : 1
    this.limit.update(config, this.#processes)
    this.permits.limit(config.limited?.requests === true, config.limited?.tokens === true)
    this.engine = engineOf(config.engine)
    this.apiKey = config.apiKey
    this.headers = ['content-type', 'application/json', 'accept', 'application/json']
    if (config.apiKey !== null) this.headers.push('authorization', `Bearer ${config.apiKey}`)
    const nowMs = performance.now()
    if (this.#url !== config.url) {
      this.transport.retire()
      this.transport = this.#connectTo(config.url)
      this.health.reset(nowMs)
      this.rating.reset()
      this.canary.reset()
      this.apartUntilMs = 0
      this.longestTokens = 0
    } else if (config.state === 'ready' && this.state !== 'ready') {
      this.health.reset(nowMs)
    }
    const basePath = new URL(config.url).pathname.replace(/\/+$/, '')
    const { version, route = null, label = null, plainText = false } = config
    this.templateText = config.chatTemplate ?? null
    const chatTemplate = storedChatTemplate(this.templateText)
    const { model } = config
    this.target = { model, version, basePath, route, label, plainText, chatTemplate }
    this.microBatch =
      this.engine.microBatch?.takes(this.target) === true ? this.engine.microBatch : null
    this.state = config.state
  }

  /** The number of processes that share the server. Each starts with its share of an adaptive limit. */
  set processes(processes: number) {
    this.#processes = Math.max(1, processes)
    this.canary.processes = this.#processes
  }

  /** URL including the base path. */
  get url(): string {
    return this.#url
  }

  /** Samples in flight from this process; a hedge counts as a further sample. */
  get inFlight(): number {
    return this.#inFlight
  }

  get workTokens(): number {
    return this.#workTokens
  }

  get slots(): number {
    return this.#slots
  }

  refresh(nowMs: number): void {
    this.tokensPerSecond = this.rating.tokensPerSecond(nowMs)
    this.peakMsPerKtok = this.rating.peakMsPerKtok(nowMs)
    this.externalQueue = nowMs - this.#loadAtMs < LOAD_STALE_MS ? this.#othersWaiting : 0
  }

  /** Sets the leased slots, and their expiry on the clock of `performance.now()`. */
  setSlots(slots: number, untilMs: number): void {
    this.#slots = Math.max(0, Math.floor(slots))
    this.#slotsUntilMs = untilMs
  }

  /** Whether this process's share of the limit is still valid. */
  readonly hasShare = (nowMs = performance.now()): boolean => nowMs < this.#slotsUntilMs

  setLoad(load: EngineLoad | null): void {
    if (load === null) {
      this.#loadAtMs = 0
      return
    }
    const nowMs = performance.now()
    this.#loadAtMs = nowMs
    this.#othersWaiting = Math.max(0, load.running + load.waiting - this.#inFlight)
    if (load.waiting > 0) this.limit.search.noGrowth(nowMs)
  }

  get wantsSlots(): boolean {
    return this.state === 'ready' && this.#slots < this.limit.most
  }

  wantsPermits(nowMs: number): boolean {
    return this.state === 'ready' && !this.permits.allow(nowMs)
  }

  /** Whether the server is a custom HTTP scorer, which may accept only texts of the task it was written for. */
  get isCustomScorer(): boolean {
    return this.engine.name === 'http'
  }

  /**
   * Whether a sample may be sent to the server now. If `panic` is true, this includes a server ejected for slowness.
   */
  hasRoom(nowMs: number, panic = false): boolean {
    return !this.canary.isBlocking && this.hasRoomForCanary(nowMs, panic)
  }

  hasRoomForCanary(nowMs: number, panic = false): boolean {
    if (this.state !== 'ready' || this.#inFlight >= this.#slots) return false
    if (this.#inFlight >= this.#maxNow(nowMs) || !this.hasShare(nowMs)) return false
    if (nowMs < this.pause.untilMs || !this.permits.allow(nowMs)) return false
    if (!this.health.admits(nowMs) && !(panic && this.health.isSoftEjected)) return false
    return this.transport.hasLane
  }

  /** Whether the server is healthy and this process has slots for it, free or not. */
  isUsable(nowMs: number): boolean {
    return this.#slots > 0 && this.isHealthy(nowMs)
  }

  isHealthy(nowMs: number): boolean {
    if (this.state !== 'ready') return false
    const state = this.health.state(nowMs)
    return state === 'ok' || state === 'slow_start'
  }

  /** The number of slots that this process could use while this many samples wait for the model. */
  demand(waiting: number, nowMs: number): number {
    if (this.state !== 'ready') return this.#inFlight
    const { canary } = this
    // One slot is enough for the probes after an ejection, or for a canary.
    const useful =
      this.isHealthy(nowMs) && !canary.isBlocking
        ? Math.max(waiting, Math.min(1, canary.held.size))
        : Math.min(1, waiting + canary.held.size)
    return Math.min(this.#inFlight + useful, Math.max(this.#inFlight, this.#maxNow(nowMs)))
  }

  begin(flight: Flight, isRetry: boolean): void {
    const nowMs = flight.startedAtMs
    if (this.#inFlight === 0) this.progressAtMs = nowMs
    this.#inFlight++
    flight.hasKnownGroup = this.prefixes.takes(flight.sample)
    flight.tokens = this.prefixes.costOf(flight.sample, flight.hasKnownGroup)
    this.#workTokens += flight.tokens
    this.requests++
    if (isRetry) this.retries++
    if (flight.hedge !== null) this.hedges++
    flight.older = this.#newest
    if (this.#newest === null) this.oldest = flight
    else this.#newest.newer = flight
    this.#newest = flight
    this.permits.use(flight.sample.tokens, flight.sample.requestsTo(this))
    this.limit.search.dispatched(nowMs, this.#inFlight)
    // The server counts as full when this process uses its share of the limit. If a few leased slots counted as full, a
    // server with few slots would be measured as slow, receive fewer samples and then get even fewer slots.
    const part = Math.ceil(this.limit.most / this.#processes)
    this.rating.began(this.#inFlight, Math.min(this.limit.most, Math.max(this.#slots, part)))
    flight.period = this.health.begin()
  }

  end(flight: Flight): void {
    this.#inFlight--
    this.#workTokens = this.#inFlight === 0 ? 0 : this.#workTokens - flight.tokens
    if (flight.older === null) this.oldest = flight.newer
    else flight.older.newer = flight.newer
    if (flight.newer === null) this.#newest = flight.older
    else flight.newer.older = flight.older
    flight.older = null
    flight.newer = null
  }

  /**
   * Stops micro-batching for the server for the time in {@link APART_MS}, because the samples of one request would
   * delay or fail each other.
   */
  apart(why: keyof typeof APART_MS, nowMs: number): void {
    this.apartUntilMs = Math.max(this.apartUntilMs, nowMs + APART_MS[why])
  }

  /** Records a score after `serviceMs`. `tokens` is the server's count, or null if the server does not count them. */
  succeeded(flight: Flight, tokens: number | null, serviceMs: number, nowMs: number): void {
    const { sample } = flight
    const counted = tokens ?? sample.tokens
    // The tokens that the server processed, not counting a prompt in its prefix cache.
    const worked = counted * (flight.tokens / sample.tokens)
    this.progressAtMs = nowMs
    if (sample.tokens > this.longestTokens) this.longestTokens = sample.tokens
    if (serviceMs > this.#slowMs) this.apart('slow', nowMs)
    this.pause.scored()
    this.canary.scored()
    this.tokens += counted
    this.latency.add(serviceMs)
    this.prefixes.took(sample, flight.hasKnownGroup, serviceMs)
    this.rating.completed(nowMs, worked, serviceMs)
    this.limit.search.completed(nowMs, worked, true, serviceMs)
    this.permits.correct(sample.tokens, counted)
    this.health.succeeded(flight.period, nowMs)
  }

  /** Records a failure that is the server's fault. `weight` is ½ for a call that timed out or was abandoned. */
  faulted(flight: Flight, weight: number, serviceMs: number, nowMs: number, cause: string): void {
    if (weight === 1) this.progressAtMs = nowMs
    this.apart('slow', nowMs)
    this.rating.fault(nowMs, serviceMs, flight.tokens)
    this.limit.search.completed(nowMs, 0, false, serviceMs)
    this.health.faulted(flight.period, weight, nowMs, cause)
    const { share, calls } = this.rating.faultShare(nowMs)
    if (calls >= MIN_FAULT_CALLS && share >= FAULT_SHARE && this.health.state(nowMs) === 'ok') {
      const percent = Math.round(share * 100)
      this.health.eject(
        nowMs,
        `${percent} % of its requests failed in 30 s; last: ${cause}`,
        false,
        {
          faultPercent: percent,
          calls,
        },
      )
    }
  }

  /** Records an invalid response to a sample that another server scored. */
  wasCorrupt(period: number, nowMs: number): void {
    this.health.faulted(
      period,
      1,
      nowMs,
      'an invalid response where another server returned a score',
    )
    if (this.rating.corrupt(nowMs) >= CORRUPT_TO_EJECT) {
      this.health.eject(nowMs, 'invalid responses where other servers returned scores', false, {
        corruptIn60s: CORRUPT_TO_EJECT,
      })
    }
  }

  refused(retryAfterMs: number | undefined, startedAtMs: number, nowMs: number): void {
    this.progressAtMs = nowMs
    this.limit.search.busy(nowMs)
    if (this.pause.refused(retryAfterMs, startedAtMs, nowMs)) this.#wakeLater()
  }

  /** Calls in flight finish. */
  remove(): void {
    this.state = 'removed'
    if (this.#wakeTimer !== null) clearTimeout(this.#wakeTimer)
    this.#wakeTimer = null
    this.transport.retire()
  }

  post<C>(call: HttpCall<C>, { path, headers, body }: EngineRequest): void {
    const all =
      headers === undefined ? this.headers : [...this.headers, ...Object.entries(headers).flat()]
    this.transport.post(call, path, all, body, this.hasShare)
  }

  /** Closes idle connections after one of them was found closed, because the others are probably closed too. */
  dropIdleConnections(): void {
    this.transport.dropIdle()
  }

  close(): Promise<void> {
    return this.transport.close()
  }

  describe(nowMs: number): string {
    const { name, state } = this
    if (state !== 'ready') return `${name} is ${state}`
    if (!this.isHealthy(nowMs)) {
      const health = this.health.state(nowMs)
      return `${name} is ${health === 'half_open' ? 'half-open' : health}: ${this.#outCause}`
    }
    if (this.canary.isBlocking) return `${name} is being probed`
    if (nowMs < this.pause.untilMs) return `${name} is busy`
    if (!this.permits.allow(nowMs)) return `${name} is at its rate limit`
    return this.#slots === 0 ? `${name} has no slots in this process` : `${name} is full`
  }

  /** Removes the API key from a failure's detail, in case the server echoed it. */
  withoutKey(detail: string): string {
    return maskSecrets(detail, [this.apiKey])
  }

  stats(waiting: number, nowMs: number): RouterServerStats {
    const health = this.health.state(nowMs)
    return {
      serverId: this.id,
      name: this.name,
      model: this.model,
      state: this.state,
      health,
      ejectedUntilMs:
        health === 'ejected' ? Math.round(Date.now() + this.health.ejectedUntilMs - nowMs) : null,
      consecutiveFaults: this.health.consecutiveFaults,
      inFlight: this.#inFlight,
      slots: this.#slots,
      limit: this.limit.most,
      capacity: this.limit.part(this.#slots, this.#processes),
      workTokens: Math.round(this.#workTokens),
      tokensPerSecond: this.rating.tokensPerSecond(nowMs),
      waiting,
      requests: this.requests,
      errors: this.errors,
      retries: this.retries,
      hedges: this.hedges,
      canaries: this.canaries,
      tokens: Math.round(this.tokens),
      ejections: this.health.ejections,
      failures: { ...this.failures },
      latency: this.latency.toJSON(),
    }
  }

  #maxNow(nowMs: number): number {
    const share = this.health.share(nowMs)
    return share === 1 ? this.limit.most : Math.max(1, Math.ceil(share * this.limit.most))
  }

  #connectTo(url: string): Transport {
    this.#url = url
    return new Transport(new URL(url).origin, () => this.#listener.onRoom(this))
  }

  #wakeLater(): void {
    const nowMs = performance.now()
    const atMs = Math.max(this.pause.untilMs, this.health.ejectedUntilMs)
    if (this.#wakeTimer !== null) clearTimeout(this.#wakeTimer)
    this.#wakeTimer = null
    if (atMs <= nowMs) return
    // Timers may fire up to 1 ms early on this clock.
    this.#wakeTimer = setTimeout(() => this.#listener.onRoom(this), Math.ceil(atMs - nowMs) + 1)
    this.#wakeTimer.unref()
  }
}
