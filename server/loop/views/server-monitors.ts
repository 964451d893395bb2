import type { MonitorKind, ServerMonitorDto } from '../../wire/server-detail.ts'
import type { SelfTestDto, ServerState } from '../../wire/servers.ts'

/** What the monitors look at: one server of a pool, over the last ten minutes. */
export interface WatchedServer {
  id: string
  name: string
  model: string
  state: ServerState
  requests: number
  errors: number
  /** Refused as the request's own fault. */
  client: number
  /** Of the pool's ready servers' capacity, 0–1. */
  capacityShare: number
  /** Samples that failed here and were sent again, and how many of them here. */
  retries: number
  retriesBack: number
  selfTest: SelfTestDto | null
}

/** Fewer calls say nothing. */
const LEAST_CALLS = 20
const LEAST_CALLS_FOR_TIES = 100
const LEAST_RETRIES = 10

/** What is wrong with the servers of one pool, as far as these numbers tell. */
export function monitorPool(pool: readonly WatchedServer[]): ServerMonitorDto[] {
  const total = pool.reduce((n, s) => n + s.requests, 0)
  const ready = pool.filter((s) => s.state === 'ready')
  return pool.flatMap((server) => {
    const found: ServerMonitorDto[] = []
    const tell = (kind: MonitorKind, severity: 'warning' | 'error', text: string) => {
      const { id, name, model } = server
      found.push({ serverId: id, serverName: name, model, kind, severity, text })
    }
    const share = total > 0 ? server.requests / total : 0
    const failed = server.requests > 0 ? server.errors / server.requests : 0
    const enough = server.requests >= LEAST_CALLS
    if (
      pool.length > 1 &&
      enough &&
      server.capacityShare > 0 &&
      share >= 2 * server.capacityShare &&
      failed >= 0.5
    ) {
      tell(
        'black_hole',
        'error',
        `${server.name} gets ${percent(share)} of the calls with ${percent(server.capacityShare)} of the capacity, and fails ${percent(failed)} of them: it looks fast because it fails fast.`,
      )
    }
    if (ready.includes(server) && areEqual(ready) && total >= LEAST_CALLS_FOR_TIES && share > 0.6) {
      tell(
        'tie_collapse',
        'warning',
        `${server.name} gets ${percent(share)} of the calls of ${ready.length} equal servers: ties are broken its way.`,
      )
    }
    if (
      ready.length > 1 &&
      server.retries >= LEAST_RETRIES &&
      server.retriesBack > 0.5 * server.retries
    ) {
      tell(
        'sticky_retries',
        'warning',
        `${server.retriesBack} of ${server.retries} samples that failed on ${server.name} were sent to it again, though ${ready.length} servers are ready.`,
      )
    }
    const client = server.requests > 0 ? server.client / server.requests : 0
    if (enough && client > 0.05) {
      tell(
        'masked_client_errors',
        'warning',
        `${server.name} refuses ${percent(client)} of its calls as the request’s own fault (4xx): no retry helps those samples.`,
      )
    }
    const test = server.selfTest
    if (test?.verdict === 'differs') {
      tell('drift', 'error', `${server.name}: ${test.detail}`)
    } else if (test && SQUASHED.has(test.verdict)) {
      tell('squashed_scores', 'error', `${server.name}, self-test ${test.verdict}: ${test.detail}`)
    }
    return found
  })
}

const SQUASHED: ReadonlySet<string> = new Set(['squashed', 'inverted', 'truncated', 'unverified'])

/** At least three servers of the same capacity. */
function areEqual(servers: readonly WatchedServer[]): boolean {
  const shares = servers.map((s) => s.capacityShare)
  return servers.length >= 3 && Math.max(...shares) <= 1.1 * Math.min(...shares)
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`
}
