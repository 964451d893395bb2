import type { FairQueue } from './fair-queue.ts'
import type { PoolServer } from './pool-server.ts'
import type { RoutedSample } from './routed-sample.ts'

/** Maximum number of groups remembered. The prompts of older groups are no longer in a server's prefix cache. */
const MAX_REMEMBERED_GROUPS = 4_096
/** A group stays with its server while the server's load is at most this multiple of the pool's mean. */
const BOUNDED_LOAD = 1.25

/**
 * Chooses the next sample and its server so that the samples of a group find their prompt in the server's prefix cache.
 * If the group of the next sample is bound to a server that is available and not overloaded, the sample goes there.
 * Otherwise the policy chooses a server. That server continues a group that it began, or else begins a group that has
 * no server. If all groups have servers, the server helps with the group that has the most work left.
 */
export class GroupBinding {
  readonly #queue: FairQueue<RoutedSample>
  readonly #servers: readonly PoolServer[]
  /** The server that began each group, oldest group first. */
  readonly #homes = new Map<string, PoolServer>()
  /** The server for the sample that {@link next} returned last. */
  server: PoolServer | null = null

  constructor(queue: FairQueue<RoutedSample>, servers: readonly PoolServer[]) {
    this.#queue = queue
    this.#servers = servers
  }

  /**
   * Returns the next sample without taking it, and sets {@link server}. Returns null if no waiting sample can use the
   * servers.
   */
  next(
    withRoom: readonly PoolServer[],
    pick: (servers: readonly PoolServer[], sample: RoutedSample) => PoolServer,
  ): RoutedSample | null {
    let head = this.#queue.peek()
    if (head === null) return null
    let usable = head.usableOf(withRoom)
    if (usable.length === 0) {
      head = this.#queue.peek((sample) => sample.usableOf(withRoom).length > 0)
      if (head === null) return null
      usable = head.usableOf(withRoom)
    }
    const server = pick(usable, head)
    this.server = server
    const { group } = head
    if (group === undefined || head.priorityClass === 'interactive') return head
    const home = this.#homes.get(group)
    if (home === undefined) return this.#ownSample(server) ?? this.#takeUp(head, server)
    if (home === server) return head
    if (usable.includes(home) && !this.#isOverloaded(home, head)) {
      this.server = home
      return head
    }
    const own = this.#ownSample(server)
    if (own !== null) return own
    const unbegun = this.#queue.peekUnbegun()
    if (unbegun?.canUse(server)) return this.#takeUp(unbegun, server)
    const heaviest = this.#queue.heaviestGroup()
    const helped = heaviest === null ? null : this.#queue.firstOfGroup(heaviest)
    return helped?.canUse(server) ? helped : head
  }

  /** Releases the groups of a server that was ejected, went silent or was removed. */
  orphan(server: PoolServer): void {
    for (const group of server.groups) this.#queue.releaseGroup(group)
    server.groups.length = 0
    for (const [group, home] of this.#homes) if (home === server) this.#homes.delete(group)
  }

  #takeUp(sample: RoutedSample, server: PoolServer): RoutedSample {
    const { group } = sample
    if (group === undefined) return sample
    server.groups.push(group)
    this.#homes.set(group, server)
    if (this.#homes.size > MAX_REMEMBERED_GROUPS) {
      const { value } = this.#homes.keys().next()
      if (value !== undefined) this.#homes.delete(value)
    }
    return sample
  }

  #ownSample(server: PoolServer): RoutedSample | null {
    const { groups } = server
    while (groups.length > 0) {
      const sample = this.#queue.firstOfGroup(groups[0] as string)
      if (sample !== null) return sample.canUse(server) ? sample : null
      groups.shift()
    }
    return null
  }

  #isOverloaded(home: PoolServer, sample: RoutedSample): boolean {
    let tokens = this.#queue.tokens
    let usable = 0
    for (const server of this.#servers) {
      if (server.slots === 0 || server.state !== 'ready') continue
      usable++
      tokens += server.workTokens
    }
    return home.workTokens + sample.tokens > (BOUNDED_LOAD * tokens) / Math.max(1, usable)
  }
}
