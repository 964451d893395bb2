import { ADAPTIVE_INITIAL_IN_FLIGHT } from '../contract/adaptive-limit.ts'
import { isOverridable, isTrusted } from '../contract/self-test-verdict.ts'
import { listedSettings, mostInFlight, type ServerDto } from '../contract/servers.ts'
import type { WorkerServerStats } from '../contract/worker-stats.ts'
import { LatencyHistogram } from '../router/latency-histogram.ts'
import type { RecentCalls } from '../store/sql/fleet.ts'
import type { ServerRow } from '../store/sql/servers.ts'

export interface SeenOfServer {
  stats: readonly WorkerServerStats[]
  recent: RecentCalls | undefined
  /** Requests to the server's whole pool in the last ten minutes. */
  poolRequests: number
  /** Name of another server with the same URL, or null if there is none. */
  twin: string | null
}

/** A server in the API's form, without its key. */
export function toServerDto(row: ServerRow, seen: SeenOfServer): ServerDto {
  const { stats, recent, poolRequests, twin } = seen
  const latency = recent?.latency_ms ? LatencyHistogram.from(recent.latency_ms) : null
  const test = row.selfTest
  return {
    ...listedSettings(row),
    id: `s${row.id}`,
    name: row.name,
    url: row.url,
    engine: row.engine,
    kind: row.kind,
    model: row.model,
    state: row.state,
    stateCause: row.stateCause,
    stateSince: row.stateSince.toISOString(),
    version: row.version,
    route: row.route,
    maxModelLen: row.maxModelLen,
    inFlight: sum(stats.map((s) => s.inFlight)),
    limit: limitOf(row, stats),
    requests: Number(row.requests),
    errors: Number(row.errors),
    retries: Number(row.retries),
    p50Ms: latency?.quantile(0.5) ?? null,
    p99Ms: latency?.quantile(0.99) ?? null,
    errorShare: recent && recent.requests > 0 ? Math.min(1, recent.errors / recent.requests) : null,
    requestsPerSecond: sum(stats.map((s) => s.requestsPerSecond)),
    share: poolRequests > 0 ? (recent?.requests ?? 0) / poolRequests : null,
    lastProbeAt: row.lastProbeAt?.toISOString() ?? null,
    selfTest: test && {
      verdict: test.verdict,
      raw: test.raw,
      activated: test.activated,
      calibration: test.calibration,
      calibrations: test.calibrations ?? [],
      detail: test.detail,
      at: test.at,
      overridden: row.selfTestOverride && !isTrusted(test.verdict) && isOverridable(test.verdict),
    },
    warnings:
      twin === null
        ? row.warnings
        : [...row.warnings, `has the same URL as ${twin}, with separate limits`],
    canSleep: row.canSleep,
    awakeUntil: row.awakeUntil?.toISOString() ?? null,
    launched: row.launch !== null,
    health: healthOf(stats),
    hasFixedLimit: row.maxInFlight !== null,
  }
}

function limitOf(row: ServerRow, stats: readonly WorkerServerStats[]): number {
  if (row.maxInFlight !== null) return row.maxInFlight
  const most = mostInFlight(null, row.maxConcurrent)
  // A process that has not used the server reports only its part of the initial limit, so its report is ignored.
  const found = stats.flatMap((s) => {
    const used = s.slots > 0 || s.inFlight > 0 || typeof s.tokensPerSecond === 'number'
    return s.limit === undefined || !used ? [] : [s.limit]
  })
  return Math.min(
    most,
    found.length > 0 ? Math.round(sum(found)) : ADAPTIVE_INITIAL_IN_FLIGHT[row.kind],
  )
}

function healthOf(stats: readonly WorkerServerStats[]): ServerDto['health'] {
  const health = { ok: 0, suspect: 0, ejected: 0, halfOpen: 0, slowStart: 0 }
  for (const { health: word = 'ok' } of stats) {
    const key = word === 'half_open' ? 'halfOpen' : word === 'slow_start' ? 'slowStart' : word
    health[key]++
  }
  return health
}

function sum(values: readonly number[]): number {
  return values.reduce((a, b) => a + b, 0)
}
