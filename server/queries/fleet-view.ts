import { DEAD_AFTER_MS } from '../cluster/process-row.ts'
import type { WorkerDto } from '../contract/pages.ts'
import { type BalancingPolicyName, DEFAULT_POLICY, type PoolDto } from '../contract/pools.ts'
import type { ServerDto } from '../contract/servers.ts'
import type { WorkerServerStats, WorkerStats } from '../contract/worker-stats.ts'
import { RewardOpsError } from '../errors.ts'
import { Memo } from '../memo.ts'
import type { Database } from '../store/database.ts'
import {
  otherServerProcesses,
  type RecentCalls,
  type ServerProcessRow,
  serverMinutes,
  type WorkerRow,
  workerRows,
} from '../store/sql/fleet.ts'
import { type PoolRow, poolRows, setPoolPolicy } from '../store/sql/pools.ts'
import { activeServers, type ServerRow } from '../store/sql/servers.ts'
import { toServerDto } from './server-dto.ts'

export interface SeenFleet {
  servers: ServerDto[]
  /** The servers' statistics in each live process (`w3`, `server-4`), by server number. */
  workers: { workerId: string; servers: Record<string, WorkerServerStats> }[]
  /** Calls in the last ten minutes, by server number. */
  recent: Map<number, RecentCalls>
}

export class FleetView {
  readonly #db: Database
  readonly #processId: number
  readonly #own: () => Record<string, WorkerServerStats>
  readonly #otherServers = new Memo<ServerProcessRow[]>(400)
  readonly #workers = new Memo<WorkerRow[]>(400)
  readonly #minutes = new Memo<RecentCalls[]>(2_000)

  /** @param own returns this process's statistics of the servers that it calls for clients of the router address */
  constructor(
    db: Database,
    processId = 0,
    own: () => Record<string, WorkerServerStats> = () => ({}),
  ) {
    this.#db = db
    this.#processId = processId
    this.#own = own
  }

  async workers(): Promise<WorkerDto[]> {
    return (await this.#rows()).map(toWorker)
  }

  async servers(): Promise<ServerDto[]> {
    return (await this.seen()).servers
  }

  async seen(): Promise<SeenFleet> {
    return this.#describe(await activeServers(this.#db))
  }

  /** A server with the workers' statistics, even if it was removed. */
  async describe(row: ServerRow): Promise<ServerDto> {
    // A server's share depends on its whole pool, so all servers are described.
    const server = (await this.servers()).find(({ id }) => id === `s${row.id}`)
    return server ?? ((await this.#describe([row])).servers[0] as ServerDto)
  }

  async pools(): Promise<PoolDto[]> {
    return (await poolRows(this.#db)).map(toPool)
  }

  /**
   * Sets the balancing policy of a model's pool, or restores the default if the policy is null.
   * @throws RewardOpsError `unknown_model`
   */
  async setPolicy({
    model,
    policy,
  }: {
    model: string
    policy: BalancingPolicyName | null
  }): Promise<PoolDto> {
    if (!(await setPoolPolicy(this.#db, model, policy))) {
      throw new RewardOpsError('unknown_model', `No server of "${model}" was ever registered.`)
    }
    const pool = (await poolRows(this.#db)).find((row) => row.model === model)
    return toPool(pool ?? { model, policy, servers: 0, ready: 0, jobs_waiting: 0 })
  }

  async #describe(rows: ServerRow[]): Promise<SeenFleet> {
    const [workers, others, minutes] = await Promise.all([
      this.#rows(),
      this.#otherServers.get('', () => otherServerProcesses(this.#db, this.#processId)),
      this.#minutes.get('', () => serverMinutes(this.#db)),
    ])
    const live = workers
      .filter((w) => isAlive(w))
      .map((w) => ({ workerId: `w${w.id}`, servers: statsOf(w).servers ?? {} }))
    live.push({ workerId: `server-${this.#processId}`, servers: this.#own() })
    for (const { id, stats } of others) {
      live.push({
        workerId: `server-${id}`,
        servers: (stats as Partial<WorkerStats>).servers ?? {},
      })
    }
    const recent = new Map(minutes.map((m) => [m.server_id, m]))
    const requestsOfModel = new Map<string, number>()
    for (const row of rows) {
      const n = recent.get(row.id)?.requests ?? 0
      requestsOfModel.set(row.model, (requestsOfModel.get(row.model) ?? 0) + n)
    }
    const byUrl = Map.groupBy(rows, ({ url }) => url)
    const servers = rows.map((row) =>
      toServerDto(row, {
        stats: live.flatMap(({ servers: stats }) => stats[row.id] ?? []),
        recent: recent.get(row.id),
        poolRequests: requestsOfModel.get(row.model) ?? 0,
        twin: byUrl.get(row.url)?.find(({ id }) => id !== row.id)?.name ?? null,
      }),
    )
    return { servers, workers: live, recent }
  }

  #rows(): Promise<WorkerRow[]> {
    return this.#workers.get('', () => workerRows(this.#db))
  }
}

function toPool(row: PoolRow): PoolDto {
  return {
    model: row.model,
    policy: row.policy ?? DEFAULT_POLICY,
    hasChosenPolicy: row.policy !== null,
    servers: row.servers,
    ready: row.ready,
    jobsWaiting: row.jobs_waiting,
  }
}

function isAlive(row: WorkerRow): boolean {
  return row.state === 'alive' && row.seen_ms_ago < DEAD_AFTER_MS
}

function statsOf(row: WorkerRow): Partial<WorkerStats> {
  return row.stats as Partial<WorkerStats>
}

function toWorker(row: WorkerRow): WorkerDto {
  const stats = statsOf(row)
  const alive = isAlive(row)
  return {
    id: `w${row.id}`,
    host: row.host,
    pid: row.pid,
    state: alive
      ? 'alive'
      : row.state === 'stopping' && row.seen_ms_ago < 2 * DEAD_AFTER_MS
        ? 'stopping'
        : 'dead',
    startedAt: row.started_at.toISOString(),
    lastSeenAt: row.last_seen_at.toISOString(),
    local: row.local,
    samplesPerSecond: alive ? (stats.samplesPerSecond ?? 0) : 0,
    inFlight: alive ? (stats.inFlight ?? 0) : 0,
    inUse: alive ? (stats.inUse ?? 0) : 0,
    capacity: alive ? (stats.capacity ?? 0) : 0,
    eventLoopP99Ms: stats.eventLoopP99Ms ?? 0,
    eventLoopMaxMs: stats.eventLoopMaxMs ?? 0,
    rssBytes: stats.rssBytes ?? 0,
    scoredTotal: stats.scoredTotal ?? 0,
    failedTotal: stats.failedTotal ?? 0,
    samplesPerSecondHistory: stats.history ?? [],
    requeued: row.requeued,
    functionProblem: alive ? (stats.functionProblem ?? null) : null,
  }
}
