import type { ModelPool } from './model-pool.ts'
import type { PoolServer } from './pool-server.ts'

/** Shortest time between two notices for one server: what asks for a lease is a database round trip. */
const QUIET_MS = 50

/**
 * Tells the owner of the slots, coalesced, that samples wait which more slots would let go: at the end of the present
 * turn of the loop, and at most every 50 ms a server while the shortage lasts.
 */
export class DemandNotifier {
  readonly listeners = new Set<(serverId: number) => void>()
  readonly #timers = new Map<PoolServer, NodeJS.Timeout>()
  readonly #due = new Map<PoolServer, ModelPool>()
  #immediate: NodeJS.Immediate | null = null

  /** Samples of the pool wait and no server of it can take one. */
  poolIsShort(pool: ModelPool): void {
    if (this.listeners.size === 0) return
    const nowMs = performance.now()
    for (const server of pool.servers) {
      if (this.#timers.has(server)) continue
      if (!server.wantsSlots && !server.wantsPermits(nowMs)) continue
      this.#due.set(server, pool)
      const timer = setTimeout(() => {
        this.#timers.delete(server)
        // Samples that came in the quiet time may be all that will happen for long.
        if (pool.isShort) this.poolIsShort(pool)
      }, QUIET_MS)
      timer.unref()
      this.#timers.set(server, timer)
    }
    if (this.#due.size > 0) this.#immediate ??= setImmediate(() => this.#tell())
  }

  /** New slots were given: the next shortage is told at once. */
  slotsGiven(server: PoolServer): void {
    clearTimeout(this.#timers.get(server))
    this.#timers.delete(server)
  }

  close(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer)
    this.#timers.clear()
    this.#due.clear()
    this.listeners.clear()
    if (this.#immediate !== null) clearImmediate(this.#immediate)
    this.#immediate = null
  }

  #tell(): void {
    this.#immediate = null
    const due = [...this.#due]
    this.#due.clear()
    const nowMs = performance.now()
    for (const [server, pool] of due) {
      const lacksSlots = server.demand(pool.waiting, nowMs) > server.slots
      if (!lacksSlots && !server.wantsPermits(nowMs)) continue
      for (const listener of this.listeners) listener(server.id)
    }
  }
}
