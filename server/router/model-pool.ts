import { DEFAULT_POLICY } from '../contract/pools.ts'
import { FairQueue } from './fair-queue.ts'
import { GroupBinding } from './group-binding.ts'
import { HedgeBudget } from './hedge-budget.ts'
import type { BalancingPolicy, PolicyName } from './policies/policy.ts'
import { policyNamed } from './policies/registry.ts'
import type { PoolServer } from './pool-server.ts'
import { RetryBudget, serversForRetry } from './retries.ts'
import type { RoutedSample } from './routed-sample.ts'
import type { HedgeKind, RouterOptions } from './router-types.ts'
import { SampleQueue } from './sample-queue.ts'
import { TokenEstimate } from './token-estimate.ts'

/** Maximum number of calls begun per turn of the event loop, which 5,000 calls would block for 0.2 s. */
const MAX_DISPATCHES = 64
/**
 * Maximum number of retries or hedges that one search checks. The first samples in the queue may not fit the available
 * servers, because they were already sent to those servers.
 */
const MAX_SCANNED = 64
/** Weight of the newest sample in the mean cost, which covers about the last 64 samples. */
const COST_STEP = 1 / 64
const MAX_DESCRIBED = 3
const PATIENCE_MS = 2_000
const MAX_QUEUED = 10_000
/** A server's times are used for estimates after this many completed calls. */
const SEEN_FOR_TIMES = 20

export interface ModelPoolListener {
  start(sample: RoutedSample, server: PoolServer, hedge: HedgeKind | null, nowMs: number): void
  /** Sends the server a canary if one is wanted and allowed. */
  probe(pool: ModelPool, server: PoolServer, nowMs: number): void
  /** Called when samples wait for slots, permits or a canary. */
  onShort(pool: ModelPool): void
}

/**
 * The servers of one model and its waiting samples. A sample is bound to a server only when that server has a free
 * slot. Hedges come first, then retries, then all other samples by class, run, deadline and size. A server that began a
 * group continues it while other servers begin the next groups.
 */
export class ModelPool {
  readonly model: string
  readonly servers: PoolServer[] = []
  readonly estimate = new TokenEstimate()
  readonly hedgeBudget = new HedgeBudget()
  readonly retryBudget = new RetryBudget()
  /**
   * True if the pool has judges, or custom scorers, which may call a judge. Its samples are then never hedged, and
   * identical samples are not combined. The value is stored, because it is read for every call in flight every 100 ms.
   */
  isSentOnce = false
  /** Unfinished samples of the model, without canaries. */
  sampleCount = 0
  /** Canaries in flight. They are cancelled when the pool has no unfinished sample. */
  readonly canaries = new Set<RoutedSample>()
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
  readonly #named = new Map<PolicyName, BalancingPolicy>()
  #pinnedWaiting = 0
  /** Mean share of a sample's tokens that the server computes. The other tokens are in its prefix cache. */
  #costShare = 1
  /** Number of samples that {@link admit} handled without queueing them first, in the current callback. */
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
    this.#queueSamples = options.queueSamples ?? MAX_QUEUED
    this.#policy = this.#make(options.policy ?? DEFAULT_POLICY)
    this.#fresh = new FairQueue<RoutedSample>()
    this.#groups = new GroupBinding(this.#fresh, this.servers)
  }

  set policy(name: PolicyName | null) {
    const wanted = name ?? this.#options.policy ?? DEFAULT_POLICY
    if (wanted === this.#policy.name) return
    this.#policy = this.#make(wanted)
    for (const server of this.servers) this.#unpin(server)
    this.pumpSoon()
  }

  /** Samples waiting for a slot, including hedges but not samples in back-off. */
  get waiting(): number {
    return this.#hedges.size + this.#retries.size + this.#fresh.size + this.#pinnedWaiting
  }

  get fresh(): number {
    return this.#fresh.size + this.#pinnedWaiting
  }

  tokensOf(samples: number): number {
    const fresh = this.#fresh.size
    return fresh === 0 ? samples : (samples * this.#fresh.tokens) / fresh
  }

  /** Whether the queue is full. Requests for slots are then refused. */
  get isFull(): boolean {
    return this.waiting >= this.#queueSamples
  }

  get inFlight(): number {
    let n = 0
    for (const server of this.servers) n += server.inFlight
    return n
  }

  add(server: PoolServer): void {
    this.servers.push(server)
    this.configured()
  }

  configured(): void {
    this.isSentOnce = this.servers.some(
      (server) => server.kind === 'generative' || server.isCustomScorer,
    )
  }

  remove(server: PoolServer): void {
    const index = this.servers.indexOf(server)
    if (index >= 0) this.servers.splice(index, 1)
    this.configured()
    this.#policy.forget(server.id)
    for (const policy of this.#named.values()) policy.forget(server.id)
    this.orphan(server)
    this.#unpin(server)
    this.unhold(server)
  }

  /** Releases the samples that wait for a server's canary. They are sent again. */
  unhold(server: PoolServer): void {
    for (const sample of server.canary.release()) this.readmit(sample)
  }

  orphan(server: PoolServer): void {
    this.#groups.orphan(server)
    if (server.canary.isWanted) this.pumpSoon()
  }

  /**
   * Records the cost of a sample that was sent. The waiting samples are assumed to cost the same share of their tokens.
   */
  began(sample: RoutedSample, cost: number): void {
    this.#costShare += COST_STEP * (cost / sample.tokens - this.#costShare)
  }

  /** Time in ms that the waiting samples will keep the servers busy; infinite if unknown. */
  drainMs(nowMs: number): number {
    let perSecond = 0
    for (const server of this.servers) {
      if (server.isHealthy(nowMs)) perSecond += server.rating.tokensPerSecond(nowMs) ?? 0
    }
    return (1_000 * this.#fresh.tokens * this.#costShare) / perSecond
  }

  /**
   * Suggested delay before another request, in ms: the time to process the waiting samples, from 1 to 30 s; 2 s if
   * unknown.
   */
  suggestedRetryMs(nowMs: number): number {
    const drainMs = this.drainMs(nowMs)
    if (!Number.isFinite(drainMs)) return 2_000
    return Math.min(30_000, Math.max(1_000, Math.ceil(drainMs / 1_000) * 1_000))
  }

  /**
   * Median time of a sample of this size on the fastest healthy server, in ms. 0 if any server is unmeasured, or none
   * is healthy.
   */
  fastestMs(tokens: number, nowMs: number): number {
    let fastest = Number.POSITIVE_INFINITY
    for (const server of this.servers) {
      if (server.rating.samples < SEEN_FOR_TIMES) return 0
      if (!server.isHealthy(nowMs)) continue
      fastest = Math.min(fastest, server.rating.expectedMs(tokens) ?? 0)
    }
    return Number.isFinite(fastest) ? fastest : 0
  }

  admit(sample: RoutedSample, nowMs: number): void {
    if (sample.tried !== null) {
      this.readmit(sample)
      return
    }
    if (this.#policyOf(sample).name === 'deterministic') {
      this.#pin(sample, nowMs)
      return
    }
    if (this.waiting > 0 || this.#immediate !== null) {
      this.#queue(sample)
      this.pumpSoon()
      return
    }
    if (
      this.#burst >= MAX_DISPATCHES ||
      (sample.group !== undefined && sample.priorityClass === 'step')
    ) {
      // The samples of a step arrive together. They are queued first, so that the longest is sent first and groups stay
      // together.
      this.#queue(sample)
      if (this.#burst >= MAX_DISPATCHES) this.#pumpNextTurn()
      else this.pumpSoon()
      return
    }
    if (this.#burst++ === 0) queueMicrotask(this.#endBurst)
    const usable = this.#gather(nowMs) ? sample.usableOf(this.#candidates) : []
    if (usable.length > 0) {
      this.#listener.start(sample, this.#pick(usable, sample), null, nowMs)
    } else {
      this.#queue(sample)
      this.#probeServers(nowMs)
      this.#listener.onShort(this)
    }
  }

  readmit(sample: RoutedSample): void {
    this.#retries.push(sample)
    sample.timer = setTimeout(() => {
      sample.timer = null
      this.pumpSoon()
    }, this.#patienceMs)
    this.pumpSoon()
  }

  wantHedge(sample: RoutedSample, kind: HedgeKind): void {
    if (sample.queue !== null || sample.hedgeWanted !== null) return
    sample.hedgeWanted = kind
    this.#hedges.push(sample)
    this.pumpSoon()
  }

  withdraw(sample: RoutedSample): void {
    sample.queue?.remove(sample)
    if (sample.hedgeWanted !== null && sample.hedgeWanted !== 'stall') {
      this.hedgeBudget.forgone()
    }
    sample.hedgeWanted = null
    if (sample.pinned !== null) this.#pinnedWaiting--
    sample.pinned = null
    if (!sample.isQueuedFresh) return
    sample.isQueuedFresh = false
    this.#fresh.remove(sample)
  }

  describe(nowMs: number): string {
    if (this.servers.length === 0) return 'none is registered'
    const described = this.servers.slice(0, MAX_DESCRIBED).map((server) => server.describe(nowMs))
    const more = this.servers.length - described.length
    return `${described.join('; ')}${more > 0 ? `; and ${more} more` : ''}`
  }

  /** Whether any server is healthy and has slots for this process, free or not. */
  anyUsable(nowMs: number): boolean {
    return this.servers.some((server) => server.isUsable(nowMs))
  }

  /**
   * Whether any server is healthy, with or without slots for this process. If a sample is given, only the servers that
   * it can use count.
   */
  anyHealthy(nowMs: number, sample?: RoutedSample): boolean {
    return this.servers.some(
      (server) => server.isHealthy(nowMs) && sample?.canUse(server) !== false,
    )
  }

  anyUntried(sample: RoutedSample, nowMs: number): boolean {
    return this.servers.some(
      (server) => server.isUsable(nowMs) && sample.canUse(server) && !sample.hasTried(server),
    )
  }

  /**
   * Binds waiting samples after the current callback. The end of a call is reported from inside the HTTP parser, where
   * starting a call is not allowed.
   */
  pumpSoon(): void {
    if (this.#microtask || this.#immediate !== null) return
    this.#microtask = true
    queueMicrotask(() => {
      this.#microtask = false
      this.pump(performance.now())
    })
  }

  pump(nowMs: number): void {
    let left = MAX_DISPATCHES
    this.#probeServers(nowMs)
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

  /** Whether samples wait for a slot or for the result of a canary. */
  get isShort(): boolean {
    return this.waiting > 0 || this.servers.some(({ canary }) => canary.held.size > 0)
  }

  #probeServers(nowMs: number): void {
    for (const server of this.servers) {
      if (server.canary.isWanted) this.#listener.probe(this, server, nowMs)
    }
  }

  #make(name: PolicyName): BalancingPolicy {
    const { seed } = this.#options
    return policyNamed(name, seed === undefined ? {} : { seed })
  }

  #policyOf({ policy: name }: RoutedSample): BalancingPolicy {
    if (name === undefined || name === this.#policy.name) return this.#policy
    let named = this.#named.get(name)
    if (named === undefined) {
      named = this.#make(name)
      this.#named.set(name, named)
    }
    return named
  }

  readonly #pick = (servers: readonly PoolServer[], sample: RoutedSample): PoolServer =>
    this.#policyOf(sample).pick(servers, sample)

  #pumpNextTurn(): void {
    this.#immediate ??= setImmediate(() => {
      this.#immediate = null
      this.pump(performance.now())
    })
  }

  #queue(sample: RoutedSample): void {
    sample.isQueuedFresh = true
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

  /**
   * Whether fewer than half of the ready servers are healthy while some are ejected for slowness. These slow servers
   * are then used too.
   */
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
    for (let seen = 0; sample !== null && seen < MAX_SCANNED; seen++, sample = sample.queueNext) {
      const eligible = this.#eligible
      eligible.length = 0
      for (const server of this.#candidates) {
        if (!sample.hasTried(server) && server.health.state(nowMs) === 'ok') eligible.push(server)
      }
      if (eligible.length === 0) continue
      const kind = sample.hedgeWanted as HedgeKind
      this.#hedges.remove(sample)
      sample.hedgeWanted = null
      this.#listener.start(sample, this.#pick(eligible, sample), kind, nowMs)
      return true
    }
    return false
  }

  #bindRetry(nowMs: number): boolean {
    if (this.#retries.size === 0 || !this.retryBudget.allows(this.inFlight)) return false
    let sample = this.#retries.first
    for (let seen = 0; sample !== null && seen < MAX_SCANNED; seen++, sample = sample.queueNext) {
      if (!serversForRetry(sample, this.servers, this.#candidates, this.#eligible, nowMs)) continue
      this.#retries.remove(sample)
      this.#listener.start(sample, this.#pick(this.#eligible, sample), null, nowMs)
      return true
    }
    return false
  }

  #bindFresh(nowMs: number): boolean {
    const sample = this.#groups.next(this.#candidates, this.#pick)
    return sample === null ? false : this.#send(sample, this.#groups.server as PoolServer, nowMs)
  }

  #send(sample: RoutedSample, server: PoolServer, nowMs: number): boolean {
    sample.isQueuedFresh = false
    this.#fresh.take(sample)
    this.#listener.start(sample, server, null, nowMs)
    return true
  }

  /**
   * Binds a sample to the server that the `deterministic` policy picks, regardless of load. The sample waits for a slot
   * of that server.
   */
  #pin(sample: RoutedSample, nowMs: number): void {
    const eligible = this.#eligible
    eligible.length = 0
    for (const server of this.servers) {
      if (sample.canUse(server) && server.isHealthy(nowMs)) eligible.push(server)
    }
    if (eligible.length === 0) {
      this.#queue(sample)
      this.#listener.onShort(this)
      return
    }
    const server = this.#pick(eligible, sample)
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
    // Samples pinned to a server that is no longer healthy are assigned to another one.
    for (const server of this.servers) {
      if (server.pinned.size > 0 && !server.isHealthy(nowMs) && this.anyHealthy(nowMs)) {
        this.#unpin(server)
        return true
      }
    }
    return false
  }

  #unpin(server: PoolServer): void {
    const samples: RoutedSample[] = []
    for (let sample = server.pinned.first; sample !== null; sample = server.pinned.first) {
      this.withdraw(sample)
      samples.push(sample)
    }
    // The queue is emptied first, because `admit` may pin a sample with its own policy to the same server again.
    for (const sample of samples) this.admit(sample, performance.now())
  }
}
