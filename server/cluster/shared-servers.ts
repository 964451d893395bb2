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

export interface SharedServersOptions {
  /** The id of the process's row in `process`, which owns the leases. */
  holderId: number
  /** The process's name in events: `w3`, `server-4`. */
  process: string
  db: Database
  log: Logger
  router?: RouterOptions
}

/**
 * One process's access to the shared reward-model servers: a router, kept up to date with the registered servers and
 * this process's share of their limits. Calls and health changes are written to the database.
 */
export class SharedServers {
  readonly router: RewardRouter
  readonly leases: LeaseHolder
  readonly permits: RatePermits
  readonly models: ModelRegistry
  readonly #loads: LoadWatch
  readonly #report: RouterReport

  constructor(options: SharedServersOptions) {
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

  /** Resolves after the first read of the registry; a failed read is retried in the background. */
  start(): Promise<void> {
    return this.models.reload()
  }

  reload(): Promise<void> {
    return this.models.reload()
  }

  /** Reads the registry again for a caller that needs its current state. Throws if the read fails. */
  refresh(): Promise<void> {
    return this.models.refresh()
  }

  stats(): Record<string, WorkerServerStats> {
    return this.#report.servers()
  }

  async close(): Promise<void> {
    this.#loads.close()
    await this.models.close()
    await this.router.close()
    await Promise.all([this.leases.close(), this.permits.close(), this.#report.close()])
  }
}
