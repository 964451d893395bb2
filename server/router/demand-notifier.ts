import type { ModelPool } from './model-pool.ts'
import type { PoolServer } from './pool-server.ts'

/**
 * Minimum time between two notifications for one server. Each causes a lease request, which is a database round trip.
 */
const QUIET_MS = 50

/**
 * Notifies its listeners that samples wait for slots or permits of a server. Notifications are combined at the end of
 * the current turn of the event loop, and are sent at most every 50 ms per server while the shortage lasts.
 */
export class DemandNotifier {
  readonly listeners = new Set<(serverId: number) => void>()
  readonly #timers = new Map<PoolServer, NodeJS.Timeout>()
  readonly #due = new Map<PoolServer, ModelPool>()
  #immediate: NodeJS.Immediate | null = null

  poolIsShort(pool: ModelPool): void {
    if (this.listeners.size === 0) return
    const nowMs = performance.now()
    for (const server of pool.servers) {
      if (this.#timers.has(server)) continue
      if (!server.wantsSlots && !server.wantsPermits(nowMs)) continue
      this.#due.set(server, pool)
      const timer = setTimeout(() => {
        this.#timers.delete(server)
        // Samples may have arrived in the meantime without another event that reports them.
        if (pool.isShort) this.poolIsShort(pool)
      }, QUIET_MS)
      timer.unref()
      this.#timers.set(server, timer)
    }
    if (this.#due.size > 0) this.#immediate ??= setImmediate(() => this.#notify())
  }

  /** Ends the quiet time of a server that was granted slots, so that its next shortage is reported without delay. */
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

  #notify(): void {
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
