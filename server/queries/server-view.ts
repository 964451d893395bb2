import {
  type PoolShareDto,
  type ServerDetailDto,
  type ServerMinuteDto,
  type ServerMonitorDto,
  SHOWN_MINUTES,
} from '../contract/server-detail.ts'
import type { ServerDto } from '../contract/servers.ts'
import { RewardOpsError } from '../errors.ts'
import { Memo } from '../memo.ts'
import { LatencyHistogram } from '../router/latency-histogram.ts'
import type { DatabaseClock } from '../store/clock.ts'
import type { Database } from '../store/database.ts'
import { toDto } from '../store/row-of.ts'
import { retriesByServer } from '../store/sql/retries.ts'
import {
  chatTemplateOfServer,
  lastMinutes,
  type ServerMinuteRow,
  serverEvents,
} from '../store/sql/server-detail.ts'
import type { FleetView, SeenFleet } from './fleet-view.ts'
import { monitorPool, type WatchedServer } from './server-monitors.ts'

const MAX_EVENTS = 200
const RETRIES_TTL_MS = 5_000

export class ServerView {
  readonly #db: Database
  readonly #fleet: FleetView
  readonly #clock: DatabaseClock
  readonly #retries = new Memo<Awaited<ReturnType<typeof retriesByServer>>>(RETRIES_TTL_MS)

  constructor(db: Database, fleet: FleetView, clock: DatabaseClock) {
    this.#db = db
    this.#fleet = fleet
    this.#clock = clock
  }

  /** @throws RewardOpsError `server_not_found` */
  async get(ref: { id?: string | undefined; name?: string | undefined }): Promise<ServerDetailDto> {
    const fleet = await this.#fleet.seen()
    const server = fleet.servers.find((s) =>
      ref.id === undefined ? s.name === ref.name : s.id === ref.id,
    )
    if (!server) {
      throw new RewardOpsError(
        'server_not_found',
        `There is no server ${ref.id ?? `"${ref.name}"`}.`,
      )
    }
    const number = Number(server.id.slice(1))
    const [events, minutes, retries, chatTemplate] = await Promise.all([
      serverEvents(this.#db, number, MAX_EVENTS + 1),
      lastMinutes(this.#db, number, SHOWN_MINUTES),
      this.#retries.get('', () => retriesByServer(this.#db)),
      chatTemplateOfServer(this.#db, number),
    ])
    const pool = poolOf(fleet, server.model)
    return {
      ...server,
      chatTemplate,
      events: events.slice(0, MAX_EVENTS).map(toDto),
      hasMoreEvents: events.length > MAX_EVENTS,
      minutes: minutes.map(toMinute),
      pool,
      imbalance: imbalanceOf(pool),
      workers: fleet.workers.flatMap(({ workerId, servers }) => {
        const stats = servers[number]
        return stats ? [{ workerId, ...stats }] : []
      }),
      monitors: monitorPool(
        watched(fleet, server.model, pool, retries, this.#clock.nowMs()),
      ).filter((m) => m.serverId === server.id),
    }
  }

  async monitors(): Promise<ServerMonitorDto[]> {
    const fleet = await this.#fleet.seen()
    const retries = await this.#retries.get('', () => retriesByServer(this.#db))
    return [...new Set(fleet.servers.map((s) => s.model))].flatMap((model) =>
      monitorPool(watched(fleet, model, poolOf(fleet, model), retries, this.#clock.nowMs())),
    )
  }
}

function poolOf(fleet: SeenFleet, model: string): PoolShareDto[] {
  const servers = fleet.servers.filter((s) => s.model === model)
  const ready = servers.filter((s) => s.state === 'ready')
  const measured = new Map(ready.map((s) => [s.id, tokensPerSecond(fleet, s)]))
  const isMeasured = ready.length > 0 && [...measured.values()].every((rate) => rate !== null)
  const capacityOf = (s: ServerDto): number =>
    s.state !== 'ready' ? 0 : isMeasured ? (measured.get(s.id) as number) : s.weight * s.limit
  const total = servers.reduce((n, s) => n + capacityOf(s), 0)
  return servers.map((s) => ({
    id: s.id,
    name: s.name,
    state: s.state,
    requestShare: s.share,
    capacityShare: total > 0 ? capacityOf(s) / total : 0,
  }))
}

/** Tokens per second over all processes, or null if not measured. */
function tokensPerSecond(fleet: SeenFleet, server: ServerDto): number | null {
  const rates = fleet.workers.flatMap(({ servers }) => {
    const rate = servers[Number(server.id.slice(1))]?.tokensPerSecond
    return typeof rate === 'number' ? [rate] : []
  })
  return rates.length === 0 ? null : rates.reduce((a, b) => a + b, 0)
}

function imbalanceOf(pool: readonly PoolShareDto[]): number | null {
  const ratios = pool.flatMap((s) =>
    s.requestShare === null || s.capacityShare === 0 ? [] : [s.requestShare / s.capacityShare],
  )
  return ratios.length === 0 ? null : Math.max(...ratios)
}

function watched(
  fleet: SeenFleet,
  model: string,
  pool: readonly PoolShareDto[],
  retries: Awaited<ReturnType<typeof retriesByServer>>,
  nowMs: number,
): WatchedServer[] {
  return fleet.servers
    .filter((s) => s.model === model)
    .map((server) => {
      const number = Number(server.id.slice(1))
      const recent = fleet.recent.get(number)
      const again = retries.find((r) => r.server_id === number)
      return {
        id: server.id,
        name: server.name,
        model,
        state: server.state,
        inStateMs: nowMs - Date.parse(server.stateSince),
        requests: recent?.requests ?? 0,
        errors: recent?.errors ?? 0,
        client: recent?.client ?? 0,
        busy: recent?.busy ?? 0,
        corrupt: recent?.corrupt ?? 0,
        p50Ms: server.p50Ms,
        health: server.health,
        capacityShare: pool.find((p) => p.id === server.id)?.capacityShare ?? 0,
        retries: again?.retries ?? 0,
        retriesBack: again?.same ?? 0,
        selfTest: server.selfTest,
      }
    })
}

function toMinute(row: ServerMinuteRow): ServerMinuteDto {
  const { latency_ms, minute, ...counts } = row
  const latency = LatencyHistogram.from(latency_ms)
  return {
    ...counts,
    minute: minute.toISOString(),
    p50Ms: latency.quantile(0.5),
    p99Ms: latency.quantile(0.99),
  }
}
