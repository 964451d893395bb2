import type { EngineLoad, RewardRouter, RouterServer } from '../router/router-types.ts'
import { readLoad } from '../router/server-admission.ts'

/** Interval between reads of one server's load, ± 20 % so that processes do not read at the same moment. */
const READ_MS = 2_000
/**
 * Longest interval for a server that reports no load. Each missed report after the second one in a row doubles
 * the interval.
 */
const MAX_READ_MS = 60_000
const TICK_MS = 250
const TIMEOUT_MS = 1_000
/** Loads older than this are discarded. */
const STALE_MS = 10_000
/** Higher counts are invalid: no engine has this many requests. */
const MAX_REQUESTS = 1e6

interface Watched {
  nextAtMs: number
  /** Time of the server's last report, which the router uses until it is stale. */
  reportedAtMs: number
  hasReport: boolean
  missedReports: number
  isReading: boolean
}

export interface LoadWatchParts {
  router: Pick<RewardRouter, 'snapshot' | 'setLoad'>
  servers: () => readonly RouterServer[]
  read?: (server: RouterServer, timeoutMs: number) => Promise<EngineLoad | null>
}

/**
 * Reads the load that the engines report, for servers for which this process has work. Only these reports show traffic
 * that does not come through rewardops. Each process reads for itself, because one GET every 2 s costs an engine almost
 * nothing.
 */
export class LoadWatch {
  readonly #router: LoadWatchParts['router']
  readonly #servers: () => readonly RouterServer[]
  readonly #read: NonNullable<LoadWatchParts['read']>
  readonly #watched = new Map<number, Watched>()
  readonly #timer: NodeJS.Timeout

  constructor(parts: LoadWatchParts) {
    this.#router = parts.router
    this.#servers = parts.servers
    this.#read = parts.read ?? readLoad
    this.#timer = setInterval(() => this.#tick(performance.now()), TICK_MS)
    this.#timer.unref()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  #tick(nowMs: number): void {
    const byId = new Map(this.#servers().map((server) => [server.id, server]))
    for (const [id, watched] of this.#watched) {
      if (!byId.has(id)) this.#watched.delete(id)
      else if (watched.hasReport && nowMs - watched.reportedAtMs > STALE_MS) {
        watched.hasReport = false
        this.#router.setLoad(id, null)
      }
    }
    for (const { serverId, state, inFlight, waiting } of this.#router.snapshot()) {
      const server = byId.get(serverId)
      if (server === undefined || state !== 'ready' || (inFlight === 0 && waiting === 0)) continue
      let watched = this.#watched.get(serverId)
      if (watched === undefined) {
        watched = {
          nextAtMs: 0,
          reportedAtMs: 0,
          hasReport: false,
          missedReports: 0,
          isReading: false,
        }
        this.#watched.set(serverId, watched)
      }
      if (!watched.isReading && nowMs >= watched.nextAtMs) void this.#readLoad(server, watched)
    }
  }

  async #readLoad(server: RouterServer, watched: Watched): Promise<void> {
    watched.isReading = true
    const startedAtMs = performance.now()
    const load = plausible(await this.#read(server, TIMEOUT_MS).catch(() => null))
    watched.isReading = false
    watched.missedReports = load === null ? watched.missedReports + 1 : 0
    const everyMs = Math.min(MAX_READ_MS, READ_MS * 2 ** Math.max(0, watched.missedReports - 2))
    watched.nextAtMs = startedAtMs + everyMs * (0.8 + 0.4 * Math.random())
    // The server may have been removed or replaced in the meantime.
    if (load === null || this.#watched.get(server.id) !== watched) return
    watched.hasReport = true
    watched.reportedAtMs = startedAtMs
    this.#router.setLoad(server.id, load)
  }
}

function plausible(load: EngineLoad | null): EngineLoad | null {
  if (load === null) return null
  const possible = (n: number) => Number.isFinite(n) && n >= 0 && n <= MAX_REQUESTS
  return possible(load.running) && possible(load.waiting) ? load : null
}
