import type { RewardRouter, RouterServer } from '../router/router-types.ts'
import { readLoad } from '../router/server-admission.ts'

/** Between two looks at a server, ± 20 %: the processes that look must not do so together. */
const LOOK_EVERY_MS = 2_000
/** A server that does not tell is asked less and less often, but so often. */
const LOOK_SELDOM_MS = 60_000
const TICK_MS = 250
const TIMEOUT_MS = 1_000
/** What is older says nothing any more. */
const STALE_MS = 10_000
/** No engine has as many requests: whoever says so is wrong. */
const MAX_REQUESTS = 1e6

/** What an engine says it has to do at this moment, in requests. */
export interface ServerLoad {
  running: number
  waiting: number
}

/** What is known of one server. */
interface Watched {
  nextAtMs: number
  /** When it last told; the router has it until it is stale. */
  toldAtMs: number
  told: boolean
  /** Times in a row that it did not tell. */
  silent: number
  looking: boolean
}

/** What this needs; another `read` is for tests. */
export interface LoadWatchParts {
  router: Pick<RewardRouter, 'snapshot' | 'setLoad'>
  servers: () => readonly RouterServer[]
  read?: (server: RouterServer, timeoutMs: number) => Promise<ServerLoad | null>
}

/**
 * Reads what the engines themselves say they have to do, for the servers this process has work for: traffic that does
 * not come through us is seen there and nowhere else. Each process reads for itself; one GET in 2 s costs an engine nothing.
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
    // A server that left meanwhile, or came back as another, has another entry or none.
    if (load === null || this.#watched.get(server.id) !== watched) return
    watched.told = true
    watched.toldAtMs = askedAtMs
    this.#router.setLoad(server.id, load)
  }
}

/** The load where it can be one, else null. */
function sane(load: ServerLoad | null): ServerLoad | null {
  if (load === null) return null
  const possible = (n: number) => Number.isFinite(n) && n >= 0 && n <= MAX_REQUESTS
  return possible(load.running) && possible(load.waiting) ? load : null
}
