import { FairQueue } from './fair-queue.ts'
import { GroupBinding } from './group-binding.ts'
import { HedgeBudget } from './hedge-budget.ts'
import type { BalancingPolicy, PolicyName } from './policies/policy.ts'
import { DEFAULT_POLICY, policyNamed } from './policies/registry.ts'
import type { PoolServer } from './pool-server.ts'
import { RetryBudget } from './retry-budget.ts'
import { serversForRetry } from './retry-servers.ts'
import type { RoutedSample } from './routed-sample.ts'
import type { HedgeKind, RouterOptions } from './router-types.ts'
import { SampleQueue } from './sample-queue.ts'
import { TokenEstimate } from './token-estimate.ts'

/** Calls begun in one go; the rest a turn of the loop later, so that 5,000 waiting samples do not stall it for 0.2 s. */
const DISPATCH_BATCH = 64
/** Samples looked at in search of one that may go to a free server: those that failed elsewhere may not want any. */
const RETRY_SCAN = 64
/** Weight of the newest sample in the mean cost: some 64 samples are remembered. */
const COST_STEP = 1 / 64
/** Servers named in a failure's text. */
const DESCRIBED = 3
/** See `RouterOptions.patienceMs`. */
const PATIENCE_MS = 2_000
/** See `RouterOptions.queueSamples`. */
const QUEUE_SAMPLES = 10_000
/** Calls that must have ended before a server's times are believed. */
const SEEN_FOR_TIMES = 20

/** What a pool tells its router. */
export interface ModelPoolListener {
  /** Sends a sample to a server with room. */
  start(sample: RoutedSample, server: PoolServer, hedge: HedgeKind | null, nowMs: number): void
  /** A server is to be asked whether it works. */
  ask(pool: ModelPool, server: PoolServer, nowMs: number): void
  /** Samples wait which more slots or permits would let go. */
  onShort(pool: ModelPool): void
}

/**
 * The servers of one model and the samples that wait for them. A sample is bound to a server only when that server has a
 * free slot. In order: hedges of samples whose server went silent, samples that lost an attempt, then the others by their
 * class, run, deadline and size. A server that took up a group goes on with it while others take up the next.
 */
export class ModelPool {
  readonly model: string
  readonly servers: PoolServer[] = []
  readonly estimate = new TokenEstimate()
  readonly hedgeBudget = new HedgeBudget()
  readonly retryBudget = new RetryBudget()
  /** Samples of the model that are not done, wherever they are; canaries are not among them. */
  sampleCount = 0
  /** Canaries that are out: they are given up with the last sample. */
  readonly canaries = new Set<RoutedSample>()
  /** Judges, and scorers of one's own, which may ask one: never sent twice, never shared. */
  asksOnce = false
  readonly #hedges = new SampleQueue()
  readonly #retries = new SampleQueue()
  readonly #fresh: FairQueue<RoutedSample>
  readonly #groups: GroupBinding
  readonly #patienceMs: number
  readonly #queueSamples: number
  readonly #options: RouterOptions
  readonly #listener: ModelPoolListener
  readonly #candidates: PoolServer[] = []
  readonly #eligible: PoolServer[] = []
  #policy: BalancingPolicy
  #pinnedWaiting = 0
  /** Mean cost of a sample begun, of its tokens. */
  #costShare = 1
  /** Samples admitted without waiting since the caller's code began to run. */
  #burst = 0
  readonly #endBurst = () => {
    this.#burst = 0
  }
  #microtask = false
  #immediate: NodeJS.Immediate | null = null

  constructor(model: string, listener: ModelPoolListener, options: RouterOptions) {
    this.model = model
    this.#listener = listener
    this.#options = options
    this.#patienceMs = options.patienceMs ?? PATIENCE_MS
    this.#queueSamples = options.queueSamples ?? QUEUE_SAMPLES
    this.#policy = this.#make(options.policy ?? DEFAULT_POLICY)
    this.#fresh = new FairQueue<RoutedSample>()
    this.#groups = new GroupBinding(this.#fresh, this.servers)
  }

  /** Another policy from now on; null: the router's default. */
  set policy(name: PolicyName | null) {
    const wanted = name ?? this.#options.policy ?? DEFAULT_POLICY
    if (wanted === this.#policy.name) return
    this.#policy = this.#make(wanted)
    for (const server of this.servers) this.#unpin(server)
    this.pumpSoon()
  }

  /** Samples waiting for a slot, hedges among them; not those in back-off. */
  get waiting(): number {
    return this.#hedges.size + this.#retries.size + this.#fresh.size + this.#pinnedWaiting
  }

  /** Samples that have not been sent at all and wait. */
  get fresh(): number {
    return this.#fresh.size + this.#pinnedWaiting
  }

  /** Estimated tokens of the samples that wait for their first call. */
  get waitingTokens(): number {
    return this.#fresh.tokens
  }

  /** Estimated tokens of so many of the samples that wait. */
  tokensOf(samples: number): number {
    const fresh = this.#fresh.size
    return fresh === 0 ? samples : (samples * this.#fresh.tokens) / fresh
  }

  /** True: as many samples wait as may; who only asks for a slot is asked to come back. */
  get isFull(): boolean {
    return this.waiting >= this.#queueSamples
  }

  /** Calls in flight over its servers. */
  get inFlight(): number {
    let n = 0
    for (const server of this.servers) n += server.inFlight
    return n
  }

  add(server: PoolServer): void {
    this.servers.push(server)
    this.asksOnce = this.servers.some(
      ({ kind, engine }) => kind === 'generative' || engine.name === 'http',
    )
  }

  remove(server: PoolServer): void {
    const index = this.servers.indexOf(server)
    if (index >= 0) this.servers.splice(index, 1)
    this.#policy.forget(server.id)
    this.orphan(server)
    this.#unpin(server)
    this.unhold(server)
  }

  /** Samples that waited for a server's canary are to be tried again. */
  unhold(server: PoolServer): void {
    for (const sample of server.canary.release()) this.readmit(sample)
  }

  /** A server takes nothing for a while: its groups are anybody's. */
  orphan(server: PoolServer): void {
    this.#groups.orphan(server)
    if (server.canary.isWanted) this.pumpSoon()
  }

  /** A sample was begun at a cost: of what waits, the same share is in the servers' prefix caches. */
  began(sample: RoutedSample, cost: number): void {
    this.#costShare += COST_STEP * (cost / sample.tokens - this.#costShare)
  }

  /** How long what waits will keep its servers busy, in ms; infinite where nobody knows. */
  drainMs(nowMs: number): number {
    let perSecond = 0
    for (const server of this.servers) {
      if (server.isHealthy(nowMs)) perSecond += server.rating.tokensPerSecond(nowMs) ?? 0
    }
    return (1_000 * this.#fresh.tokens * this.#costShare) / perSecond
  }

  /** In how many ms it is worth coming back: when what waits now is done, 1 to 30 s. */
  comeBackInMs(nowMs: number): number {
    const drainMs = this.drainMs(nowMs)
    if (!Number.isFinite(drainMs)) return 2_000
    return Math.min(30_000, Math.max(1_000, Math.ceil(drainMs / 1_000) * 1_000))
  }

  /** What a sample of so many tokens takes at least, by the median of the fastest server, in ms; 0 where nothing was seen. */
  fastestMs(tokens: number, nowMs: number): number {
    let fastest = Number.POSITIVE_INFINITY
    for (const server of this.servers) {
      if (server.rating.samples < SEEN_FOR_TIMES) return 0
      if (!server.isHealthy(nowMs)) continue
      fastest = Math.min(fastest, server.rating.expectedMs(tokens) ?? 0)
    }
    return Number.isFinite(fastest) ? fastest : 0
  }

  /** Lets a new sample go at once if a server has room and none waits before it, else queues it. */
  admit(sample: RoutedSample, nowMs: number): void {
    if (sample.tried !== null) {
      this.readmit(sample)
      return
    }
    if (this.#policy.name === 'deterministic') {
      this.#pin(sample, nowMs)
      return
    }
    if (this.waiting > 0 || this.#immediate !== null) {
      this.#queue(sample)
      this.pumpSoon()
      return
    }
    if (
      this.#burst >= DISPATCH_BATCH ||
      (sample.group !== undefined && sample.priorityClass === 'step')
    ) {
      // A step's samples come together: seen together, the longest goes first and groups stay whole.
      this.#queue(sample)
      if (this.#burst >= DISPATCH_BATCH) this.#pumpNextTurn()
      else this.pumpSoon()
      return
    }
    if (this.#burst++ === 0) queueMicrotask(this.#endBurst)
    if (this.#gather(nowMs)) {
      this.#listener.start(sample, this.#policy.pick(this.#candidates, sample), null, nowMs)
    } else {
      this.#queue(sample)
      this.#askServers(nowMs)
      this.#listener.onShort(this)
    }
  }

  /** Queues a sample that lost an attempt, before those that did not. */
  readmit(sample: RoutedSample): void {
    this.#retries.push(sample)
    sample.timer = setTimeout(() => {
      sample.timer = null
      this.pumpSoon()
    }, this.#patienceMs)
    this.pumpSoon()
  }

  /** Queues a sample for a second call while its first is out. */
  wantHedge(sample: RoutedSample, kind: HedgeKind): void {
    if (sample.queue !== null || sample.hedgeWanted !== null) return
    sample.hedgeWanted = kind
    this.#hedges.push(sample)
    this.pumpSoon()
  }

  /** Takes a sample out of whatever queue it waits in. */
  withdraw(sample: RoutedSample): void {
    sample.queue?.remove(sample)
    if (sample.hedgeWanted !== null && sample.hedgeWanted !== 'stall') {
      this.hedgeBudget.forgone()
    }
    sample.hedgeWanted = null
    if (sample.pinned !== null) this.#pinnedWaiting--
    sample.pinned = null
    if (!sample.queuedFresh) return
    sample.queuedFresh = false
    this.#fresh.remove(sample)
  }

  /** What its servers do instead of taking a sample, for the reason a sample could not be scored. */
  describe(nowMs: number): string {
    if (this.servers.length === 0) return 'none is registered'
    const told = this.servers.slice(0, DESCRIBED).map((server) => server.describe(nowMs))
    const more = this.servers.length - told.length
    return `${told.join('; ')}${more > 0 ? `; and ${more} more` : ''}`
  }

  /** True when some server of the pool takes work in general. */
  anyUsable(nowMs: number): boolean {
    return this.servers.some((server) => server.isUsable(nowMs))
  }

  /** True when some server of the pool is healthy, whether or not this process has a slot of it now. */
  anyHealthy(nowMs: number): boolean {
    return this.servers.some((server) => server.isHealthy(nowMs))
  }

  /** True when a server that takes work has not been tried by the sample. */
  anyUntried(sample: RoutedSample, nowMs: number): boolean {
    return this.servers.some((server) => server.isUsable(nowMs) && !sample.hasTried(server))
  }

  /**
   * Binds waiting samples after the present callback: a call's end is told from inside the HTTP parser, where no other
   * connection may be read from, and beginning a call reads.
   */
  pumpSoon(): void {
    if (this.#microtask || this.#immediate !== null) return
    this.#microtask = true
    queueMicrotask(() => {
      this.#microtask = false
      this.pump(performance.now())
    })
  }

  /** Binds waiting samples to servers with room, as many as there are, at most a batch at a time. */
  pump(nowMs: number): void {
    let left = DISPATCH_BATCH
    this.#askServers(nowMs)
    while (this.waiting > 0 && this.#gather(nowMs)) {
      if (left-- === 0) {
        this.#pumpNextTurn()
        return
      }
      if (
        !this.#bindHedge(nowMs) &&
        !this.#bindRetry(nowMs) &&
        !this.#bindFresh(nowMs) &&
        !this.#bindPinned(nowMs)
      ) {
        break
      }
    }
    if (this.isShort) this.#listener.onShort(this)
  }

  /** Samples wait for a slot, or for what a canary will tell. */
  get isShort(): boolean {
    return this.waiting > 0 || this.servers.some(({ canary }) => canary.held.size > 0)
  }

  #askServers(nowMs: number): void {
    for (const server of this.servers) {
      if (server.canary.isWanted) this.#listener.ask(this, server, nowMs)
    }
  }

  #make(name: PolicyName): BalancingPolicy {
    const { seed } = this.#options
    return policyNamed(name, seed === undefined ? {} : { seed })
  }

  #pumpNextTurn(): void {
    this.#immediate ??= setImmediate(() => {
      this.#immediate = null
      this.pump(performance.now())
    })
  }

  #queue(sample: RoutedSample): void {
    sample.queuedFresh = true
    this.#fresh.push(sample)
  }

  #gather(nowMs: number): boolean {
    const candidates = this.#candidates
    candidates.length = 0
    const panic = this.#isPanic(nowMs)
    for (const server of this.servers) {
      if (!server.hasRoom(nowMs, panic)) continue
      server.refresh(nowMs)
      candidates.push(server)
    }
    return candidates.length > 0
  }

  /** Fewer than half of its ready servers take work: those that are out for being slow are better than none. */
  #isPanic(nowMs: number): boolean {
    let soft = false
    for (const server of this.servers) if (server.health.isSoftEjected) soft = true
    if (!soft) return false
    let ready = 0
    let healthy = 0
    for (const server of this.servers) {
      if (server.state !== 'ready') continue
      ready++
      if (server.isHealthy(nowMs)) healthy++
    }
    return healthy * 2 < ready
  }

  #bindHedge(nowMs: number): boolean {
    let sample = this.#hedges.first
    for (let seen = 0; sample !== null && seen < RETRY_SCAN; seen++, sample = sample.queueNext) {
      const eligible = this.#eligible
      eligible.length = 0
      for (const server of this.#candidates) {
        if (!sample.hasTried(server) && server.health.state(nowMs) === 'ok') eligible.push(server)
      }
      if (eligible.length === 0) continue
      const kind = sample.hedgeWanted as HedgeKind
      this.#hedges.remove(sample)
      sample.hedgeWanted = null
      this.#listener.start(sample, this.#policy.pick(eligible, sample), kind, nowMs)
      return true
    }
    return false
  }

  #bindRetry(nowMs: number): boolean {
    if (this.#retries.size === 0 || !this.retryBudget.allows(this.inFlight)) return false
    let sample = this.#retries.first
    for (let seen = 0; sample !== null && seen < RETRY_SCAN; seen++, sample = sample.queueNext) {
      if (!serversForRetry(sample, this.servers, this.#candidates, this.#eligible, nowMs)) continue
      this.#retries.remove(sample)
      this.#listener.start(sample, this.#policy.pick(this.#eligible, sample), null, nowMs)
      return true
    }
    return false
  }

  #bindFresh(nowMs: number): boolean {
    const sample = this.#groups.next(this.#candidates, this.#policy)
    return sample === null ? false : this.#send(sample, this.#groups.server as PoolServer, nowMs)
  }

  #send(sample: RoutedSample, server: PoolServer, nowMs: number): boolean {
    sample.queuedFresh = false
    this.#fresh.take(sample)
    this.#listener.start(sample, server, null, nowMs)
    return true
  }

  /** The `deterministic` policy looks at no load: the sample waits for the one server it is for. */
  #pin(sample: RoutedSample, nowMs: number): void {
    const eligible = this.#eligible
    eligible.length = 0
    for (const server of this.servers) if (server.isHealthy(nowMs)) eligible.push(server)
    if (eligible.length === 0) {
      this.#queue(sample)
      this.#listener.onShort(this)
      return
    }
    const server = this.#policy.pick(eligible, sample)
    sample.pinned = server
    server.pinned.push(sample)
    this.#pinnedWaiting++
    this.pumpSoon()
  }

  #bindPinned(nowMs: number): boolean {
    if (this.#pinnedWaiting === 0) return false
    for (const server of this.#candidates) {
      const sample = server.pinned.first
      if (sample === null) continue
      this.withdraw(sample)
      this.#listener.start(sample, server, null, nowMs)
      return true
    }
    // Those whose server is out or gone are for another one meanwhile.
    for (const server of this.servers) {
      if (server.pinned.size > 0 && !server.isHealthy(nowMs) && this.anyHealthy(nowMs)) {
        this.#unpin(server)
        return true
      }
    }
    return false
  }

  #unpin(server: PoolServer): void {
    for (let sample = server.pinned.first; sample !== null; sample = server.pinned.first) {
      this.withdraw(sample)
      this.admit(sample, performance.now())
    }
  }
}
