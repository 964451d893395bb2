import type { ServerState } from '../contract/servers.ts'
import type {
  Engine,
  EngineRequest,
  EngineTarget,
  FailureClass,
  MicroBatchProtocol,
} from '../engines/engine.ts'
import { engineOf } from '../engines/registry.ts'
import { BusyPause } from './busy-pause.ts'
import { storedChatTemplate } from './chat-template.ts'
import type { Flight } from './flight.ts'
import { LatencyHistogram } from './latency-histogram.ts'
import { Permits } from './permits.ts'
import type { PolicyServer } from './policies/policy.ts'
import { PrefixMemory } from './prefix-memory.ts'
import type { RouterOptions, RouterServer, RouterServerStats } from './router-types.ts'
import { SampleQueue } from './sample-queue.ts'
import { ServerCanary } from './server-canary.ts'
import { type OnHealthChange, ServerHealth } from './server-health.ts'
import { ServerLimit } from './server-limit.ts'
import { ServerRating } from './server-rating.ts'
import { type HttpCall, Transport } from './transport.ts'

/** A server of which nothing was told in this time is not taken to be loaded by others. */
const LOAD_STALE_MS = 10_000
/** What many faults together mean: half of the calls of the last 30 s, and enough of them to tell. */
const FAULT_SHARE = 0.5
const FAULTS_OF = 10
const CORRUPT_TO_EJECT = 3
/** See `MicroBatchOptions.slowMs`. */
const SLOW_MS = 250
/** How long samples come one by one, ms: after a call of several was refused, and after what was slow, busy, or broke. */
const APART_MS = { refused: 60_000, slow: 5_000 }

/** What a server tells its router. */
export interface PoolServerListener {
  /** It may take a call again that it could not take before. */
  onRoom(server: PoolServer): void
  onHealth(server: PoolServer, ...change: Parameters<OnHealthChange>): void
}

/** One registered server inside one process: its connections, its counters, and whether it may be sent work. */
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
  /** Groups it took up whose samples still wait, oldest first. */
  readonly groups: string[] = []
  /** Samples bound to it whatever its load, by the `deterministic` policy. */
  readonly pinned = new SampleQueue()
  name = ''
  model = ''
  kind: 'discriminative' | 'generative' = 'discriminative'
  weight = 1
  state: ServerState | 'removed' = 'registering'
  engine: Engine = engineOf('vllm')
  target: EngineTarget = { model: null, version: null }
  /** How it is asked for several scores at once; null: not by this engine, or not this target. */
  microBatch: MicroBatchProtocol | null = null
  /** Its chat template as it is stored. */
  templateText: string | null = null
  headers: string[] = []
  transport: Transport
  /** The key, to keep it out of what is told of a failure. */
  apiKey: string | null = null
  requests = 0
  retries = 0
  errors = 0
  hedges = 0
  canaries = 0
  tokens = 0
  tokensPerSecond: number | null = null
  peakMsPerKtok: number | null = null
  /** Calls of others waiting in it, as it says. */
  externalQueue = 0
  /** Until when it gets samples one by one, on the clock of `performance.now()`. */
  apartUntilMs = 0
  /** The longest sample it has scored, in tokens as estimated before. */
  longestTokens = 0
  /** Calls in flight, oldest first. */
  oldest: Flight | null = null
  #newest: Flight | null = null
  /** When it last answered anything, or got work after having none. */
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

  /** Takes over what the registry says now. */
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

  /** So many processes share the server: what each lets itself have at first is its part. */
  set processes(processes: number) {
    this.#processes = Math.max(1, processes)
    this.canary.processes = this.#processes
  }

  /** Its address, base path included. */
  get url(): string {
    return this.#url
  }

  /** Calls in flight from this process. */
  get inFlight(): number {
    return this.#inFlight
  }

  /** Tokens of what is in flight, as estimated. */
  get workTokens(): number {
    return this.#workTokens
  }

  get slots(): number {
    return this.#slots
  }

  /** What policies go by, read anew: once for all the picks of a moment. */
  refresh(nowMs: number): void {
    this.tokensPerSecond = this.rating.tokensPerSecond(nowMs)
    this.peakMsPerKtok = this.rating.peakMsPerKtok(nowMs)
    this.externalQueue = nowMs - this.#loadAtMs < LOAD_STALE_MS ? this.#othersWaiting : 0
  }

  /** A lease: so many at once, until then. */
  setSlots(slots: number, untilMs: number): void {
    this.#slots = Math.max(0, Math.floor(slots))
    this.#slotsUntilMs = untilMs
  }

  /** What the server says it has to do. */
  setLoad(load: { running: number; waiting: number } | null): void {
    if (load === null) {
      this.#loadAtMs = 0
      return
    }
    const nowMs = performance.now()
    this.#loadAtMs = nowMs
    this.#othersWaiting = Math.max(0, load.running + load.waiting - this.#inFlight)
    if (load.waiting > 0) this.limit.search.noGrowth(nowMs)
  }

  /** More slots would be used, were they given: it has not as many as it may have. */
  get wantsSlots(): boolean {
    return this.state === 'ready' && this.#slots < this.limit.most
  }

  /** Permits of a limit a minute are what it lacks. */
  wantsPermits(nowMs: number): boolean {
    return this.state === 'ready' && !this.permits.allow(nowMs)
  }

  /** Somebody's own code gives its scores: it may take no text but those of its task. */
  get isOwnScorer(): boolean {
    return this.engine.name === 'http'
  }

  /** True when a call may go out now. */
  hasRoom(nowMs: number, panic = false): boolean {
    return !this.canary.blocking && this.hasRoomForCanary(nowMs, panic)
  }

  /** True when a call may go out now, be it only one that shows whether the server works. */
  hasRoomForCanary(nowMs: number, panic = false): boolean {
    if (this.state !== 'ready' || this.#inFlight >= this.#slots) return false
    if (this.#inFlight >= this.#mostNow(nowMs) || nowMs >= this.#slotsUntilMs) return false
    if (nowMs < this.pause.untilMs || !this.permits.allow(nowMs)) return false
    if (!this.health.admits(nowMs) && !(panic && this.health.isSoftEjected)) return false
    return this.transport.hasLane
  }

  /** True when it takes work in general, be it full or pausing at the moment: worth waiting for. */
  isUsable(nowMs: number): boolean {
    return this.#slots > 0 && this.isHealthy(nowMs)
  }

  /** True when it would take work if this process had a slot. */
  isHealthy(nowMs: number): boolean {
    if (this.state !== 'ready') return false
    const state = this.health.state(nowMs)
    return state === 'ok' || state === 'slow_start'
  }

  /** Slots this process could use, with so many samples waiting for the model. */
  demand(waiting: number, nowMs: number): number {
    if (this.state !== 'ready') return this.#inFlight
    const { canary } = this
    // One slot is enough to find out whether a server that was out is back, or refuses what it should.
    const useful =
      this.isHealthy(nowMs) && !canary.blocking
        ? Math.max(waiting, Math.min(1, canary.held.size))
        : Math.min(1, waiting + canary.held.size)
    return Math.min(this.#inFlight + useful, Math.max(this.#inFlight, this.#mostNow(nowMs)))
  }

  /** Takes a slot; its flight is in the list from now on. */
  begin(flight: Flight, isRetry: boolean): void {
    const nowMs = flight.startedAtMs
    if (this.#inFlight === 0) this.progressAtMs = nowMs
    this.#inFlight++
    flight.knownGroup = this.prefixes.takes(flight.sample)
    flight.tokens = this.prefixes.costOf(flight.sample, flight.knownGroup)
    this.#workTokens += flight.tokens
    this.requests++
    if (isRetry) this.retries++
    if (flight.hedge !== null) this.hedges++
    flight.older = this.#newest
    if (this.#newest === null) this.oldest = flight
    else this.#newest.newer = flight
    this.#newest = flight
    this.permits.use(flight.sample.tokens)
    this.limit.search.dispatched(nowMs, this.#inFlight)
    // Full is what its part of the limit fills: measured with the few slots it happens to have, it would seem slow, be
    // given less, and have fewer.
    const part = Math.ceil(this.limit.most / this.#processes)
    this.rating.began(this.#inFlight, Math.min(this.limit.most, Math.max(this.#slots, part)))
    flight.period = this.health.begin()
  }

  /** Gives a slot back. */
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

  /** It gets samples one by one for a while: they would hold each other up, or take each other down. */
  apart(why: keyof typeof APART_MS, nowMs: number): void {
    this.apartUntilMs = Math.max(this.apartUntilMs, nowMs + APART_MS[why])
  }

  /** A call gave a score, in so many ms; `tokens` as counted, else as estimated. */
  succeeded(flight: Flight, tokens: number | null, serviceMs: number, nowMs: number): void {
    const { sample } = flight
    const counted = tokens ?? sample.tokens
    // What the server worked on, where the prompt was in its cache.
    const worked = counted * (flight.tokens / sample.tokens)
    this.progressAtMs = nowMs
    if (sample.tokens > this.longestTokens) this.longestTokens = sample.tokens
    if (serviceMs > this.#slowMs) this.apart('slow', nowMs)
    this.pause.scored()
    this.canary.scored()
    this.tokens += counted
    this.latency.add(serviceMs)
    this.prefixes.took(sample, flight.knownGroup, serviceMs)
    this.rating.completed(nowMs, worked, serviceMs)
    this.limit.search.completed(nowMs, worked, true, serviceMs)
    this.permits.correct(sample.tokens, counted)
    this.health.succeeded(flight.period, nowMs)
  }

  /** A call failed by the server's fault; `weight` ½ for one that merely took too long. */
  faulted(flight: Flight, weight: number, serviceMs: number, nowMs: number, cause: string): void {
    if (weight === 1) this.progressAtMs = nowMs
    this.apart('slow', nowMs)
    this.rating.fault(nowMs, serviceMs, flight.tokens)
    this.limit.search.completed(nowMs, 0, false, serviceMs)
    this.health.faulted(flight.period, weight, nowMs, cause)
    const { share, calls } = this.rating.faultShare(nowMs)
    if (calls >= FAULTS_OF && share >= FAULT_SHARE && this.health.state(nowMs) === 'ok') {
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

  /** It gave something that is not a score where another server gave one. */
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

  /** It answered that it is busy. */
  refused(retryAfterMs: number | undefined, startedAtMs: number, nowMs: number): void {
    this.progressAtMs = nowMs
    this.limit.search.busy(nowMs)
    if (this.pause.refused(retryAfterMs, startedAtMs, nowMs)) this.#wakeLater()
  }

  /** The server left the registry; its calls in flight finish. */
  remove(): void {
    this.state = 'removed'
    if (this.#wakeTimer !== null) clearTimeout(this.#wakeTimer)
    this.#wakeTimer = null
    this.transport.retire()
  }

  /** Sends a call; its listener hears its end. */
  post<C>(call: HttpCall<C>, { path, headers, body }: EngineRequest): void {
    const all =
      headers === undefined ? this.headers : [...this.headers, ...Object.entries(headers).flat()]
    this.transport.post(call, path, all, body)
  }

  /** A connection was found closed as a call went out: the idle ones are likely to be, too. */
  dropIdleConnections(): void {
    this.transport.dropIdle()
  }

  /** Closes its connections at once. */
  close(): Promise<void> {
    return this.transport.close()
  }

  /** Why it takes no sample now, in words. */
  describe(nowMs: number): string {
    const { name, state } = this
    if (state !== 'ready') return `${name} is ${state}`
    if (!this.isHealthy(nowMs)) return `${name} is ejected: ${this.#outCause}`
    if (this.canary.blocking) return `${name} is being probed`
    if (nowMs < this.pause.untilMs) return `${name} is busy`
    if (!this.permits.allow(nowMs)) return `${name} is at its rate limit`
    return this.#slots === 0 ? `${name} has no slots in this process` : `${name} is full`
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
      ejectedUntilMs:
        health === 'ejected' ? Math.round(Date.now() + this.health.ejectedUntilMs - nowMs) : null,
      consecutiveFaults: this.health.consecutiveFaults,
      inFlight: this.#inFlight,
      slots: this.#slots,
      limit: this.limit.most,
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

  #mostNow(nowMs: number): number {
    const share = this.health.share(nowMs)
    return share === 1 ? this.limit.most : Math.max(1, Math.ceil(share * this.limit.most))
  }

  #connectTo(url: string): Transport {
    this.#url = url
    return new Transport(new URL(url).origin, () => this.#listener.onRoom(this))
  }

  /** Tells the listener when the time out, or the pause, is over. */
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
