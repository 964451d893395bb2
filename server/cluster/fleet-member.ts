import type { WorkerServerStats } from '../contract/worker-stats.ts'
import type { Logger } from '../log.ts'
import { createRewardRouter } from '../router/reward-router.ts'
import type { RewardRouter, RouterOptions } from '../router/router-types.ts'
import type { Database } from '../store/database.ts'
import { LeaseHolder } from './lease-holder.ts'
import { LoadWatch } from './load-watch.ts'
import { ModelRegistry } from './model-registry.ts'
import { RatePermits } from './rate-permits.ts'
import { RouterReport } from './router-report.ts'

/** Who a process is among those that share the servers. */
export interface FleetMemberOptions {
  /** Under which it leases: the id of its row in `process`. */
  holderId: number
  /** How it is named in events: `w3`, `server-4`. */
  process: string
  db: Database
  log: Logger
  router?: RouterOptions
}

/**
 * A process's part of the fleet: a router, fed with the registered servers and with this process's share of their limits,
 * and what it did and saw written down.
 */
export class FleetMember {
  readonly router: RewardRouter
  readonly leases: LeaseHolder
  readonly permits: RatePermits
  readonly models: ModelRegistry
  readonly #loads: LoadWatch
  readonly #report: RouterReport

  constructor(options: FleetMemberOptions) {
    const { db, log, holderId, process } = options
    const router = createRewardRouter(options.router)
    this.router = router
    this.leases = new LeaseHolder(db, holderId, log)
    this.permits = new RatePermits(db, router, log)
    this.models = new ModelRegistry({
      db,
      router,
      leases: this.leases,
      permits: this.permits,
      log,
    })
    this.#loads = new LoadWatch({ router, servers: () => this.models.servers })
    this.#report = new RouterReport({ db, router, process, log })
  }

  /** Resolves when the servers are known, as far as the database answers. */
  start(): Promise<void> {
    return this.models.reload()
  }

  /** The registry, or what it says of a server, has changed. */
  reload(): Promise<void> {
    return this.models.reload()
  }

  /** The servers as this process sees them, by id. */
  servers(): Record<string, WorkerServerStats> {
    return this.#report.servers()
  }

  /** Ends every call, gives back what it holds, writes what is not written yet. */
  async close(): Promise<void> {
    this.#loads.close()
    await this.models.close()
    await this.router.close()
    await Promise.all([this.leases.close(), this.permits.close(), this.#report.close()])
  }
}
