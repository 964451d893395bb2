import type { Logger } from '../log.ts'
import type { EngineName, RewardRouter, RouterServer } from '../router/router-types.ts'
import type { Database } from '../store/database.ts'
import { activeServers } from '../store/sql/servers.ts'
import { DEFAULT_MAX_IN_FLIGHT } from '../wire/servers.ts'
import type { LeaseHolder } from './lease-holder.ts'

/** From this limit on a worker keeps one slot for a while after its last call: the next single call finds it. */
const KEEP_WARM_FROM = 8
const KEEP_WARM_MS = 5_000
/** Notifications may be lost; the registry is read again this often. */
const RELOAD_MS = 2_000

/** The registered servers as this worker sees them: handed to the router, and their limits leased. */
export class ModelRegistry {
  readonly #db: Database
  readonly #router: RewardRouter
  readonly #leases: LeaseHolder
  readonly #log: Logger
  #byModel = new Map<string, number[]>()
  #limits = new Map<number, number>()
  #workers = 1
  readonly #lastUse = new Map<number, number>()
  #reloading: Promise<void> | null = null
  #again = false
  /** Called for every pool there is, and again when it may have got slots. */
  onPool: (name: string, model: string | null) => void = () => {}
  readonly #pools = new Map<string, string>()

  constructor(db: Database, router: RewardRouter, leases: LeaseHolder, log: Logger) {
    this.#db = db
    this.#router = router
    this.#leases = leases
    this.#log = log
    router.onDemand((serverId) => {
      this.#lastUse.set(serverId, performance.now())
      leases.want(`server:${serverId}`)
    })
    setInterval(() => void this.reload(), RELOAD_MS).unref()
  }

  /** Calls in flight this worker may have of a model, over its servers. */
  slotsOf(model: string): number {
    let n = 0
    for (const id of this.#byModel.get(model) ?? []) n += this.#leases.slots(`server:${id}`)
    return n
  }

  /** This worker's equal part of what all workers together may have in flight of a model. */
  fairShareOf(model: string): number {
    let limit = 0
    for (const id of this.#byModel.get(model) ?? []) limit += this.#limits.get(id) ?? 0
    return Math.floor(limit / this.#workers)
  }

  /** Whether a worker is the one to look first at what was announced with this number. */
  isTurnOf(workerId: number, turn: number): boolean {
    return workerId % this.#workers === turn % this.#workers
  }

  /** There is work for a model and no slot. */
  wantSlots(model: string): void {
    for (const id of this.#byModel.get(model) ?? []) this.#leases.want(`server:${id}`, 1)
  }

  /** Reads servers and pools; calls that come meanwhile are answered by one more reading. */
  reload(): Promise<void> {
    if (this.#reloading) {
      this.#again = true
      return this.#reloading
    }
    this.#reloading = this.#read()
      .catch((error: Error) => this.#log.debug({ err: error.message }, 'registry not read'))
      .finally(() => {
        this.#reloading = null
        if (this.#again) {
          this.#again = false
          void this.reload()
        }
      })
    return this.#reloading
  }

  async #read(): Promise<void> {
    const servers = await activeServers(this.#db)
    this.#router.setServers(
      servers.map(
        (s): RouterServer => ({
          id: s.id,
          name: s.name,
          url: s.url,
          engine: s.engine as EngineName,
          model: s.model,
          version: s.version,
          weight: s.weight,
          maxInFlight: s.max_in_flight,
          apiKey: s.api_key,
          state: s.state,
        }),
      ),
    )
    const limits = new Map<number, number>()
    const byModel = new Map<string, number[]>()
    for (const server of servers) {
      const limit = server.max_in_flight ?? DEFAULT_MAX_IN_FLIGHT
      limits.set(server.id, limit)
      byModel.set(server.model, [...(byModel.get(server.model) ?? []), server.id])
      this.#track(server.id, server.model, limit)
    }
    for (const id of this.#limits.keys()) if (!limits.has(id)) this.#leases.forget(`server:${id}`)
    this.#limits = limits
    this.#byModel = byModel
    const [alive] = await this.#db.rows<{ n: number }>(
      'workers-alive',
      `select count(*)::int as n from worker where state = 'alive' and last_seen_at > now() - interval '5 seconds'`,
    )
    this.#workers = Math.max(1, alive?.n ?? 1)
    const pools = await this.#db.rows<{ name: string; model: string | null }>(
      'pools',
      'select name, model from pool',
    )
    for (const pool of pools) {
      if (pool.model !== null) this.#pools.set(pool.model, pool.name)
      this.onPool(pool.name, pool.model)
    }
  }

  #track(id: number, model: string, limit: number): void {
    const usedLately = () =>
      limit >= KEEP_WARM_FROM &&
      performance.now() - (this.#lastUse.get(id) ?? -KEEP_WARM_MS) < KEEP_WARM_MS
    let slots = 0
    this.#leases.track({
      name: `server:${id}`,
      limit,
      demand: () => {
        const demand = this.#router.demand(id)
        if (demand > 0) this.#lastUse.set(id, performance.now())
        return demand > 0 ? demand : usedLately() ? 1 : 0
      },
      inFlight: () => this.#router.snapshot().find((s) => s.serverId === id)?.inFlight ?? 0,
      setSlots: (granted) => {
        this.#router.setSlots(id, granted)
        const more = granted > slots
        slots = granted
        const pool = this.#pools.get(model)
        if (more && pool) this.onPool(pool, model)
      },
    })
  }
}
