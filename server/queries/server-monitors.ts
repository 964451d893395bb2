import type { MonitorKind, ServerMonitorDto } from '../contract/server-detail.ts'
import type { SelfTestDto, ServerDto, ServerState } from '../contract/servers.ts'
import { median } from '../median.ts'

/** The figures of a server over the last ten minutes, as input for the monitors. */
export interface WatchedServer {
  id: string
  name: string
  model: string
  state: ServerState
  inStateMs: number
  requests: number
  /** Failed calls of every class, including `client`, `busy` and `corrupt`. */
  errors: number
  /** Calls that failed because of the request: answered with 4xx, or with a withheld or empty reply of a judge. */
  client: number
  /** Calls refused with 429 or 503. */
  busy: number
  corrupt: number
  /** Median latency of the answered calls, or null if there are none. */
  p50Ms: number | null
  health: ServerDto['health']
  /** Share of the capacity of the pool's ready servers, 0–1. */
  capacityShare: number
  /**
   * `retries`: samples that failed on this server and were retried on any server. `retriesBack`: those that were
   * retried on this server again.
   */
  retries: number
  retriesBack: number
  selfTest: SelfTestDto | null
}

const MIN_CALLS = 20
const MIN_CALLS_FOR_TIES = 100
const MIN_RETRIES = 10
/** The window of all figures, ms. */
const WINDOW_MS = 600_000
const DEGRADED_FAILED_SHARE = 0.05
const DEGRADED_LATENCY_RATIO = 3
/**
 * Two servers whose figures differ by at most this much count as equal. The latency histogram's buckets alone can cause
 * a ratio of 1.19.
 */
const EQUAL_FAILED_SHARE = 0.01
const EQUAL_LATENCY_RATIO = 1.5

export function monitorPool(pool: readonly WatchedServer[]): ServerMonitorDto[] {
  const total = pool.reduce((n, s) => n + s.requests, 0)
  const ready = pool.filter((s) => s.state === 'ready')
  return pool.flatMap((server) => {
    const found: ServerMonitorDto[] = []
    const report = (kind: MonitorKind, severity: 'warning' | 'error', text: string) => {
      const { id, name, model } = server
      found.push({ serverId: id, serverName: name, model, kind, severity, text })
    }
    const share = total > 0 ? server.requests / total : 0
    const failed = shareOf(server.errors, server)
    const enough = server.requests >= MIN_CALLS
    const isBlackHole =
      pool.length > 1 &&
      enough &&
      server.capacityShare > 0 &&
      share >= 2 * server.capacityShare &&
      failed >= 0.5
    if (isBlackHole) {
      report(
        'black_hole',
        'error',
        `${server.name} gets ${percent(share)} of requests with ${percent(server.capacityShare)} of capacity, and ${percent(failed)} of its requests failed${classesText(server)}.`,
      )
    } else if (server.state === 'ready') {
      const degraded = degradedBy(server, ready)
      if (degraded !== null) {
        const isError = server.health.ejected > 0 || ownFailures(server) >= 0.25
        report('degraded', isError ? 'error' : 'warning', `${server.name}: ${degraded}.`)
      }
    }
    if (ready.includes(server) && total >= MIN_CALLS_FOR_TIES && share > 0.6 && areEqual(ready)) {
      report(
        'tie_collapse',
        'warning',
        `${server.name} gets ${percent(share)} of ${count(total)} requests. The ${ready.length} ready servers have the same capacity and are healthy, ${latenciesText(ready)}.`,
      )
    }
    const others = ready.filter((s) => s !== server && s.health.ejected === 0)
    if (
      others.length > 0 &&
      server.retries >= MIN_RETRIES &&
      server.retriesBack > 0.5 * server.retries
    ) {
      report(
        'sticky_retries',
        'warning',
        `${server.retriesBack} of ${server.retries} samples that failed on ${server.name} were retried on it, although ${others.length === 1 ? 'another server is' : `${others.length} other servers are`} ready and not ejected.`,
      )
    }
    const refused = shareOf(server.client, server)
    if (enough && refused > 0.05) {
      report(
        'masked_client_errors',
        'warning',
        `${server.name} refused ${percent(refused)} of ${count(server.requests)} requests (4xx, or a reply that was withheld or empty)${peersRefusedText(server, ready)}.`,
      )
    }
    const test = server.selfTest
    if (test?.verdict === 'differs') {
      report('drift', 'error', `${server.name}: ${test.detail}`)
    } else if (test && SQUASHED.has(test.verdict)) {
      report(
        'squashed_scores',
        'error',
        `${server.name}, self-test ${test.verdict}: ${test.detail}`,
      )
    }
    return found
  })
}

const SQUASHED: ReadonlySet<string> = new Set([
  'constant',
  'label_unknown',
  'squashed',
  'inverted',
  'truncated',
  'unverified',
])

/** Returns why a ready server is degraded (ejections, failures, latency), or null if it is healthy. */
function degradedBy(server: WatchedServer, ready: readonly WatchedServer[]): string | null {
  const parts: string[] = []
  const { health, requests } = server
  if (health.ejected > 0) {
    const processes =
      health.ok + health.suspect + health.ejected + health.halfOpen + health.slowStart
    parts.push(
      `ejected in ${health.ejected} of ${processes} ${processes === 1 ? 'process' : 'processes'}`,
    )
  }
  const enough = requests >= MIN_CALLS
  if (enough && ownFailures(server) >= DEGRADED_FAILED_SHARE) {
    parts.push(
      `${percent(ownFailures(server))} of ${count(requests)} requests failed${classesText(server)}`,
    )
  }
  const peers = ready.filter((s) => s !== server && s.requests >= MIN_CALLS)
  const usual = median(peers.flatMap(({ p50Ms }) => p50Ms ?? []))
  if (enough && server.p50Ms !== null && usual > 0) {
    const ratio = server.p50Ms / usual
    if (ratio >= DEGRADED_LATENCY_RATIO) {
      parts.push(
        `p50 ${duration(server.p50Ms)}, ${ratio.toFixed(1)} × the ${duration(usual)} of ${peers.length === 1 ? 'its peer' : `its ${peers.length} peers`}`,
      )
    }
  }
  return parts.length === 0 ? null : parts.join('; ')
}

/** Returns the share of failed calls, except those of the class `client`, which have their own monitor. */
function ownFailures(server: WatchedServer): number {
  return shareOf(server.errors - server.client, server)
}

function classesText(server: WatchedServer): string {
  const { busy, corrupt, client, errors } = server
  const classes = [
    [errors - client - busy - corrupt, 'errors or timeouts'],
    [busy, 'busy'],
    [corrupt, 'invalid responses'],
    [client, 'refused'],
  ] as const
  const named = classes.filter(([n]) => n > 0)
  return named.length === 0
    ? ''
    : ` (${named.map(([n, word]) => `${percent(shareOf(n, server))} ${word}`).join(', ')})`
}

function peersRefusedText(server: WatchedServer, ready: readonly WatchedServer[]): string {
  const peers = ready.filter((s) => s !== server && s.requests >= MIN_CALLS)
  if (peers.length === 0) return ''
  const calls = peers.reduce((n, s) => n + s.requests, 0)
  const refused = peers.reduce((n, s) => n + s.client, 0) / calls
  return `, against ${percent(refused)} of its peers’ ${count(calls)}`
}

function areEqual(servers: readonly WatchedServer[]): boolean {
  const capacities = servers.map((s) => s.capacityShare)
  const latencies = servers.flatMap(({ p50Ms }) => p50Ms ?? [])
  return (
    servers.length >= 3 &&
    Math.max(...capacities) <= 1.1 * Math.min(...capacities) &&
    Math.max(...latencies) <= EQUAL_LATENCY_RATIO * Math.min(...latencies) &&
    servers.every((s) => {
      const { suspect, ejected, halfOpen, slowStart } = s.health
      return (
        s.inStateMs >= WINDOW_MS &&
        suspect + ejected + halfOpen + slowStart === 0 &&
        shareOf(s.errors, s) <= EQUAL_FAILED_SHARE
      )
    })
  )
}

function latenciesText(servers: readonly WatchedServer[]): string {
  const latencies = servers.flatMap(({ p50Ms }) => p50Ms ?? [])
  if (latencies.length === 0) return 'none has a latency yet'
  const [least, most] = [Math.min(...latencies), Math.max(...latencies)].map(duration)
  return `p50 ${least === most ? least : `${least} to ${most}`}${latencies.length < servers.length ? ` (of ${latencies.length} with requests)` : ''}`
}

function shareOf(n: number, { requests }: WatchedServer): number {
  // A call is counted when it begins, and its failure when it ends, so a window may have more failures than requests.
  return requests > 0 ? Math.min(1, n / requests) : 0
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`
}

function count(n: number): string {
  return n.toLocaleString('en-US')
}

function duration(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`
}
