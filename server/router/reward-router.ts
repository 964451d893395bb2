import { onceRead } from '../with-timeout.ts'
import { ChatSample } from './chat-sample.ts'
import { DemandNotifier } from './demand-notifier.ts'
import type { Flight } from './flight.ts'
import { ModelPool, type ModelPoolListener } from './model-pool.ts'
import type { PolicyName } from './policies/policy.ts'
import { PoolServer, type PoolServerListener } from './pool-server.ts'
import { PoolWatch, WATCH_MS } from './pool-watch.ts'
import type { RoutedSample } from './routed-sample.ts'
import type {
  EngineLoad,
  HealthState,
  HedgeKind,
  RatePermits,
  RewardRouter,
  RouterChatRequest,
  RouterChatResult,
  RouterEvent,
  RouterOptions,
  RouterResult,
  RouterServer,
  RouterServerStats,
  ScoreInput,
  ScoreRequest,
  SlotRequest,
} from './router-types.ts'
import { SampleLifecycle, type SampleLifecycleOwner } from './sample-lifecycle.ts'
import { ScoreSample } from './score-sample.ts'
import { type SlotResult, SlotSample } from './slot-sample.ts'

/** A check that runs more than this many ms after the previous one shows that the process was paused. */
const LATE_MS = 2 * WATCH_MS

/** Creates a router without servers. Samples wait until servers are registered. */
export function createRewardRouter(options: RouterOptions = {}): RewardRouter {
  return new Router(options)
}

/**
 * Holds the registered servers and their pools, and handles their events. {@link SampleLifecycle} handles the samples.
 */
class Router implements RewardRouter, SampleLifecycleOwner, PoolServerListener, ModelPoolListener {
  readonly #servers = new Map<number, PoolServer>()
  /** Servers that are no longer registered but still have calls in flight. */
  readonly #leaving = new Set<PoolServer>()
  readonly #pools = new Map<string, ModelPool>()
  readonly #watches = new Map<ModelPool, PoolWatch>()
  readonly #policies = new Map<string, PolicyName>()
  readonly #life: SampleLifecycle
  readonly #demand = new DemandNotifier()
  readonly #eventListeners = new Set<(event: RouterEvent) => void>()
  readonly #options: RouterOptions
  #processes: number
  #watching: NodeJS.Timeout | null = null
  #checkedAtMs = 0
  #isSkipped = false
  #closed = false

  constructor(options: RouterOptions) {
    this.#options = options
    this.#life = new SampleLifecycle(this, options)
    this.#processes = options.processes ?? 1
  }

  setServers(configs: readonly RouterServer[]): void {
    if (this.#closed) return
    const kept = new Set<number>()
    for (const config of configs) {
      kept.add(config.id)
      const known = this.#servers.get(config.id)
      if (known === undefined) {
        const server = new PoolServer(config, this, {
          ...this.#options,
          processes: this.#processes,
        })
        this.#servers.set(config.id, server)
        this.#pool(config.model).add(server)
      } else {
        const before = known.model
        const moved = known.url !== config.url
        known.update(config)
        this.#pools.get(before)?.configured()
        // The server at the new URL may score samples that the old one refused.
        if (moved) this.#pools.get(before)?.unhold(known)
        if (before !== known.model) {
          this.#pools.get(before)?.remove(known)
          this.#pool(known.model).add(known)
        }
      }
    }
    for (const server of [...this.#servers.values()]) {
      if (kept.has(server.id)) continue
      this.#servers.delete(server.id)
      this.#pools.get(server.model)?.remove(server)
      this.#demand.slotsGiven(server)
      server.remove()
      if (server.inFlight > 0) this.#leaving.add(server)
    }
    for (const [model, pool] of this.#pools) {
      // A pool without servers is kept while it has samples, because a server may be registered again.
      if (pool.servers.length === 0 && pool.sampleCount === 0) this.#forget(model, pool)
      else pool.pumpSoon()
    }
  }

  setPolicy(model: string, policy: PolicyName | null): void {
    if (policy === null) this.#policies.delete(model)
    else this.#policies.set(model, policy)
    const pool = this.#pools.get(model)
    if (pool !== undefined) pool.policy = policy
  }

  setProcesses(processes: number): void {
    this.#processes = Math.max(1, processes)
    for (const server of this.#servers.values()) server.processes = this.#processes
  }

  setLoad(serverId: number, load: EngineLoad | null): void {
    this.#servers.get(serverId)?.setLoad(load)
  }

  setSlots(
    serverId: number,
    slots: number,
    untilMs = Number.POSITIVE_INFINITY,
    others?: number,
  ): void {
    const server = this.#servers.get(serverId)
    if (server === undefined) return
    // After a pause of this process, the renewal of a share may be handled before the timer that ends the old share. A
    // share that has expired counts as 0 slots.
    const more = slots > (server.hasShare() ? server.slots : 0)
    server.setSlots(slots, untilMs)
    if (others !== undefined) server.limit.search.others = others
    if (!more) return
    this.#demand.slotsGiven(server)
    this.#pools.get(server.model)?.pumpSoon()
  }

  recall(serverId: number): void {
    const server = this.#servers.get(serverId)
    if (server !== undefined) this.#life.recall(server)
  }

  setPermits(serverId: number, permits: RatePermits): void {
    const server = this.#servers.get(serverId)
    if (server === undefined) return
    server.permits.add(permits, performance.now())
    this.#pools.get(server.model)?.pumpSoon()
  }

  permitDemand(serverId: number): { requests: number; tokens: number; tokensOverspent: number } {
    const server = this.#servers.get(serverId)
    const pool = server === undefined ? undefined : this.#pools.get(server.model)
    if (server === undefined || pool === undefined) {
      return { requests: 0, tokens: 0, tokensOverspent: 0 }
    }
    const { requests, tokens } = server.permits.left(performance.now())
    const room = Math.max(0, server.slots - server.inFlight)
    const waiting = pool.waiting + Math.min(1, server.canary.held.size)
    const wanted = Math.min(waiting, Math.max(room, 1))
    return {
      requests: waiting === 0 ? 0 : Math.max(0, wanted - requests),
      tokens: Math.max(0, pool.tokensOf(wanted) - tokens),
      tokensOverspent: server.permits.takeOverspent(),
    }
  }

  reclaimPermits(serverId: number): { requests: number; tokens: number } {
    const server = this.#servers.get(serverId)
    return server?.permits.takeUnused(performance.now()) ?? { requests: 0, tokens: 0 }
  }

  inFlight(serverId: number): number {
    return this.#servers.get(serverId)?.inFlight ?? 0
  }

  demand(serverId: number): number {
    const server = this.#servers.get(serverId)
    if (server === undefined) return 0
    const waiting = this.#pools.get(server.model)?.waiting ?? 0
    return server.demand(waiting, performance.now())
  }

  onDemand(listener: (serverId: number) => void): () => void {
    this.#demand.listeners.add(listener)
    return () => this.#demand.listeners.delete(listener)
  }

  onEvent(listener: (event: RouterEvent) => void): () => void {
    this.#eventListeners.add(listener)
    return () => this.#eventListeners.delete(listener)
  }

  score(request: ScoreRequest): Promise<RouterResult> {
    return new Promise((resolve) => {
      const refused = this.#refused(request.signal)
      if (refused !== null) {
        resolve({ ok: false, reason: 'cancelled', detail: refused, attempts: [] })
        return
      }
      const nowMs = performance.now()
      this.#begin(new ScoreSample(request, this.#pool(request.model), resolve, nowMs), nowMs)
    })
  }

  chat(request: RouterChatRequest): Promise<RouterChatResult> {
    return new Promise((resolve) => {
      const refused = this.#refused(request.signal)
      if (refused !== null) {
        resolve({ ok: false, reason: 'cancelled', detail: refused, attempts: [] })
        return
      }
      const nowMs = performance.now()
      this.#begin(new ChatSample(request, this.#pool(request.model), resolve, nowMs), nowMs)
    })
  }

  acquire(request: SlotRequest): Promise<SlotResult> {
    return new Promise((resolve) => {
      if (this.#refused(request.signal) !== null) {
        resolve({ ok: false, reason: 'cancelled' })
        return
      }
      const nowMs = performance.now()
      const pool = this.#pool(request.model)
      if (pool.isFull) {
        resolve({ ok: false, reason: 'queue_full', retryAfterMs: pool.suggestedRetryMs(nowMs) })
        return
      }
      const onRelease: ConstructorParameters<typeof SlotSample>[3] = (flight, end) =>
        this.#life.slotEnded(flight, end)
      this.#begin(new SlotSample(request, pool, resolve, onRelease, nowMs), nowMs)
    })
  }

  models(): { model: string; kind: 'discriminative' | 'generative'; servers: number }[] {
    return [...this.#pools.values()]
      .filter((pool) => pool.servers.length > 0)
      .map((pool) => ({
        model: pool.model,
        kind: pool.servers.some(({ kind }) => kind === 'generative')
          ? 'generative'
          : 'discriminative',
        servers: pool.servers.length,
      }))
  }

  chatTemplate(model: string): string | null {
    const servers = this.#pools.get(model)?.servers ?? []
    return servers.find((server) => server.templateText !== null)?.templateText ?? null
  }

  snapshot(): RouterServerStats[] {
    const nowMs = performance.now()
    return [...this.#servers.values(), ...this.#leaving].map((server) =>
      server.stats(this.#pools.get(server.model)?.waiting ?? 0, nowMs),
    )
  }

  requestFor(serverId: number, input: ScoreInput): ReturnType<RewardRouter['requestFor']> {
    const server = this.#servers.get(serverId)
    if (server === undefined) return null
    try {
      const { path, body } = server.engine.buildScoreRequest(input, server.target)
      return { engine: server.engine.name, path, body: body.toString() }
    } catch {
      // The engine cannot build a request for this sample, because of an image or the chat template.
      return null
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    if (this.#watching !== null) clearInterval(this.#watching)
    this.#watching = null
    this.#life.cancelAll('the router closed')
    this.#demand.close()
    this.#eventListeners.clear()
    const servers = [...this.#servers.values(), ...this.#leaving]
    for (const server of servers) server.remove()
    await Promise.all(servers.map((server) => server.close()))
  }

  start(sample: RoutedSample, server: PoolServer, hedge: HedgeKind | null, nowMs: number): void {
    this.#life.start(sample, server, hedge, nowMs)
  }

  probe(pool: ModelPool, server: PoolServer, nowMs: number): void {
    this.#life.probe(pool, server, nowMs)
  }

  onShort(pool: ModelPool): void {
    this.#demand.poolIsShort(pool)
  }

  onServerIdle(server: PoolServer): void {
    this.#leaving.delete(server)
  }

  onPoolIdle(pool: ModelPool): void {
    pool.hedgeBudget.idle()
    if (pool.servers.length === 0) this.#forget(pool.model, pool)
  }

  onRoom(server: PoolServer): void {
    this.#pools.get(server.model)?.pumpSoon()
  }

  onHealth(
    server: PoolServer,
    from: HealthState,
    to: HealthState,
    cause: string,
    evidence?: RouterEvent['evidence'],
  ): void {
    const pool = this.#pools.get(server.model)
    if (to === 'ejected' || to === 'suspect') pool?.orphan(server)
    else pool?.pumpSoon()
    if (this.#eventListeners.size === 0) return
    const event: RouterEvent = {
      serverId: server.id,
      serverName: server.name,
      from,
      to,
      cause,
      ...(evidence === undefined ? {} : { evidence }),
      atMs: Date.now(),
    }
    for (const listener of this.#eventListeners) listener(event)
  }

  #refused(signal: AbortSignal | undefined): string | null {
    if (this.#closed) return 'the router is closed'
    return signal?.aborted === true ? 'aborted' : null
  }

  #begin(sample: RoutedSample, nowMs: number): void {
    this.#watching ??= this.#watch()
    this.#life.begin(sample, nowMs)
  }

  #watch(): NodeJS.Timeout {
    this.#checkedAtMs = performance.now()
    const timer = setInterval(() => onceRead(() => this.#look(timer)), WATCH_MS)
    timer.unref()
    return timer
  }

  #look(timer: NodeJS.Timeout): void {
    const nowMs = performance.now()
    // After a pause of this process, answers may be about to arrive, so this check is skipped. The next one is never
    // skipped.
    this.#isSkipped = !this.#isSkipped && nowMs - this.#checkedAtMs > LATE_MS
    this.#checkedAtMs = nowMs
    if (this.#isSkipped) return
    this.#life.look(nowMs)
    let samples = 0
    for (const [pool, watch] of this.#watches) {
      samples += pool.sampleCount
      if (pool.sampleCount > 0) watch.look(nowMs, this.#options.hedges !== false)
    }
    if (samples > 0) return
    clearInterval(timer)
    this.#watching = null
  }

  #forget(model: string, pool: ModelPool): void {
    this.#pools.delete(model)
    this.#watches.delete(pool)
  }

  #pool(model: string): ModelPool {
    let pool = this.#pools.get(model)
    if (pool === undefined) {
      pool = new ModelPool(model, this, this.#options)
      const policy = this.#policies.get(model)
      if (policy !== undefined) pool.policy = policy
      this.#pools.set(model, pool)
      const giveUp = (flight: Flight, nowMs: number, detail: string) =>
        this.#life.giveUp(flight, nowMs, detail)
      this.#watches.set(pool, new PoolWatch(pool, giveUp))
    }
    return pool
  }
}
