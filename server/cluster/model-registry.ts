import { mostInFlight } from '../contract/servers.ts'
import type { Logger } from '../log.ts'
import type { RewardRouter, RouterServer } from '../router/router-types.ts'
import { SharedRead } from '../shared-read.ts'
import { type Database, isOutage } from '../store/database.ts'
import { workersAlive } from '../store/sql/fleet.ts'
import { allPools } from '../store/sql/pools.ts'
import { activeServers, type ServerRow } from '../store/sql/servers.ts'
import { CALLS_GRACE_MS, type LeaseHolder } from './lease-holder.ts'
import type { RatePermits } from './rate-permits.ts'

/**
 * If a server's limit is at least this high, a process keeps one slot for 5 s after its last call, so that a single
 * call does not wait for a lease.
 */
const KEEP_WARM_FROM = 8
const KEEP_WARM_MS = 5_000
/** The registry is reloaded this often, because notifications may be lost. */
const RELOAD_MS = 2_000
/** The router's adaptive limits are read at most this often. */
const LIMITS_TTL_MS = 100

/** A pool's balancing policy; null is the router's default. */
type Policy = Parameters<RewardRouter['setPolicy']>[1]

/**
 * Keeps this process's copy of the registered servers: passes them to the router, leases their limits and tracks their
 * rate limits.
 */
export class ModelRegistry {
  readonly #db: Database
  readonly #router: RewardRouter
  readonly #leases: LeaseHolder
  readonly #permits: RatePermits
  readonly #log: Logger
  #servers: RouterServer[] = []
  #byModel = new Map<string, number[]>()
  /** Maximum number of samples in flight over all processes, by server. */
  #limits = new Map<number, number>()
  #routerLimits = new Map<number, number>()
  #routerLimitsUntilMs = 0
  /** Number of live workers, at least 1. */
  #workers = 1
  /** The ids of the live workers, in ascending order. */
  #workerIds: number[] = []
  readonly #lastUse = new Map<number, number>()
  readonly #reading = new SharedRead(() => this.#read())
  readonly #timer: NodeJS.Timeout
  readonly #stopListening: () => void
  #closed = false
  /** Called for every pool after each reload, and again when a pool may have gained slots. */
  onPool: (name: string, model: string | null) => void = () => {}
  readonly #pools = new Map<string, string>()
  readonly #policies = new Map<string, Policy>()

  constructor(parts: {
    db: Database
    router: RewardRouter
    leases: LeaseHolder
    permits: RatePermits
    log: Logger
  }) {
    this.#db = parts.db
    this.#router = parts.router
    this.#leases = parts.leases
    this.#permits = parts.permits
    this.#log = parts.log
    this.#stopListening = parts.router.onDemand((serverId) => {
      this.#lastUse.set(serverId, performance.now())
      const lease = leaseOf(serverId)
      if (parts.router.demand(serverId) > parts.leases.slots(lease)) parts.leases.want(lease)
      parts.permits.want(serverId)
    })
    this.#timer = setInterval(() => void this.reload(), RELOAD_MS)
    this.#timer.unref()
  }

  /** The servers as passed to the router, API keys included. */
  get servers(): readonly RouterServer[] {
    return this.#servers
  }

  /** Samples that this process may have in flight to a model's servers. */
  slotsOf(model: string): number {
    let n = 0
    for (const id of this.#byModel.get(model) ?? []) {
      n += Math.min(this.#leases.slots(leaseOf(id)), this.#routerLimit(id))
    }
    return n
  }

  /** This process's equal part of a model's total limit over all workers. */
  fairShareOf(model: string): number {
    let limit = 0
    for (const id of this.#byModel.get(model) ?? []) {
      limit += Math.min((this.#limits.get(id) ?? 0) / this.#workers, this.#routerLimit(id))
    }
    return Math.floor(limit)
  }

  /**
   * Whether this worker fetches jobs first after the notification with the number `turn`. The other workers wait a
   * moment.
   */
  isTurnOf(workerId: number, turn: number): boolean {
    // Ids may have gaps, so turns go by the position among the live workers.
    return this.#workerIds.length === 0 || this.#workerIds[turn % this.#workers] === workerId
  }

  wantSlots(model: string): void {
    for (const id of this.#byModel.get(model) ?? []) this.#leases.want(leaseOf(id), 1)
  }

  /** Reads servers and pools again. A failed read is only logged; the next one follows within 2 s. */
  reload(): Promise<void> {
    return this.refresh().catch((error: Error) =>
      this.#log[isOutage(error) ? 'debug' : 'warn'](
        { err: error.message },
        'registry reload failed',
      ),
    )
  }

  /**
   * Reads servers and pools again. The read begins after the call, so it finds every server that was registered before.
   * @throws the error of the read
   */
  refresh(): Promise<void> {
    return this.#reading.run()
  }

  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#timer)
    this.#stopListening()
    await this.#reading.settled()
  }

  async #read(): Promise<void> {
    if (this.#closed) return
    const servers = await activeServers(this.#db)
    const alive = await workersAlive(this.#db)
    const pools = await allPools(this.#db)
    if (this.#closed) return
    const workers = Math.max(1, alive.length)
    if (workers !== this.#workers) this.#router.setProcesses(workers)
    this.#workers = workers
    this.#workerIds = alive
    this.#take(servers)
    for (const { name, model, policy } of pools) {
      if (model !== null) {
        this.#pools.set(model, name)
        if ((this.#policies.get(model) ?? null) !== policy) this.#router.setPolicy(model, policy)
        this.#policies.set(model, policy)
      }
      this.onPool(name, model)
    }
  }

  #take(rows: readonly ServerRow[]): void {
    this.#servers = rows.map(toRouterServer)
    this.#router.setServers(this.#servers)
    const limits = new Map<number, number>()
    const byModel = new Map<string, number[]>()
    for (const row of rows) {
      const limit = mostInFlight(row.maxInFlight, row.maxConcurrent)
      limits.set(row.id, limit)
      byModel.set(row.model, [...(byModel.get(row.model) ?? []), row.id])
      this.#track(row.id, row.model, limit)
      this.#permits.track(row.id, { rpm: row.rpm, tpm: row.tpm })
    }
    for (const id of this.#limits.keys()) {
      if (limits.has(id)) continue
      this.#leases.forget(leaseOf(id))
      this.#permits.forget(id)
      this.#lastUse.delete(id)
    }
    this.#limits = limits
    this.#byModel = byModel
  }

  #track(id: number, model: string, limit: number): void {
    const usedRecently = () =>
      limit >= KEEP_WARM_FROM &&
      performance.now() - (this.#lastUse.get(id) ?? -KEEP_WARM_MS) < KEEP_WARM_MS
    let slots = 0
    this.#leases.track({
      name: leaseOf(id),
      limit,
      graceMs: CALLS_GRACE_MS,
      demand: () => {
        const demand = this.#router.demand(id)
        if (demand > 0) this.#lastUse.set(id, performance.now())
        return demand > 0 ? demand : usedRecently() ? 1 : 0
      },
      inFlight: () => this.#router.inFlight(id),
      recall: () => this.#router.recall(id),
      setSlots: (granted, untilMs, others) => {
        this.#router.setSlots(id, granted, untilMs, others)
        const more = granted > slots
        slots = granted
        const pool = this.#pools.get(model)
        if (more && pool) this.onPool(pool, model)
      },
    })
  }

  /**
   * The router's own limit. An adaptive limit may be far below the leased slots, and samples beyond it would only
   * wait in this process.
   */
  #routerLimit(id: number): number {
    const nowMs = performance.now()
    if (nowMs >= this.#routerLimitsUntilMs) {
      this.#routerLimitsUntilMs = nowMs + LIMITS_TTL_MS
      this.#routerLimits = new Map(this.#router.snapshot().map((s) => [s.serverId, s.limit]))
    }
    return this.#routerLimits.get(id) ?? Number.POSITIVE_INFINITY
  }
}

function leaseOf(serverId: number): string {
  return `server:${serverId}`
}

function toRouterServer(row: ServerRow): RouterServer {
  return {
    id: row.id,
    name: row.name,
    url: row.url,
    engine: row.engine,
    kind: row.kind,
    model: row.model,
    version: row.version,
    route: row.route,
    label: row.label,
    plainText: row.plainText,
    chatTemplate: row.chatTemplate,
    maxConcurrent: row.maxConcurrent,
    weight: row.weight,
    maxInFlight: row.maxInFlight,
    limited: { requests: row.rpm !== null, tokens: row.tpm !== null },
    apiKey: row.apiKey,
    state: row.state,
  }
}
