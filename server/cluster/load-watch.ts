import type { RewardRouter, RouterServer } from '../router/router-types.ts'
import { readLoad } from '../router/server-admission.ts'

/** Interval between reads of one server's load, ± 20 % so that processes do not read at the same moment. */
const LOOK_EVERY_MS = 2_000
/** A server that reports no load is read less and less often, down to this interval. */
const LOOK_SELDOM_MS = 60_000
const TICK_MS = 250
const TIMEOUT_MS = 1_000
/** Older loads are discarded. */
const STALE_MS = 10_000
/** Higher counts are invalid: no engine has this many requests. */
const MAX_REQUESTS = 1e6

/** An engine's own report of its load, in requests. */
export interface ServerLoad {
  running: number
  waiting: number
}

/** The state of one watched server. */
interface Watched {
  nextAtMs: number
  /** Time of its last report; the router has it until it is stale. */
  toldAtMs: number
  told: boolean
  /** Consecutive reads without a report. */
  silent: number
  looking: boolean
}

/** Dependencies of a `LoadWatch`; tests replace `read`. */
export interface LoadWatchParts {
  router: Pick<RewardRouter, 'snapshot' | 'setLoad'>
  servers: () => readonly RouterServer[]
  read?: (server: RouterServer, timeoutMs: number) => Promise<ServerLoad | null>
}

/**
 * Reads the engines' own load reports, for servers this process has work for. Only these reports show traffic that does
 * not come through rewardops. Each process reads for itself; one GET every 2 s costs an engine nothing.
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
      else if (watched.told && nowMs - watched.toldAtMs > STALE_MS) {
        watched.told = false
        this.#router.setLoad(id, null)
      }
    }
    for (const { serverId, state, inFlight, waiting } of this.#router.snapshot()) {
      const server = byId.get(serverId)
      if (server === undefined || state !== 'ready' || (inFlight === 0 && waiting === 0)) continue
      let watched = this.#watched.get(serverId)
      if (watched === undefined) {
        watched = { nextAtMs: 0, toldAtMs: 0, told: false, silent: 0, looking: false }
        this.#watched.set(serverId, watched)
      }
      if (!watched.looking && nowMs >= watched.nextAtMs) void this.#look(server, watched)
    }
  }

  async #look(server: RouterServer, watched: Watched): Promise<void> {
    watched.looking = true
    const askedAtMs = performance.now()
    const load = sane(await this.#read(server, TIMEOUT_MS).catch(() => null))
    watched.looking = false
    watched.silent = load === null ? watched.silent + 1 : 0
    const everyMs = Math.min(LOOK_SELDOM_MS, LOOK_EVERY_MS * 2 ** Math.max(0, watched.silent - 2))
    watched.nextAtMs = askedAtMs + everyMs * (0.8 + 0.4 * Math.random())
    // A server that was removed or replaced in the meantime has another entry or none.
    if (load === null || this.#watched.get(server.id) !== watched) return
    watched.told = true
    watched.toldAtMs = askedAtMs
    this.#router.setLoad(server.id, load)
  }
}

/** The load if its numbers are plausible, else null. */
function sane(load: ServerLoad | null): ServerLoad | null {
  if (load === null) return null
  const possible = (n: number) => Number.isFinite(n) && n >= 0 && n <= MAX_REQUESTS
  return possible(load.running) && possible(load.waiting) ? load : null
}
