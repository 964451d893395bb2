import { LatencyHistogram } from '../../router/latency-histogram.ts'
import type { Database } from '../../store/database.ts'
import { serverMinutes, type WorkerRow, workerRows } from '../../store/sql/fleet.ts'
import { activeServers, type ServerRow } from '../../store/sql/servers.ts'
import type { WorkerDto } from '../../wire/pages.ts'
import { DEFAULT_MAX_IN_FLIGHT, type ServerDto } from '../../wire/servers.ts'
import type { WorkerStats } from '../../wire/worker-stats.ts'
import { Memo } from '../memo.ts'
import { DEAD_AFTER_MS } from '../worker-supervisor.ts'

/** The workers and servers as the pages and `servers.*` show them. */
export class FleetView {
  readonly #db: Database
  readonly #workers = new Memo<WorkerRow[]>(400)
  readonly #minutes = new Memo<Awaited<ReturnType<typeof serverMinutes>>>(2_000)

  constructor(db: Database) {
    this.#db = db
  }

  async workers(): Promise<WorkerDto[]> {
    return (await this.#rows()).map(toWorker)
  }

  async servers(): Promise<ServerDto[]> {
    return this.describe(await activeServers(this.#db))
  }

  /** Rows with what the workers report of them. */
  async describe(rows: ServerRow[]): Promise<ServerDto[]> {
    const [workers, minutes] = await Promise.all([
      this.#rows(),
      this.#minutes.get('', () => serverMinutes(this.#db)),
    ])
    const live = workers.filter((w) => isAlive(w)).map((w) => statsOf(w))
    const byId = new Map(minutes.map((m) => [m.server_id, m]))
    const requestsOfModel = new Map<string, number>()
    for (const row of rows) {
      const n = byId.get(row.id)?.requests ?? 0
      requestsOfModel.set(row.model, (requestsOfModel.get(row.model) ?? 0) + n)
    }
    return rows.map((row) => {
      const recent = byId.get(row.id)
      const latency = recent?.latency_ms ? LatencyHistogram.from(recent.latency_ms) : null
      const total = requestsOfModel.get(row.model) ?? 0
      let inFlight = 0
      let requestsPerSecond = 0
      for (const stats of live) {
        inFlight += stats.servers?.[row.id]?.inFlight ?? 0
        requestsPerSecond += stats.servers?.[row.id]?.requestsPerSecond ?? 0
      }
      return {
        id: `s${row.id}`,
        name: row.name,
        url: row.url,
        engine: row.engine as ServerDto['engine'],
        kind: row.kind,
        model: row.model,
        state: row.state,
        stateCause: row.state_cause,
        stateSince: row.state_since.toISOString(),
        version: row.version,
        maxModelLen: row.max_model_len,
        weight: row.weight,
        tags: row.tags,
        inFlight,
        limit: row.max_in_flight ?? DEFAULT_MAX_IN_FLIGHT,
        requests: Number(row.requests),
        errors: Number(row.errors),
        retries: Number(row.retries),
        p50Ms: latency?.quantile(0.5) ?? null,
        p99Ms: latency?.quantile(0.99) ?? null,
        requestsPerSecond,
        share: total > 0 ? (recent?.requests ?? 0) / total : null,
        lastProbeAt: row.last_probe_at?.toISOString() ?? null,
        selfTest: null,
      }
    })
  }

  #rows(): Promise<WorkerRow[]> {
    return this.#workers.get('', () => workerRows(this.#db))
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
    held: alive ? (stats.held ?? 0) : 0,
    room: alive ? (stats.room ?? 0) : 0,
    eventLoopP99Ms: stats.eventLoopP99Ms ?? 0,
    eventLoopMaxMs: stats.eventLoopMaxMs ?? 0,
    rssBytes: stats.rssBytes ?? 0,
    scoredTotal: stats.scoredTotal ?? 0,
    failedTotal: stats.failedTotal ?? 0,
    samplesPerSecondHistory: stats.history ?? [],
    requeued: row.requeued,
  }
}
