import { DemandNotifier } from './demand-notifier.ts'
import { ModelPool } from './model-pool.ts'
import { PoolServer, type PoolServerListener } from './pool-server.ts'
import type {
  HealthState,
  RewardRouter,
  RouterEvent,
  RouterOptions,
  RouterResult,
  RouterServer,
  RouterServerStats,
  ScoreRequest,
} from './router-types.ts'
import { Row } from './row.ts'
import { RowLife, type RowLifeOwner } from './row-life.ts'

/** Makes a router without servers; rows wait until it has some. */
export function createRewardRouter(options: RouterOptions = {}): RewardRouter {
  return new Router(options)
}

/** The registry's servers, their pools, and what is told of them; a row's way is {@link RowLife}'s. */
class Router implements RewardRouter, RowLifeOwner, PoolServerListener {
  readonly #servers = new Map<number, PoolServer>()
  /** Servers gone from the registry with calls still in flight. */
  readonly #leaving = new Set<PoolServer>()
  readonly #pools = new Map<string, ModelPool>()
  readonly #life = new RowLife(this)
  readonly #demand = new DemandNotifier()
  readonly #eventListeners = new Set<(event: RouterEvent) => void>()
  readonly #options: RouterOptions
  #closed = false

  constructor(options: RouterOptions) {
    this.#options = options
  }

  setServers(configs: readonly RouterServer[]): void {
    if (this.#closed) return
    const kept = new Set<number>()
    for (const config of configs) {
      kept.add(config.id)
      const known = this.#servers.get(config.id)
      if (known === undefined) {
        const server = new PoolServer(config, this, this.#options)
        this.#servers.set(config.id, server)
        this.#pool(config.model).add(server)
      } else {
        const before = known.model
        known.update(config)
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
      // Rows in back-off still hold an emptied pool; they wait in it for a server that may come back.
      if (pool.servers.length === 0 && pool.rowCount === 0) this.#pools.delete(model)
      else pool.pumpSoon()
    }
  }

  setSlots(serverId: number, slots: number): void {
    const server = this.#servers.get(serverId)
    if (server === undefined) return
    server.slots = slots
    this.#demand.slotsGiven(server)
    this.#pools.get(server.model)?.pumpSoon()
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
      if (this.#closed || request.signal?.aborted === true) {
        const detail = this.#closed ? 'the router is closed' : 'aborted'
        resolve({ ok: false, reason: 'cancelled', detail, attempts: [] })
        return
      }
      const nowMs = performance.now()
      this.#life.begin(new Row(request, this.#pool(request.model), resolve, nowMs), nowMs)
    })
  }

  snapshot(): RouterServerStats[] {
    const nowMs = performance.now()
    return [...this.#servers.values(), ...this.#leaving].map((server) =>
      server.stats(this.#pools.get(server.model)?.waiting ?? 0, nowMs),
    )
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#life.cancelAll('the router was closed')
    this.#demand.close()
    this.#eventListeners.clear()
    const servers = [...this.#servers.values(), ...this.#leaving]
    for (const server of servers) server.remove()
    await Promise.all(servers.map((server) => server.close()))
  }

  onServerIdle(server: PoolServer): void {
    this.#leaving.delete(server)
  }

  onPoolIdle(pool: ModelPool): void {
    if (pool.servers.length === 0) this.#pools.delete(pool.model)
  }

  onRoom(server: PoolServer): void {
    this.#pools.get(server.model)?.pumpSoon()
  }

  onHealth(server: PoolServer, from: HealthState, to: HealthState, cause: string): void {
    if (this.#eventListeners.size === 0) return
    const event = {
      serverId: server.id,
      serverName: server.name,
      from,
      to,
      cause,
      atMs: Date.now(),
    }
    for (const listener of this.#eventListeners) listener(event)
  }

  #pool(model: string): ModelPool {
    let pool = this.#pools.get(model)
    if (pool === undefined) {
      pool = new ModelPool(
        model,
        (row, server, nowMs) => this.#life.start(row, server, nowMs),
        (short) => this.#demand.poolIsShort(short),
        this.#options.patienceMs,
      )
      this.#pools.set(model, pool)
    }
    return pool
  }
}
